// Decisions of one target, from the log and from the stream.

import type { DecisionJson as Decision, DecisionBasisJson as DecisionBasis } from "@setpoint-dev/client/json";
import { turned } from "./adjustments";
import { millis } from "./format";

/** Decisions that are kept at once. */
export const most = 5000;

/** The digits of a second's parts, all nine: several decisions may be made in one millisecond. */
const fraction = (time: string | undefined): string => (/\.(\d+)/.exec(time ?? "")?.[1] ?? "").padEnd(9, "0");

/** The scale could not be read: the decision's counts are the last known ones. */
export const unread = (d: Decision): boolean => d.states?.includes("SCALE_UNREADABLE") ?? false;

/** The counts before a decision, as decided, and after it as far as is known; undefined where none was ever read. */
export function counts(d: Decision): { from: number; to: number; after: number } | undefined {
  const from = d.currentReplicas ?? 0;
  if (from === 0 && unread(d)) return undefined;
  return { from, to: d.desiredReplicas ?? 0, after: reached(d) };
}

/** Whether a decision changes the count. */
export const changes = (d: Decision): boolean => (d.currentReplicas ?? 0) !== (d.desiredReplicas ?? 0);

/** The count that a decision came to, as far as is known: one whose change is pending, failed or was never made left it as it was. */
export const reached = (d: Decision): number => (d.outcome === "APPLIED" ? d.desiredReplicas : d.currentReplicas) ?? 0;

/** Whether the count changed, as far as is known. */
export const changed = (d: Decision): boolean => reached(d) !== (d.currentReplicas ?? 0);

/** When the count was changed last, NaN: never; what an override changed is in the log only. */
export const lastChange = (scaled: string | undefined, log: readonly Decision[]): number => {
  const logged = millis(log.filter(changed).at(-1)?.time), status = millis(scaled);
  return Number.isNaN(logged) || status > logged ? status : logged;
};

/** Replicas that the metrics ask for beyond what was decided, whether or not it was applied. */
export const lacking = (proposal: number, decided: number): number => Math.max(0, proposal - decided);

/** Whether a decision is one of the changes: of the count, one that failed, or overrides that begin or end. */
export const told = (d: Decision): boolean => changes(d) || d.outcome === "FAILED" || turned(d) > 0;

/** What the newest decisions that know it were made within, number by number. */
export function basisOf(decisions: readonly Decision[]): DecisionBasis {
  for (let i = decisions.length - 1; i >= 0 && i >= decisions.length - 200; i--) {
    const b = decisions[i]!.basis;
    if (b?.maxReplicas !== undefined) return b;
  }
  return {};
}

/**
 * The usual time between two calls, ms; 0: unknown. It is the service's, which an outage lengthens for a minute or more, unless three quarters of the
 * newest gaps are shorter: the log may leave decisions out, so its gaps are never too short, and calls may come twice in a row.
 */
export function usually(interval: number, decisions: readonly Decision[]): number {
  const times = decisions.slice(-17).map((d) => millis(d.time));
  const gaps = times.slice(1).map((t, i) => t - times[i]!).sort((a, b) => a - b);
  return gaps.length < 4 ? interval : Math.min(interval, gaps[Math.floor((gaps.length - 1) * 0.75)]!);
}

/** Puts decisions in their places: by time, each once, as it was told of last. */
export function merge(known: readonly Decision[], more: readonly Decision[]): Decision[] {
  const byId = new Map<string, Decision>();
  for (const d of [...known, ...more]) {
    const id = d.recommendationId || `${d.time} ${d.desiredReplicas}`;
    const before = byId.get(id);
    // The known outcome of a change is kept.
    if (before?.outcome && before.outcome !== "PENDING" && d.outcome === "PENDING") continue;
    // Of the basis the record has only the proposal.
    byId.set(id, d.basis?.maxReplicas !== undefined || !before?.basis ? d : { ...d, basis: before.basis });
  }
  return [...byId.values()].sort((a, b) => millis(a.time) - millis(b.time) || (fraction(a.time) < fraction(b.time) ? -1 : 1)).slice(-most);
}
