// The link from a target to the playground.

import type { DecisionJson as Decision, TargetJson as Target } from "@setpoint-dev/client/json";
import { counts } from "../lib/decisions";
import { millis } from "../lib/format";
import { isSame, newestAt, reading } from "../lib/metrics";
import { playgroundPath } from "../playground/link";

/** The playground with the spec in use, and the load that this target's decisions recorded. */
export function tryPath(title: string, target: Target, decisions: readonly Decision[], usually: number): string {
  const load: [number, number][] = [];
  const was: [number, number][] = [];
  let replicas: number | undefined;
  const of = newestAt(decisions, 0); // of the metric that is tried, not of one of an earlier spec
  for (const d of decisions.slice(-500)) {
    const known = counts(d);
    if (known) was.push([millis(d.time), known.after]);
    const m = d.currentMetrics?.[0];
    const r = m ? reading(m) : undefined;
    if (!r || !isSame(r, of) || !Number.isFinite(r.number)) continue;
    // An average is per replica; the load is the total.
    const total = r.kind === "total" ? r.number : r.number * (d.currentReplicas ?? 0);
    load.push([millis(d.time), Math.round(total * 1000) / 1000]);
    replicas ??= d.currentReplicas;
  }
  const recorded = "Load of this target's last decisions, by its first metric.";
  const from = target.specInUse ?? target.targetSpec;
  const told = !from?.spec ? "The spec in use is unknown: paste it in place of this example."
    : target.specInUse ? "Both tabs have the spec in use: edit one and compare." : "Both tabs have the stored spec; which one callers use is unknown.";
  const overridden = decisions.some((d) => d.adjustments?.some((a) => a.stage === "OVERRIDE")) ? " Overrides were in force meanwhile. They are not in these tabs: as text, the scenario can have them as events." : "";
  return playgroundPath({ recording: target.name, title, lesson: `${recorded} ${told}${overridden}`, spec: from?.spec, options: from?.options, stages: from?.stages, interval: usually / 1000, load, counts: was, replicas });
}
