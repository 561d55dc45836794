// Readings of metrics of all types.

import type { MetricSpec, MetricStatus, MetricValue } from "../api/types";
import { compact, quantity } from "./format";

export interface Reading {
  /** What is measured, for example "cpu" or "cpu of app"; empty: it could not be computed. */
  name: string;
  /** Type, "Resource" and so on. */
  type: string;
  /** What the number is. */
  kind: "utilization" | "average" | "total" | "none";
  /** The number: percent for utilization; NaN: none. */
  number: number;
  /** The number in words: "82 %", "1.2k per replica". */
  text: string;
}

function value(v: MetricValue | undefined): Pick<Reading, "kind" | "number" | "text"> {
  if (v?.averageUtilization !== undefined && v.averageUtilization !== null) {
    return { kind: "utilization", number: v.averageUtilization, text: `${v.averageUtilization} %` };
  }
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

/** A reading; type "" is a metric that could not be computed. */
export function reading(m: MetricStatus): Reading {
  const type = m.type ?? "";
  switch (type) {
    case "Resource":
      return { type, name: m.resource?.name ?? "", ...value(m.resource?.current) };
    case "ContainerResource":
      return { type, name: `${m.containerResource?.name ?? ""} of ${m.containerResource?.container ?? ""}`, ...value(m.containerResource?.current) };
    case "Pods":
      return { type, name: m.pods?.metric?.name ?? "", ...value(m.pods?.current) };
    case "Object":
      return { type, name: m.object?.metric?.name ?? "", ...value(m.object?.current) };
    case "External":
      return { type, name: m.external?.metric?.name ?? "", ...value(m.external?.current) };
  }
  return { type: "", name: "", kind: "none", number: NaN, text: "no reading" };
}

/** What a spec compares, in the same form: the reading is what it should be. */
export function wanted(m: MetricSpec): Reading {
  const type = m.type ?? "";
  switch (type) {
    case "Resource":
      return { type, name: m.resource?.name ?? "", ...value(m.resource?.target) };
    case "ContainerResource":
      return { type, name: `${m.containerResource?.name ?? ""} of ${m.containerResource?.container ?? ""}`, ...value(m.containerResource?.target) };
    case "Pods":
      return { type, name: m.pods?.metric?.name ?? "", ...value(m.pods?.target) };
    case "Object":
      return { type, name: m.object?.metric?.name ?? "", ...value(m.object?.target) };
    case "External":
      return { type, name: m.external?.metric?.name ?? "", ...value(m.external?.target) };
  }
  return { type, name: "", kind: "none", number: NaN, text: "" };
}
