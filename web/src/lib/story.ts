// A logged decision in words and numbers. The log has a decision's readings and conditions, not
// its trace, so the words are those of "setpoint explain" for a decision without one
// (cmd/setpoint/explain/bareverdict.go).

import type { Condition, Decision, Spec } from "../api/types";
import { compact, count } from "./format";
import { reading, wanted } from "./metrics";
import { core } from "./state";

export interface Story {
  /** "3 → 5 replicas (scale up)" or "stays at 3 replicas". */
  head: string;
  tone: "up" | "down" | "alarm" | "calm";
  /** Why, most decisive first. */
  because: { text: string; tone: "plain" | "notice" | "alarm" }[];
  /** What became of it; empty: nothing to tell. */
  outcome: string;
}

const outcomes: Record<string, string> = {
  PENDING: "Not yet known whether it was applied.",
  APPLIED: "It was applied.",
  FAILED: "Applying it failed.",
  DROPPED: "It was never reported, and the next request did not show it: it counts as not applied.",
};

function headline(from: number, to: number): string {
  const change = `${from} → ${count(to, "replica")}`;
  if (to > from) return from === 0 ? `${change} (scale up from zero)` : `${change} (scale up)`;
  if (to < from) return to === 0 ? `${change} (scale down to zero)` : `${change} (scale down)`;
  return `stays at ${count(to, "replica")}`;
}

/** The story of a decision. */
export function story(d: Decision): Story {
  const from = d.currentReplicas ?? 0;
  const to = d.desiredReplicas ?? from;
  const find = (type: string): Condition | undefined => d.conditions?.find((c) => c.type === type);
  const able = find("AbleToScale");
  const active = find("ScalingActive");
  const limited = find("ScalingLimited");
  const out: Story = {
    head: headline(from, to),
    tone: to > from ? "up" : to < from ? "down" : "calm",
    because: [],
    outcome: outcomes[d.outcome ?? ""] ?? "",
  };
  const because = (text: string | undefined, tone: Story["because"][0]["tone"]) => text && out.because.push({ text, tone });
  if (able?.status === "False") {
    out.tone = "alarm";
    because(able.message, "alarm");
  } else if (d.reason?.startsWith("Current number of replicas")) {
    because(d.reason, "plain");
  } else if (active?.status === "False") {
    out.tone = "alarm";
    because(active.message, "alarm");
  } else {
    because(d.reason, "plain");
    if (able?.reason?.endsWith("Stabilized")) because(able.message, "notice");
    if (limited?.status === "True") because(limited.message, "notice");
    if (out.because.length === 0 && to === from) because("the metrics ask for no change", "plain");
  }
  // Most errors repeat a condition's message with a prefix.
  if (d.error && !out.because.some((b) => b.text && d.error!.includes(core(b.text)))) because(d.error, "alarm");
  return out;
}

export interface Sum {
  name: string;
  reading: string;
  target: string;
  /** "92.4 / 60 = 1.54". */
  ratio: string;
  /** "3 replicas × 1.54 = 4.62 → 5". */
  proposal: string;
}

/**
 * The arithmetic of a decision's readings with the targets of a spec. Pods that are missing or not
 * ready are not in the log, so for metrics of pods the proposal is what all pods together come to.
 */
export function sums(d: Decision, spec: Spec | undefined): Sum[] {
  return (d.currentMetrics ?? []).map((m, i) => {
    const got = reading(m);
    const want = spec?.metrics?.[i] ? wanted(spec.metrics[i]!) : undefined;
    const name = got.name || want?.name || `metric ${i + 1}`;
    const comparable = want && want.kind === got.kind && want.name === got.name && want.number > 0 && Number.isFinite(got.number);
    if (!comparable) return { name, reading: got.text, target: want?.text ?? "", ratio: "", proposal: "" };
    const current = d.currentReplicas ?? 0;
    const exact = got.number / want.number;
    const digits = enough(got.number, want.number, current);
    const ratio = exact.toFixed(digits - 1);
    const product = Number((Number(ratio) * current).toPrecision(9));
    return {
      name,
      reading: got.text,
      target: want.text,
      ratio: `${compact(got.number, digits)} / ${compact(want.number, digits)} = ${ratio}`,
      proposal: within(exact)
        ? `${ratio} is within the usual tolerance of 0.1: no change`
        : `${count(current, "replica")} × ${ratio} = ${compact(product, digits)}${Number.isInteger(product) ? "" : ` → ${up(product)}`}`,
    };
  });
}

const within = (ratio: number): boolean => Math.abs(ratio - 1) <= 0.1 + 1e-9;
const up = (n: number): number => Math.ceil(n - 1e-9);

/**
 * How many digits let a reader who computes with what is shown come to the same result: 107.6 / 120
 * is below the tolerance, 108 / 120 is within.
 */
function enough(got: number, want: number, current: number): number {
  for (let digits = 3; digits < 9; digits++) {
    const quotient = Number(got.toPrecision(digits)) / Number(want.toPrecision(digits));
    const ratio = Number((got / want).toFixed(digits - 1));
    const same = (r: number): boolean => within(r) === within(got / want) && up(r * current) === up((got / want) * current);
    if (same(quotient) && same(ratio) && quotient.toFixed(digits - 1) === ratio.toFixed(digits - 1)) return digits;
  }
  return 9;
}
