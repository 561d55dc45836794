// A target's state, derived from its conditions: the page counts, filters and shows these
// states.

import type { Condition, MetricStatus } from "../api/types";

/** States as bits, for a target may be in several. */
export const Held = 1;
export const Limited = 2;
export const Failing = 4;
export const AtMax = 8;
export const AtMin = 16;
export const Flapping = 32;
export const Changed = 64;
export const Pending = 128;

export interface StateInfo {
  bit: number;
  /** In the URL. */
  id: string;
  label: string;
  /** A mark that tells it without its colour. */
  mark: string;
  /** One sentence. */
  help: string;
}

/** The states that are counted and filtered by, in their order. */
export const states: readonly StateInfo[] = [
  { bit: Failing, id: "failing", label: "Failing metrics", mark: "✕", help: "A metric can't be read or computed. The count does not go down then." },
  { bit: AtMax, id: "max", label: "At maximum", mark: "⊤", help: "The metrics ask for more replicas than maxReplicas allows." },
  { bit: Limited, id: "limited", label: "Rate limited", mark: "≈", help: "A scaling policy lets the count change only in part." },
  { bit: Held, id: "held", label: "Held", mark: "‖", help: "A stabilization window or a delay holds the count." },
  { bit: Flapping, id: "flapping", label: "Flapping", mark: "⇅", help: "The count turned round three times or more within the last hour." },
  { bit: Changed, id: "changed", label: "Changed, last hour", mark: "Δ", help: "The count changed within the last hour." },
];

const condition = (all: readonly Condition[], type: string): Condition | undefined => all.find((c) => c.type === type);

/** The bits that conditions and readings tell. */
export function stateBits(conditions: readonly Condition[], metrics: readonly MetricStatus[], error: string): number {
  let bits = 0;
  const able = condition(conditions, "AbleToScale");
  const active = condition(conditions, "ScalingActive");
  const limited = condition(conditions, "ScalingLimited");
  if (able?.reason?.endsWith("Stabilized") || able?.reason?.startsWith("Backoff") || able?.reason === "HistoryUnavailable") bits |= Held;
  const disabled = active?.reason === "ScalingDisabled";
  if ((active?.status === "False" && !disabled) || (able?.status === "False" && !(bits & Held)) || error || metrics.some((m) => !m.type)) bits |= Failing;
  if (limited?.status === "True") {
    switch (limited.reason) {
      case "TooManyReplicas":
        bits |= AtMax;
        break;
      case "TooFewReplicas":
        bits |= AtMin;
        break;
      default:
        bits |= Limited;
    }
  }
  return bits;
}

/** Short words for the controller's reasons, for lists; its own sentence is shown with them. */
const short: Readonly<Record<string, string>> = {
  ScaleDownStabilized: "The window still holds a higher count",
  ScaleUpStabilized: "The window still holds a lower count",
  BackoffUpscale: "Waits after the last change before going up",
  BackoffDownscale: "Waits after the last change before going down",
  BackoffBoth: "Waits after the last change",
  HistoryUnavailable: "Scale-down withheld: no history",
  TooManyReplicas: "Asks for more than maxReplicas",
  TooFewReplicas: "Asks for less than minReplicas",
  ScaleUpLimit: "Up as fast as its policies allow",
  ScaleDownLimit: "Down as fast as its policies allow",
  ScalingDisabled: "Scaling is disabled: someone set the count to 0",
  FailedGetScale: "The scale can't be read",
  FailedUpdateScale: "The last change could not be applied",
};

/** A failure without the words that all failures begin with. */
export const core = (text: string): string =>
  text.replace(/^the HPA was unable to compute the replica count: /, "").replace(/^failed to compute desired number of replicas based on listed metrics for \S+: /, "").replace(/^invalid metrics \((\d+) invalid out of (\d+)\), first error is: /, "$1 of $2 metrics: ");

/** The condition that tells most about why the count is what it is. */
export function decisive(bits: number, conditions: readonly Condition[]): Condition | undefined {
  const able = condition(conditions, "AbleToScale");
  const active = condition(conditions, "ScalingActive");
  const limited = condition(conditions, "ScalingLimited");
  if (bits & Failing) return able?.status === "False" && !(bits & Held) ? able : active?.status === "False" ? active : undefined;
  if (active?.reason === "ScalingDisabled") return active;
  if (bits & (AtMax | Limited)) return limited;
  if (bits & Held) return able;
  if (bits & AtMin) return limited;
  return undefined;
}

/** Why the count is what it is, in a few words, and in the controller's sentence. */
export function why(bits: number, conditions: readonly Condition[], error: string, reason: string): { short: string; long: string } {
  const c = decisive(bits, conditions);
  const long = c?.message || error;
  if (c && !(bits & AtMin && reason)) return { short: short[c.reason ?? ""] ?? (core(c.message ?? "") || c.reason || ""), long };
  if (bits & Failing) return { short: core(error) || "One of several metrics has no reading; the others decide", long };
  return { short: reason, long: reason };
}

/** How often a series of counts turned round. */
export function reversals(counts: ArrayLike<number>): number {
  let turns = 0;
  let direction = 0;
  for (let i = 1; i < counts.length; i++) {
    const d = Math.sign(counts[i]! - counts[i - 1]!);
    if (d === 0) continue;
    if (direction !== 0 && d !== direction) turns++;
    direction = d;
  }
  return turns;
}

/** As many turns within the hour are flapping. */
export const flappingTurns = 3;
