// Readings of metrics of all types.

import type { MetricSpecJson as MetricSpec, MetricStatusJson as MetricStatus, MetricValueStatusJson as MetricValue } from "@setpoint-dev/client/json";
import { compact, quantity } from "./format";

export interface Reading {
  /** What is measured, for example "cpu" or "cpu of app"; empty: it could not be computed. */
  name: string;
  /** Type, "Resource" and so on. */
  type: string;
  /** What the number is. */
  kind: "utilization" | "average" | "total" | "none";
  /** The number: percent for utilization; NaN: none, or an average over no replicas. */
  number: number;
  /** The number in words: "82 %", "1.2k per replica". */
  text: string;
}

/** A value of a metric or of its target. */
export function measured(v: MetricValue | undefined): Pick<Reading, "kind" | "number" | "text"> {
  if (v?.averageUtilization !== undefined && v.averageUtilization !== null) {
    return { kind: "utilization", number: v.averageUtilization, text: `${v.averageUtilization} %` };
  }
  // The controller's average over no replicas, and that of a sum that it can't compute.
  if (v?.averageValue === "9223372036854775807m") return { kind: "average", number: NaN, text: "no average" };
  if (v?.averageValue) {
    const n = quantity(v.averageValue);
    return { kind: "average", number: n, text: `${Number.isNaN(n) ? v.averageValue : compact(n)} per replica` };
  }
  if (v?.value) {
    const n = quantity(v.value);
    return { kind: "total", number: n, text: Number.isNaN(n) ? v.value : compact(n) };
  }
  return { kind: "none", number: NaN, text: "no reading" };
}

/** What a metric has in the field of its type. */
interface Source {
  name?: string;
  container?: string;
  metric?: { name?: string };
  current?: MetricValue;
  target?: MetricValue;
}

function read(m: MetricStatus | MetricSpec, side: "current" | "target"): Reading {
  const type = m.type ?? "";
  const s = (m as Record<string, Source | undefined>)[type.charAt(0).toLowerCase() + type.slice(1)];
  const name = s?.name ?? s?.metric?.name ?? "";
  return { type: s ? type : "", name: s?.container === undefined ? name : `${name} of ${s.container}`, ...measured(s?.[side]) };
}

/** A reading; type "" is a metric that could not be computed. */
export const reading = (m: MetricStatus): Reading => read(m, "current");

/** The newest reading in a place of the spec; undefined: there is none. */
export function newestAt(decisions: readonly { currentMetrics?: MetricStatus[] }[], index: number): Reading | undefined {
  for (let i = decisions.length - 1; i >= 0; i--) {
    const m = decisions[i]!.currentMetrics?.[index];
    const r = m && reading(m);
    if (r && r.kind !== "none") return r;
  }
  return undefined;
}

/** Whether two readings are of one metric in one unit: with another spec there may be another metric in its place. */
export const isSame = (a: Reading, b: Reading | undefined): boolean => a.type === b?.type && a.name === b.name && a.kind === b.kind;

/** What a spec compares, in the same form: the reading is what it should be. */
export const wanted = (m: MetricSpec): Reading => read(m, "target");
