// A decision's trace, written out. Every count and ratio is the engine's: nothing is decided here.

import type { ExplanationJson as Explanation, MetricExplanationJson as MetricExplanation, WindowExplanationJson as Window } from "@setpoint-dev/client/json";
import { compact, count, duration, integer, localClock, millis } from "./format";
import { measured } from "./metrics";

export interface Sum {
  reading: string;
  target: string;
  /** The way from the reading to the proposal, line by line. */
  lines: string[];
  /** Why it could not be computed; empty: it could. */
  error: string;
  /** What the metric asks for; undefined: nothing. */
  proposal: number | undefined;
}

export interface Step {
  what: string;
  /** The count after it; undefined: none. */
  count: number | undefined;
  how: string[];
  /** It kept the count from what was asked for. */
  held: boolean;
}

const numeric = (n: unknown): number | undefined => (n === undefined || n === null ? undefined : Number(n));

/** How a metric came to what it asks for. */
export function sum(m: MetricExplanation): Sum {
  const got = measured(m.current);
  const want = measured(m.target);
  const out: Sum = { reading: got.text, target: want.text, lines: [], error: m.error ?? "", proposal: m.proposal };
  const usage = numeric(m.usageRatio);
  if (usage === undefined || out.error) return out;
  const filled = numeric(m.dampenedUsageRatio);
  const decisive = filled ?? usage;
  const { digits, quotient } = precision(m, usage, decisive, got.number, want.number);
  const ratio = (n: number) => n.toFixed(digits - 1);
  out.lines.push(quotient ? `${compact(got.number, digits)} / ${compact(want.number, digits)} = ${ratio(usage)}` : `ratio ${ratio(usage)}`);
  const pods = m.podCounts;
  if (filled !== undefined) {
    const who = [pods?.missing && `${integer(pods.missing)} missing`, pods?.unready && `${integer(pods.unready)} unready`].filter(Boolean).join(" and ");
    out.lines.push(`${ratio(filled)} with ${who || "missing and unready"} pods filled in`);
  }
  const asks = integer(m.proposal ?? 0);
  const product = (n: number) => `${Number(n.toFixed(digits - 1))}${Math.abs(n - (m.proposal ?? 0)) < 1e-9 ? "" : ` → ${asks}`}`;
  const tolerance = m.tolerance ? ` of ${compact(1 - (numeric(m.tolerance.scaleDown) ?? 0))} to ${compact(1 + (numeric(m.tolerance.scaleUp) ?? 0))}` : "";
  switch (m.rule) {
    case "WithinTolerance":
    case "DampenedWithinTolerance":
      out.lines.push(`${ratio(decisive)} is within the tolerance${tolerance}: no change`);
      break;
    case "DampenedReversed":
      out.lines.push("with those the ratio turns round: no change");
      break;
    case "DampenedAgainstCurrent":
      out.lines.push("with those the count would go against the ratio: no change");
      break;
    case "Saturated":
      out.lines.push(`more than a count can be: ${asks}`);
      break;
    default:
      if (m.replicasBase !== undefined) out.lines.push(`${count(m.replicasBase, pods ? "pod" : "replica")} × ${ratio(decisive)} = ${product(whole(decisive * m.replicasBase) ?? Number(ratio(decisive)) * m.replicasBase)}`);
      else if (m.calculation === "AverageValuePerReplica" && m.totalUsage) {
        const total = measured({ value: m.totalUsage }).number;
        out.lines.push(`${compact(total, digits)} in all / ${compact(want.number, digits)} = ${product(total / want.number)}`);
      }
  }
  return out;
}

/** A product that is a count, as 3 × 20/3 is: no digits of the ratio lead to it; undefined: it is none. */
function whole(product: number): number | undefined {
  const n = Math.round(product);
  return Math.abs(product - n) < 1e-9 ? n : undefined;
}

/** How many digits let a reader who computes with what is shown come to the same result, and whether the ratio is the quotient of what is shown. */
function precision(m: MetricExplanation, usage: number, decisive: number, got: number, want: number): { digits: number; quotient: boolean } {
  const within = (r: number) => r <= 1 + (numeric(m.tolerance?.scaleUp) ?? 0) && r >= 1 - (numeric(m.tolerance?.scaleDown) ?? 0);
  const pods = (r: number) => Math.ceil(r * (m.replicasBase ?? 1) - 1e-9);
  const leads = (digits: number) => {
    const shown = Number(decisive.toFixed(digits - 1));
    return within(shown) === within(decisive) && (pods(shown) === pods(decisive) || whole(decisive * (m.replicasBase ?? 1)) !== undefined);
  };
  const divides = (digits: number) => (Number(got.toPrecision(digits)) / Number(want.toPrecision(digits))).toFixed(digits - 1) === usage.toFixed(digits - 1);
  const all = [3, 4, 5, 6, 7, 8, 9];
  const both = all.find((d) => leads(d) && divides(d));
  return { digits: both ?? all.find(leads) ?? 9, quotient: both !== undefined };
}

const at = (time: string | undefined): string => localClock(millis(time));

function windowText(w: Window): string {
  const text = `${(w.direction ?? "").toLowerCase()}, ${duration((numeric(w.windowSeconds) ?? 0) * 1000)}`;
  if (!w.recommendationTime) return `${text}: nothing else is in it`;
  return `${text}: ${integer(w.replicas ?? 0)}, recommended at ${at(w.recommendationTime)}, leaves at ${at(w.releaseTime)}`;
}

/** The way from the metrics' proposal to the count that was decided. */
export function steps(e: Explanation): Step[] {
  const out: Step[] = [];
  const { proposal: p, stabilization: s, rateLimit: r, bounds: b } = e;
  if (p) out.push({ what: "Metrics", count: p.replicas ?? 0, how: p.metric ? [p.metric] : [], held: false });
  if (s) {
    const windows = (s.windows ?? []).filter((w) => (numeric(w.windowSeconds) ?? 0) > 0);
    out.push({ what: "Windows", count: s.stabilizedReplicas ?? 0, how: windows.map(windowText), held: (s.stabilizedReplicas ?? 0) !== (s.proposedReplicas ?? 0) });
  }
  if (r && r.direction !== "None") {
    const how = (r.policies ?? []).map((x) => {
      const of = `${integer(x.value ?? 0)}${x.type === "Percent" ? " %" : ""} per ${duration((x.periodSeconds ?? 0) * 1000)}`;
      return `${of}: ${integer(x.limit ?? 0)}${x.selected ? ", which decides" : ""}${x.releaseTime ? `, more at ${at(x.releaseTime)}` : ""}`;
    });
    if (r.selectPolicy === "Disabled") how.push("disabled");
    out.push({ what: r.direction === "Up" ? "Policies, at most" : "Policies, at least", count: r.limit, how, held: r.limited ?? false });
  }
  if (b) {
    const held = b.reason === "TooManyReplicas" || b.reason === "TooFewReplicas";
    out.push({ what: "Bounds", count: b.boundedReplicas ?? 0, how: [`${integer(b.minReplicas ?? 0)} to ${integer(b.maxReplicas ?? 0)}`], held });
  }
  if (e.withheld) out.push({ what: "Withheld", count: e.withheld.replicas ?? 0, how: ["the history store can't be reached, so it does not scale down"], held: true });
  if (out.length > 0) out.push({ what: "Decided", count: e.desiredReplicas ?? 0, how: [], held: false });
  return out;
}
