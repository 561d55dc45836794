// What a shadow would have done, in a line.

import type { ShadowStateJson as Shadow } from "@setpoint-dev/client/json";
import { duration, integer, seconds } from "./format";

/** As in setpoint targets get: the counts now, how many decisions differ, and the replicas of both. */
export function shadowLine(s: Shadow): string {
  if (s.problem) return `off: ${s.problem}`;
  const compared = Number(s.comparedDecisions ?? 0);
  if (compared === 0) return "nothing is decided yet";
  const different = Number(s.differentDecisions ?? 0);
  const live = Number(s.liveReplicaSeconds ?? 0);
  const percent = (part: number, of: number) => `${Number(((100 * part) / of).toPrecision(3))} %`;
  const largest = s.largestDifference ?? 0;
  let line = `${integer(s.desiredReplicas ?? 0)} beside ${integer(s.liveReplicas ?? 0)}, ${integer(different)} of ${integer(compared)} decisions differ (${percent(different, compared)})`;
  if (different > 0) line += `, by up to ${largest > 0 ? "+" : ""}${largest}`;
  if (live > 0) line += `; ${percent(Number(s.shadowReplicaSeconds ?? 0), live)} of the replicas over ${duration(1000 * (seconds(s.observedDuration) ?? 0))}`;
  return line;
}
