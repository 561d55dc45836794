// How much time a chart of replicas shows, and what its colours mean.

import type { ComponentChildren } from "preact";
import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { forecast } from "../lib/adjustments";
import { duration, localTime } from "../lib/format";
import { day } from "../lib/points";
import { changeQuery } from "../router";
import { gapOf, gaps, gapStrength, type Span } from "./charts";

export const spans: readonly { id: string; label: string; seconds: number }[] = [
  { id: "15m", label: "15 min", seconds: 900 },
  { id: "1h", label: "1 h", seconds: 3600 },
  { id: "6h", label: "6 h", seconds: 21600 },
  { id: "24h", label: "24 h", seconds: day },
  { id: "all", label: "All", seconds: Infinity },
];

/** The id of the span that is shown without a choice. */
export const usual = "1h";

/** The shortest time that is shown, s. */
const shortest = 10;

/** From where to where an id shows, s of Unix time; undefined: not between two instants. */
function between(id: string): [from: number, to: number] | undefined {
  const found = /^(\d{9,11})-(\d{9,11})$/.exec(id);
  const [from, to] = [Number(found?.[1]), Number(found?.[2])];
  return to > from ? [from, Math.max(to, from + shortest)] : undefined;
}

/** Shows the time between two instants, s of Unix time, or the usual one, by an address that others can open. */
export function select(range?: [from: number, to: number]): void {
  changeQuery({ span: range ? `${Math.floor(range[0])}-${Math.ceil(range[1])}` : "" });
}

/** What an id shows: between two instants, or of so much before now, as far as it is known. ahead is how much is known to come, s. */
export function spanOf(id: string, now: number, first: number, ahead: number): { span: Span; length: number } {
  const [from, to] = between(id) ?? [];
  if (from !== undefined && to !== undefined) return { span: { from, now, to }, length: now - from };
  const length = spans.find((x) => x.id === id)?.seconds ?? 3600;
  const start = Math.max(now - length, Math.min(first, now - 300));
  return { span: { from: start, now, to: now + Math.max((now - start) * 0.06, Math.min(ahead, (now - start) * 0.35)) }, length };
}

/** What a comparison with the day before shows, in words; known is how much of the past is kept, s. */
export const comparison = (compared: boolean, span: Span, known: number): string =>
  !compared ? "" : span.now - known + day < span.to ? "count a day before" : "no count of the day before is kept";

/** Buttons for the spans; known is how much of the past is kept, s. compared: the day before is shown, too. */
export function Spans(props: { id: string; known: number; compared: boolean; children?: ComponentChildren }) {
  const { id, known, compared } = props;
  const range = between(id);
  return (
    <div class="segments" role="group" aria-label="Time shown">
      {spans.map((s) => (
        <button key={s.id} aria-pressed={s.id === id} title={s.seconds > known ? `${duration(known * 1000)} are kept` : undefined} onClick={() => changeQuery({ span: s.id === usual ? "" : s.id })}>{s.label}</button>
      ))}
      {props.children}
      {known > day && <button aria-pressed={compared} title="The counts of the day before, at the same time of day" onClick={() => changeQuery({ compare: compared ? "" : "day" })}>Day before</button>}
      {range && <button aria-pressed title="Back to the last hour" onClick={() => select()}>{localTime(range[0] * 1000)} – {localTime(range[1] * 1000)} ✕</button>}
    </div>
  );
}

export function Legend(props: { decisions: readonly Decision[]; ahead: boolean; scheduled: boolean; compared: string }) {
  const tones = new Set(props.decisions.slice(-500).map(gapOf));
  return (
    <div class="legend" aria-hidden="true">
      <span><i class="l-count" />count</span>
      <span><i class="l-proposal" />metrics ask for</span>
      {gaps.filter((g) => tones.has(g.tone)).map((g) => (
        <span key={g.tone}><i class="l-gap" style={{ background: `color-mix(in srgb, var(--${g.tone}) ${gapStrength * 100}%, transparent)` }} />{g.label}</span>
      ))}
      {props.decisions.some((d) => forecast(d) !== undefined) && <span><i class="l-forecast" />forecast</span>}
      {props.ahead && <span><i class="l-future" />if metrics stay</span>}
      {props.compared && <span><i class="l-before" />{props.compared}</span>}
      {props.scheduled && <span><i class="l-scheduled" />bounds by schedules</span>}
      <span class="l-up">▲ up</span>
      <span class="l-down">▼ down</span>
      {props.decisions.some((d) => d.outcome === "FAILED") && <span class="l-failed">✕ failed</span>}
    </div>
  );
}
