// The bounds that were in force, by the record: never by the spec of today.

import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { millis } from "./format";

/** The bounds from an instant, s, on; null: unknown. */
export interface Bounds {
  at: number;
  min: number | null;
  max: number | null;
}

/** What a recording says (Recorded in the playground's engine): the bounds by instants in ms, where they change, without numbers where unknown; and all decisions. */
export interface RecordedBounds {
  bounds: number[][] | null;
  counts: [number, number][] | null;
}

const known = (d: Decision): boolean => d.basis?.maxReplicas !== undefined;

/** Whether only a recording can say where the bounds changed: the log leaves out repeats, and the bounds of changes that another instance was told of. One decision alone is the record's, which has no bounds and may come before the log. */
export function needsRecording(decisions: readonly Decision[]): boolean {
  const settled = decisions.filter((d) => d.outcome !== "PENDING");
  const first = settled[0]?.basis;
  return settled.length > 1 && settled.some((d) => !known(d) || d.basis?.minReplicas !== first?.minReplicas || d.basis?.maxReplicas !== first?.maxReplicas);
}

/** The bounds at each instant, where they change: of a recording as far as it goes, and of decisions for the rest. */
export function boundsOver(decisions: readonly Decision[], recorded: RecordedBounds | undefined): Bounds[] {
  const counts = recorded?.counts ?? [];
  const end = counts.length ? counts.at(-1)![0] / 1000 : -Infinity;
  const of = (recorded?.bounds ?? []).map(([at, min, max]) => ({ at: at! / 1000, min: min ?? null, max: max ?? null, recorded: true }));
  const told = decisions.map((d) => ({ at: millis(d.time) / 1000, min: known(d) ? d.basis?.minReplicas ?? 0 : null, max: d.basis?.maxReplicas ?? null, recorded: false }));
  const out: Bounds[] = [];
  let covered = false;
  for (const { recorded, ...b } of [...of, ...told].sort((x, y) => x.at - y.at)) {
    if (recorded) covered = b.max !== null;
    else if (covered && b.at <= end) continue; // the recording has this decision, too, and its bounds are in force
    const last = out.at(-1);
    if (last?.min !== b.min || last.max !== b.max) out.push(b);
  }
  return out;
}

/** The bounds at the start of a span, s, and where they change in it. */
export function within(bounds: readonly Bounds[], from: number, to: number): Bounds[] {
  const before = bounds.filter((b) => b.at <= from).at(-1);
  const after = bounds.filter((b) => b.at > from && b.at <= to);
  return before ? [{ ...before, at: from }, ...after] : after;
}
