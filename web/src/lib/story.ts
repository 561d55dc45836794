// A logged decision in words. The log has a decision's readings and conditions, not its trace, so
// the words are those of "setpoint explain" for a decision without one (explain/bareverdict.go).

import type { HorizontalPodAutoscalerConditionJson as Condition, DecisionJson as Decision } from "@setpoint-dev/client/json";
import { adjustments, stageName, type Adjustment } from "./adjustments";
import { counts, unread } from "./decisions";
import { count, integer } from "./format";
import { shadowSuffix } from "./names";
import { plainText } from "./text";
import { core, undecided } from "./state";

export interface Story {
  /** "3 → 5 replicas (scale up)" or "stays at 3 replicas". */
  head: string;
  tone: "up" | "down" | "alarm" | "calm";
  /** Why, most decisive first. */
  because: { text: string; tone: "plain" | "notice" | "alarm" }[];
  /** What became of it, in a word or two and in a sentence; both empty: nothing to tell. */
  outcome: [short: string, long: string];
}

const none: Story["outcome"] = ["", ""];
const outcomes: Record<string, Story["outcome"]> = {
  PENDING: ["pending", "Not yet known whether it was applied."],
  APPLIED: ["applied", "It was applied."],
  FAILED: ["failed", "Applying it failed."],
  DROPPED: ["not applied", "It was never reported, and the next request did not show it: it counts as not applied."],
};
// A shadow applies nothing.
const seen: Record<string, Story["outcome"]> = {
  PENDING: ["pending", "Not yet known whether the workload comes to this count."],
  APPLIED: ["seen", "The workload had this count at the shadow's next decision."],
  DROPPED: ["not seen", "The workload did not have this count at the shadow's next decision."],
};

function headline(d: Decision): string {
  const known = counts(d);
  if (!known) return "left as it is (the count is unknown)";
  const { from, to } = known;
  if (unread(d)) return `left as it is (last known count: ${integer(from)})`;
  const change = `${integer(from)} → ${count(to, "replica")}`;
  if (to > from) return from === 0 ? `${change} (scale up from zero)` : `${change} (scale up)`;
  if (to < from) return to === 0 ? `${change} (scale down to zero)` : `${change} (scale down)`;
  return `stays at ${count(to, "replica")}`;
}

/** The story of a decision on the target. */
export function story(d: Decision, target = ""): Story {
  const from = d.currentReplicas ?? 0;
  const to = d.desiredReplicas ?? 0;
  const find = (type: string): Condition | undefined => d.conditions?.find((c) => c.type === type);
  const able = find("AbleToScale");
  const active = find("ScalingActive");
  const limited = find("ScalingLimited");
  const out: Story = {
    head: headline(d),
    tone: to > from ? "up" : to < from ? "down" : "calm",
    because: [],
    outcome: (target.endsWith(shadowSuffix) ? seen : outcomes)[d.outcome ?? ""] ?? none,
  };
  const because = (text: string | undefined, tone: Story["because"][0]["tone"]) => text && out.because.push({ text: plainText(text, 2000), tone });
  if (able?.status === "False") {
    out.tone = "alarm";
    because(able.message, "alarm");
  } else if (d.reason?.startsWith("Current number of replicas")) {
    because(d.reason, "plain");
  } else if (active?.status === "False") {
    out.tone = "alarm";
    because(active.message, "alarm");
  } else {
    // An override has the last word, so its sentence comes first; it tells what the metrics ask for, too.
    const adjusted = adjustments(d);
    const tell = (a: Adjustment) => because(a.text, a.tone === "held" ? "notice" : "plain");
    adjusted.filter((a) => a.stage === stageName("OVERRIDE")).forEach(tell);
    because(d.reason, "plain");
    if (able?.reason?.endsWith("Stabilized")) because(able.message, "notice");
    if (limited?.status === "True") because(limited.message, "notice");
    if (out.because.length === 0) adjusted.forEach(tell);
    if (out.because.length === 0) because(undecided(d)?.message, "plain");
    if (out.because.length === 0 && to === from) because("the metrics ask for no change", "plain");
  }
  // Most errors repeat a condition's message with a prefix.
  if (d.error && !out.because.some((b) => b.text && d.error!.includes(core(b.text)))) because(d.error, "alarm");
  return out;
}
