// A target's states, as the service tells them: their words, their order and their colours. The
// rule is the service's (Decision.states, Target.interval, Target.turn_times).

import type { DecisionJson as Decision, HorizontalPodAutoscalerConditionJson as Condition, TargetJson as Target } from "@setpoint-dev/client/json";
import { millis } from "./format";

/** States as bits, for a target may be in several: the higher, the more urgent. */
export const Unread = 1 << 15;
export const NotAsked = 1 << 14;
export const Unreadable = 1 << 13;
export const Invalid = 1 << 12;
export const Failing = 1 << 11;
export const UpdateFailed = 1 << 10;
export const Overridden = 1 << 9;
export const AtMax = 1 << 8;
export const Flapping = 1 << 7;
export const Disabled = 1 << 6;
export const Limited = 1 << 5;
export const Held = 1 << 4;
export const Unknown = 1 << 3;
export const Pending = 1 << 2;
export const AtMin = 1 << 1;
export const Changed = 1;

/** Nothing is computed, or nothing is done with it. */
export const Broken = Unread | NotAsked | Unreadable | Invalid | Failing | UpdateFailed;

export interface StateInfo {
  bit: number;
  /** In the URL, as in `setpoint targets list --state`. */
  id: string;
  /** The service's word; empty: it has none. */
  word: string;
  /** On a tile, and on a chip. */
  label: string;
  chip: string;
  /** A mark that tells it without its colour, and the colour. */
  mark: string;
  tone: string;
  /** Whether it has a tile even if no target is in it. */
  tile: boolean;
  /** The condition that tells of it. */
  condition: string;
  /** One sentence. */
  help: string;
}

const state = (bit: number, id: string, word: string, label: string, chip: string, mark: string, tone: string, tile: boolean, condition: string, help: string): StateInfo =>
  ({ bit, id, word, label, chip, mark, tone, tile, condition, help });

/** The states, most urgent first. */
export const states: readonly StateInfo[] = [
  state(Unread, "unread", "", "Record unreadable", "Unread", "✕", "failing", false, "", "Nothing was decided, or the service can't read the record: it is damaged, or of a newer version. Then it refuses the target's calls."),
  state(NotAsked, "not-asked", "", "Not asked", "Not asked", "?", "failing", true, "", "Nobody asked for three of its intervals, or for 15 minutes after the first call: Setpoint does not scale it now. Its agent does not run, gives way to another autoscaler, or is refused."),
  state(Unreadable, "unreadable", "SCALE_UNREADABLE", "Scale unreadable", "No scale", "✕", "failing", false, "AbleToScale", "The workload's count can't be read."),
  state(Invalid, "invalid", "INVALID", "Invalid", "Invalid", "✕", "failing", false, "ScalingActive", "The spec or the selector is invalid: nothing can be decided."),
  state(Failing, "failing", "METRICS_FAILING", "Failing metrics", "Failing", "✕", "failing", true, "ScalingActive", "A metric can't be read or computed. The count does not go down then."),
  state(UpdateFailed, "refused", "UPDATE_FAILED", "Change refused", "Refused", "✕", "failing", false, "AbleToScale", "The caller could not apply the last change."),
  state(Overridden, "overridden", "OVERRIDDEN", "Overridden", "Overridden", "✋", "held", false, "Overridden", "An override holds, sets or limits the count, until it ends."),
  state(AtMax, "max", "AT_MAXIMUM", "At maximum", "At max", "⊤", "atmax", true, "ScalingLimited", "The metrics, now or within the window, ask for more replicas than maxReplicas allows."),
  state(Flapping, "flapping", "", "Flapping", "Flapping", "⇅", "flapping", true, "", "The count turned round three times or more within the last hour."),
  state(Disabled, "disabled", "DISABLED", "Disabled", "Disabled", "○", "calm", false, "ScalingActive", "Someone set the count to 0: nothing scales it until someone sets another."),
  state(Limited, "limited", "LIMITED", "Rate limited", "Limited", "≈", "limited", true, "ScalingLimited", "A scaling policy lets the count change only in part."),
  state(Held, "held", "HELD", "Held", "Held", "‖", "held", true, "AbleToScale", "A stabilization window or a delay holds the count."),
  state(Unknown, "unknown", "", "Unknown", "Unknown", "?", "calm", false, "", "An older version of the service decided, an override has ended since, or its fleet has not decided or is not known here: its states are not known."),
  state(Pending, "pending", "", "Pending", "Pending", "…", "calm", false, "", "A change was decided; its outcome is not known yet."),
  state(AtMin, "min", "AT_MINIMUM", "At minimum", "At min", "⊥", "calm", false, "ScalingLimited", "The metrics ask for fewer replicas than minReplicas allows."),
  state(Changed, "changed", "", "Changed, last hour", "", "Δ", "changed", true, "", "The count changed within the last hour."),
];

const byWord = new Map(states.filter((s) => s.word).map((s) => [s.word, s.bit]));

/** What a member was told whose fleet has not decided: nobody knows what the metrics ask for. */
export const undecided = (d: Decision | undefined): Condition | undefined => d?.conditions?.find((c) => c.type === "ScalingActive" && c.status === "Unknown");

/** The bits that a decision tells. */
export function stateBits(d: Decision | undefined): number {
  let bits = d?.outcome === "PENDING" ? Pending : 0;
  for (const word of d?.states ?? []) bits |= byWord.get(word) ?? 0;
  // The service tells states even where there are none, unless it is of a version that has none.
  return d?.states && !undecided(d) ? bits : bits | Unknown;
}

/** When the override ends that a decision had, s of Unix time; 0: it had none, or that is not known. */
export function overriddenUntil(d: Decision | undefined): number {
  const last = d?.adjustments?.at(-1);
  return d?.states?.includes("OVERRIDDEN") && last?.stage === "OVERRIDE" ? (millis(last.untilTime) || 0) / 1000 : 0;
}

/** What is known of a target whose override has ended, and of which nothing was decided since. */
export const ended = "Its override has ended, and nothing was decided since";

/**
 * The last call for a target, s of Unix time, how long after it the target counts as not asked for, s, and until when it
 * is flapping; the service has the rules. Infinity: never, 0: it is not.
 */
export const paceOf = (t: Target): { asked: number; patience: number; flapsUntil: number } => ({
  asked: Math.max(millis(t.updateTime) || 0, millis(t.lastDecision?.time) || 0) / 1000,
  patience: t.notAskedTime === undefined ? Infinity : (millis(t.notAskedTime) - millis(t.lastDecision?.time)) / 1000,
  flapsUntil: (millis(t.flappingUntilTime) || 0) / 1000,
});

/** All bits of a target at an instant, as it was read at one, ms of the service's clock: who asks since then is not known. */
export function targetBits(t: Target, now: number, read = now): number {
  const { asked, patience, flapsUntil } = paceOf(t);
  const until = overriddenUntil(t.lastDecision);
  const bits = stateBits(t.lastDecision);
  const decided = until > 0 && now / 1000 > until ? (bits & ~Overridden) | Unknown : bits;
  return decided | (read / 1000 > asked + patience ? NotAsked : 0) | (now / 1000 < flapsUntil ? Flapping : 0);
}

/** Short words for the controller's reasons, for lists; its own sentence is shown with them. */
const short: Readonly<Record<string, string>> = {
  ScaleDownStabilized: "The window still holds a higher count",
  ScaleUpStabilized: "The window still holds a lower count",
  BackoffUpscale: "Waits after the last change before going up",
  BackoffDownscale: "Waits after the last change before going down",
  BackoffBoth: "Waits after the last change",
  HistoryUnavailable: "Scale-down withheld: no history",
  TooManyReplicas: "Would be more than maxReplicas",
  TooFewReplicas: "Asks for less than minReplicas",
  ScaleUpLimit: "Up as fast as its policies allow",
  ScaleDownLimit: "Down as fast as its policies allow",
  ScalingDisabled: "Scaling is disabled: someone set the count to 0",
  FailedGetScale: "The scale can't be read",
  FleetUndecided: "Its fleet has not decided yet",
  FailedUpdateScale: "The last change could not be applied",
};

/** A failure without the words that all failures begin with. */
export const core = (text: string): string =>
  text.replace(/^the HPA was unable to compute the replica count: /, "").replace(/^failed to compute desired number of replicas based on listed metrics for \S+: /, "").replace(/^invalid metrics \((\d+) invalid out of (\d+)\), first error is: /, "$1 of $2 metrics: ");

/** The condition that tells most about why the count is what it is: that of the most urgent state. */
function decisive(bits: number, conditions: readonly Condition[]): Condition | undefined {
  const first = states.find((s) => bits & s.bit && s.condition);
  const told = first && conditions.find((c) => c.type === first.condition);
  // One of several metrics fails: the others decide, and no condition says so.
  return first?.bit === Failing && told?.status !== "False" ? undefined : told;
}

/** Why the count is what it is, in a few words, and in the controller's sentence. */
export function why(bits: number, d: Decision): { short: string; long: string } {
  const c = decisive(bits, d.conditions ?? []) ?? undecided(d);
  const error = d.error ?? "";
  const reason = d.reason ?? "";
  const long = c?.message || error || reason;
  // What was asked for has changed since nobody asks; what was decided last is the rest.
  if (bits & NotAsked) return { short: "Nobody asks: does its agent run, or give way to another autoscaler?", long: long ? `Decided last: ${long}` : "" };
  if (c && !(bits & AtMin && reason)) return { short: short[c.reason ?? ""] ?? (core(c.message ?? "") || c.reason || ""), long };
  if (bits & Failing) return { short: core(error) || "One of several metrics has no reading; the others decide", long };
  return { short: reason, long };
}
