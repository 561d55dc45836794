// When the count of a target could next change: which changes its history prevents, and until
// when. The rules are the controller's (pkg/controller/podautoscaler, v1.36): stabilization
// windows over past recommendations, then rate policies over past changes, then the bounds.

import type { DecisionBasis, History, ScaleEvent, ScalingRules, Spec } from "../api/types";
import { millis } from "./format";

/** A stabilization window and what it holds. Instants are ms of Unix time. */
export interface Window {
  seconds: number;
  /** The safest count in it: the highest for scale-downs, the lowest for scale-ups. */
  count: number;
  /** What the metrics last asked for. */
  proposed: number;
  holds: boolean;
  /** If the same is proposed from now on: from when on the count may go how far. */
  steps: { time: number; count: number }[];
  /** Recommendations in it, oldest first. */
  recommendations: { time: number; count: number }[];
}

/** One direction's rate limit. */
export interface Rate {
  /** The count that one evaluation now may come to. */
  limit: number;
  disabled: boolean;
  /** In words, policy by policy. */
  policies: { text: string; limit: number; selected: boolean; release: number | undefined }[];
}

export interface Outlook {
  /** The spec is stored; else the controller's defaults are assumed. */
  known: boolean;
  down: Window;
  up: Window;
  rateDown: Rate;
  rateUp: Rate;
  min: number | undefined;
  max: number | undefined;
}

const defaultDown = 300;
const ruleDefaults: Record<"up" | "down", ScalingRules> = {
  up: { stabilizationWindowSeconds: 0, selectPolicy: "Max", policies: [{ type: "Pods", value: 4, periodSeconds: 15 }, { type: "Percent", value: 100, periodSeconds: 15 }] },
  down: { stabilizationWindowSeconds: defaultDown, selectPolicy: "Max", policies: [{ type: "Percent", value: 100, periodSeconds: 15 }] },
};

/** A direction's rules with the defaults filled in; undefined: there is no behavior. */
export function rules(spec: Spec | undefined, direction: "up" | "down", downscaleSeconds = defaultDown): Required<Omit<ScalingRules, "tolerance">> | undefined {
  if (!spec?.behavior) return undefined;
  const own = direction === "up" ? spec.behavior.scaleUp : spec.behavior.scaleDown;
  const d = ruleDefaults[direction];
  return {
    stabilizationWindowSeconds: own?.stabilizationWindowSeconds ?? (direction === "down" ? downscaleSeconds : 0),
    selectPolicy: own?.selectPolicy ?? "Max",
    policies: own?.policies?.length ? own.policies : d.policies!,
  };
}

/** "300s" as the API writes durations, in seconds. */
export function seconds(d: unknown): number | undefined {
  const m = typeof d === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(d) : null;
  return m ? Number(m[1]) : undefined;
}

function window(all: { time: number; count: number }[], length: number, now: number, direction: "up" | "down", current: number): Window {
  const safer = direction === "down" ? Math.max : Math.min;
  // A window prevents a change in one direction; it never causes one in the other.
  const reaches = (count: number) => (direction === "down" ? count < current : count > current);
  const recommendations = all.filter((r) => r.time > now - length * 1000).sort((a, b) => a.time - b.time);
  const newest = all.reduce<{ time: number; count: number } | undefined>((n, r) => (!n || r.time >= n.time ? r : n), undefined);
  const proposed = newest?.count ?? 0;
  // From the newest to the oldest: the safest count once everything older has left.
  const steps: { time: number; count: number }[] = [];
  let count = proposed;
  for (let i = recommendations.length - 1; i >= 0; i--) {
    const r = recommendations[i]!;
    const next = safer(count, r.count);
    if (next !== count && reaches(count)) steps.unshift({ time: r.time + length * 1000, count });
    count = next;
  }
  return { seconds: length, count, proposed, holds: reaches(proposed) && (direction === "down" ? count > proposed : count < proposed), steps, recommendations };
}

function changed(events: readonly ScaleEvent[], since: number): { sum: number; oldest: number | undefined } {
  let sum = 0;
  let oldest: number | undefined;
  for (const e of events) {
    const time = millis(e.time);
    if (time > since) {
      sum += e.replicaChange ?? 0;
      oldest = Math.min(oldest ?? time, time);
    }
  }
  return { sum, oldest };
}

function rate(spec: Spec | undefined, h: History, current: number, now: number, direction: "up" | "down"): Rate {
  const r = rules(spec, direction);
  const up = direction === "up";
  if (!r) {
    const limit = up ? Math.max(2 * current, 4) : 0;
    return { limit, disabled: false, policies: up ? [{ text: "twice the replicas, or 4", limit, selected: true, release: undefined }] : [] };
  }
  if (r.selectPolicy === "Disabled") return { limit: current, disabled: true, policies: [] };
  const policies = r.policies.map((p) => {
    const period = (p.periodSeconds ?? 0) * 1000;
    const added = changed(h.scaleUps ?? [], now - period);
    const removed = changed(h.scaleDowns ?? [], now - period);
    const start = current - added.sum + removed.sum;
    const value = p.value ?? 0;
    const percent = p.type === "Percent";
    const limit = up
      ? percent ? Math.ceil(start * (1 + value / 100)) : start + value
      : percent ? Math.trunc(start * (1 - value / 100)) : start - value;
    const counted = up ? added : removed;
    return {
      text: `${value}${percent ? " %" : value === 1 ? " replica" : " replicas"} per ${p.periodSeconds ?? 0} s`,
      limit,
      selected: false,
      release: counted.oldest === undefined ? undefined : counted.oldest + period,
    };
  });
  const most = r.selectPolicy === "Max";
  const pick = up === most ? Math.max : Math.min;
  const limit = pick(...policies.map((p) => p.limit));
  const selected = policies.find((p) => p.limit === limit);
  if (selected) selected.selected = true;
  // A limit never reverses a direction.
  return { limit: up ? Math.max(limit, current) : Math.min(limit, current), disabled: false, policies };
}

/** What a history holds back at an instant, ms of Unix time. */
export function outlook(h: History, spec: Spec | undefined, options: Record<string, unknown> | undefined, current: number, now: number, basis: DecisionBasis = {}): Outlook {
  const all = (h.recommendations ?? []).map((r) => ({ time: millis(r.time), count: r.replicas ?? 0 })).filter((r) => !Number.isNaN(r.time));
  const downscale = seconds(options?.downscaleStabilization) ?? defaultDown;
  // Without a stored spec, the last decisions have the windows and bounds.
  const down = (spec ? rules(spec, "down", downscale)?.stabilizationWindowSeconds : basis.scaleDownWindowSeconds) ?? downscale;
  const up = (spec ? rules(spec, "up")?.stabilizationWindowSeconds : basis.scaleUpWindowSeconds) ?? 0;
  return {
    known: spec !== undefined,
    down: window(all, down, now, "down", current),
    up: window(all, up, now, "up", current),
    rateDown: rate(spec, h, current, now, "down"),
    rateUp: rate(spec, h, current, now, "up"),
    min: spec ? spec.minReplicas ?? 1 : basis.minReplicas,
    max: spec ? spec.maxReplicas : basis.maxReplicas,
  };
}
