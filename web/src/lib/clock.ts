// Clocks of charts: in the user's zone, or in a named one.

const clocks = new Map<string, Clock>();

interface Clock {
  minutes: Intl.DateTimeFormat;
  seconds: Intl.DateTimeFormat;
  weekday: Intl.DateTimeFormat;
  day: Intl.DateTimeFormat;
}

/** The clock of a zone; of one that the browser does not know, and of none, the user's. */
function clockOf(zone: string | undefined): Clock {
  const known = clocks.get(zone ?? "");
  if (known) return known;
  const of = (timeZone: string | undefined, more: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone, ...more });
  const made = (timeZone: string | undefined): Clock => ({
    minutes: of(timeZone, {}),
    seconds: of(timeZone, { second: "2-digit" }),
    weekday: of(timeZone, { second: "2-digit", weekday: "short" }),
    day: new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone }),
  });
  let clock: Clock;
  try {
    clock = made(zone || undefined);
  } catch {
    clock = made(undefined);
  }
  clocks.set(zone ?? "", clock);
  return clock;
}

/** Whether the browser knows a zone. */
export function knownZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat(undefined, { timeZone: zone }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** Labels of a time axis, s of Unix time, in a zone; none: the user's. */
export function timeLabels(splits: readonly number[], zone?: string): string[] {
  const clock = clockOf(zone);
  const step = (splits[1] ?? 0) - (splits[0] ?? 0);
  let last = "";
  return splits.map((s, i) => {
    const date = new Date(s * 1000);
    const text = step < 60 ? clock.seconds.format(date) : clock.minutes.format(date);
    const today = clock.day.format(date);
    const first = i > 0 && today !== last && last !== "";
    last = today;
    return first || step >= 86400 ? today : text;
  });
}

/** An instant, s of Unix time, as "14:30:00", or as "Mon 14:30:00". */
export const timeOfDay = (s: number, zone?: string, weekday = false): string => clockOf(zone)[weekday ? "weekday" : "seconds"].format(new Date(s * 1000));
