// How much time a chart of replicas shows, and what its colours mean.

import type { ComponentChildren } from "preact";
import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { forecast } from "../lib/adjustments";
import { duration } from "../lib/format";
import { gapOf, gaps, gapStrength } from "./charts";

export const spans: readonly { id: string; label: string; seconds: number }[] = [
  { id: "15m", label: "15 min", seconds: 900 },
  { id: "1h", label: "1 h", seconds: 3600 },
  { id: "6h", label: "6 h", seconds: 21600 },
  { id: "all", label: "All", seconds: Infinity },
];

/** The id of the span that is shown without a choice. */
export const usual = "1h";

/** Buttons for the spans; known is how much of the past is kept, s. */
export function Spans(props: { id: string; known: number; choose: (id: string) => void; children?: ComponentChildren }) {
  const { id, known } = props;
  return (
    <div class="segments" role="group" aria-label="Time shown">
      {spans.map((s) => (
        <button key={s.id} aria-pressed={s.id === id} title={s.seconds > known ? `${duration(known * 1000)} are kept` : undefined} onClick={() => props.choose(s.id)}>{s.label}</button>
      ))}
      {props.children}
    </div>
  );
}

export function Legend(props: { decisions: readonly Decision[]; ahead: boolean; scheduled: boolean }) {
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
      {props.scheduled && <span><i class="l-scheduled" />bounds by schedules</span>}
      <span class="l-up">▲ up</span>
      <span class="l-down">▼ down</span>
    </div>
  );
}
