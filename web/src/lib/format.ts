// Numbers, durations and instants for people.

/** Milliseconds of Unix time of an RFC 3339 instant; NaN: there is none. */
export function millis(time: string | undefined): number {
  return time ? Date.parse(time) : NaN;
}

/** Seconds of a duration as the API writes it, such as "300s"; undefined: there is none. */
export function seconds(d: unknown): number | undefined {
  const m = typeof d === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(d) : null;
  return m ? Number(m[1]) : undefined;
}

/** "1 replica", "3 replicas". */
export function count(n: number, what: string): string {
  return `${integer(n)} ${what}${n === 1 ? "" : "s"}`;
}

/** 12 345, with thin spaces, which no locale misreads. */
export function integer(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** "45 s", "3 min 20 s", "30 min", "2 h 5 min", "1 d 12 h". Of milliseconds, at least 0. */
export function duration(ms: number): string {
  const of = (n: number, size: number, large: string, small: string) => `${Math.floor(n / size)} ${large}${n % size ? ` ${n % size} ${small}` : ""}`;
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 600) return of(s, 60, "min", "s");
  const m = Math.round(s / 60);
  if (m < 60) return `${m} min`;
  return m < 1440 ? of(m, 60, "h", "min") : of(Math.round(s / 3600), 24, "d", "h");
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** "just now", "45 s ago", "in 3 min". */
export function relative(time: number, now: number): string {
  if (Number.isNaN(time)) return "never";
  const d = now - time;
  if (Math.abs(d) < 1500) return "just now";
  return d > 0 ? `${short(d)} ago` : `in ${short(-d)}`;
}

/** The largest unit only: "45 s", "3 min", "2 h", "3 d". */
function short(ms: number): string {
  const [s, m, h] = [1000, 60_000, 3600_000].map((unit) => Math.round(ms / unit)) as [number, number, number];
  return s < 60 ? `${s} s` : m < 60 ? `${m} min` : h < 24 ? `${h} h` : `${Math.round(h / 24)} d`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayClock = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

/** The clock in the user's zone. */
export const localClock = (time: number): string => (Number.isNaN(time) ? "–" : clock.format(time));

/** Date and clock in the user's zone. */
export const localTime = (time: number): string => (Number.isNaN(time) ? "never" : dayClock.format(time));

/** The zone of these clocks, such as "Europe/Berlin": the user's when the page was loaded. */
export const localZone = (): string => dayClock.resolvedOptions().timeZone;

/** "2026-11-22 21:40:07 UTC". */
export function utc(time: number): string {
  if (Number.isNaN(time)) return "";
  return `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const suffixes: Record<string, number> = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** The number of a Kubernetes quantity, for drawing; NaN where it is none. */
export function quantity(text: string | undefined): number {
  const parts = /^([+-]?\d*\.?\d+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(text ?? "");
  if (!parts) return NaN;
  const factor = suffixes[parts[2]!];
  return factor === undefined ? NaN : Number(parts[1]) * factor;
}

/** A number with about three digits that matter, or as many as told: 0.25, 12.5, 1.2k, 3.4M. */
export function compact(n: number, digits = 3): string {
  if (!Number.isFinite(n)) return "–";
  const a = Math.abs(n);
  const least = 1 - 0.5 * 10 ** -digits; // what is rounded to 1
  if (a !== 0 && (a < 0.001 || a >= 1e21 * least)) return n.toExponential(1);
  for (const [factor, suffix] of [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (a >= factor * least) return trim((n / factor).toPrecision(digits)) + suffix;
  }
  return trim(n.toPrecision(digits));
}

/** The largest count that lists have whole. */
export const largest = 9999;

/** A count where there is little room: "9 999", "12.3k". */
export const brief = (n: number): string => (n > largest ? compact(n) : integer(n));

const trim = (s: string): string => (s.includes(".") ? s.replace(/\.?0+$/, "") : s);

/** "512 B", "1.5 MiB". */
export function bytes(n: number): string {
  if (!Number.isFinite(n)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (n >= 1023.5 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 || n >= 999.5 ? integer(n) : trim(n.toPrecision(3))} ${units[i]}`;
}
