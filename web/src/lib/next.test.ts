import assert from "node:assert/strict";
import { test } from "node:test";
import type { History, Spec } from "../api/types";
import { outlook, rules, seconds } from "./next";
import { nearest, columns, safest } from "./points";
import { story, sums } from "./story";
import { basisOf, merge } from "./decisions";

const t0 = Date.UTC(2026, 0, 1, 12);
const at = (s: number) => new Date(t0 + s * 1000).toISOString();
const recommendations = (...all: [number, number][]): History => ({ recommendations: all.map(([s, replicas]) => ({ replicas, time: at(s) })) });

test("a window holds the highest count, and lets go step by step", () => {
  const o = outlook(recommendations([0, 10], [60, 8], [120, 8], [180, 5]), { maxReplicas: 20 }, undefined, 10, t0 + 200_000);
  assert.equal(o.down.seconds, 300);
  assert.equal(o.down.holds, true);
  assert.equal(o.down.count, 10);
  assert.equal(o.down.proposed, 5);
  assert.deepEqual(o.down.steps, [
    { time: t0 + 300_000, count: 8 },
    { time: t0 + 420_000, count: 5 },
  ]);
});

test("a window lets go where the count itself would change", () => {
  // 7 was recommended, but a limit kept the count at 6: when that 7 leaves the window, nothing
  // changes.
  const o = outlook(recommendations([0, 7], [60, 6], [120, 2]), { maxReplicas: 9 }, undefined, 6, t0 + 130_000);
  assert.deepEqual(o.down.steps, [{ time: t0 + 360_000, count: 2 }]);
  assert.equal(outlook(recommendations([0, 9], [60, 8]), { maxReplicas: 9 }, undefined, 6, t0 + 61_000).down.holds, false, "nothing asks for less than 6");
});

test("slots are not in the order of time, and what left the window counts no more", () => {
  const o = outlook(recommendations([180, 5], [0, 10], [60, 8]), { maxReplicas: 20 }, undefined, 8, t0 + 301_000);
  assert.equal(o.down.count, 8);
  assert.deepEqual(o.down.steps, [{ time: t0 + 360_000, count: 5 }]);
});

test("a rise holds nothing back", () => {
  const o = outlook(recommendations([0, 3], [60, 9]), { maxReplicas: 20 }, undefined, 3, t0 + 61_000);
  assert.equal(o.down.holds, false);
  assert.deepEqual(o.down.steps, []);
});

test("a window upwards holds the lowest count", () => {
  const spec: Spec = { maxReplicas: 20, behavior: { scaleUp: { stabilizationWindowSeconds: 120 } } };
  const o = outlook(recommendations([0, 3], [60, 9]), spec, undefined, 3, t0 + 61_000);
  assert.equal(o.up.holds, true);
  assert.deepEqual(o.up.steps, [{ time: t0 + 120_000, count: 9 }]);
});

test("policies count what changed in their periods, as Kubernetes' example 80 → 72", () => {
  const spec: Spec = { maxReplicas: 100, behavior: { scaleDown: { stabilizationWindowSeconds: 0, policies: [{ type: "Percent", value: 10, periodSeconds: 60 }, { type: "Pods", value: 4, periodSeconds: 60 }] } } };
  assert.equal(outlook({}, spec, undefined, 80, t0).rateDown.limit, 72);
  const after = outlook({ scaleDowns: [{ replicaChange: 8, time: at(0) }] }, spec, undefined, 72, t0 + 30_000);
  assert.equal(after.rateDown.limit, 72, "nothing is left until the period ends");
  assert.equal(after.rateDown.policies[0]!.release, t0 + 60_000);
  const later = outlook({ scaleDowns: [{ replicaChange: 8, time: at(0) }] }, spec, undefined, 72, t0 + 61_000);
  assert.equal(later.rateDown.limit, 64);
});

test("Min takes the policy that allows least, Disabled allows nothing", () => {
  const policies = [{ type: "Pods", value: 2, periodSeconds: 60 }, { type: "Percent", value: 100, periodSeconds: 60 }];
  const limit = (selectPolicy: string) => outlook({}, { maxReplicas: 100, behavior: { scaleUp: { selectPolicy, policies } } }, undefined, 10, t0).rateUp;
  assert.equal(limit("Min").limit, 12);
  assert.equal(limit("Max").limit, 20);
  assert.equal(limit("Disabled").limit, 10);
  assert.equal(limit("Disabled").disabled, true);
});

test("without behavior the older rules apply, without a spec the defaults are assumed", () => {
  const o = outlook({}, undefined, undefined, 1, t0);
  assert.equal(o.known, false);
  assert.equal(o.rateUp.limit, 4);
  assert.equal(outlook({}, { maxReplicas: 9 }, undefined, 5, t0).rateUp.limit, 10);
  assert.equal(outlook({}, { maxReplicas: 9 }, { downscaleStabilization: "60s" }, 5, t0).down.seconds, 60);
  assert.equal(rules({ behavior: {} }, "down", 60)!.stabilizationWindowSeconds, 60);
  assert.equal(seconds("1.5s"), 1.5);
  assert.equal(seconds(3), undefined);
});

test("a story says what happens, and why, as explain does", () => {
  assert.equal(story({ currentReplicas: 3, desiredReplicas: 5 }).head, "3 → 5 replicas (scale up)");
  assert.equal(story({ currentReplicas: 0, desiredReplicas: 1 }).head, "0 → 1 replica (scale up from zero)");
  assert.equal(story({ currentReplicas: 2, desiredReplicas: 0 }).head, "2 → 0 replicas (scale down to zero)");
  const held = story({ currentReplicas: 5, desiredReplicas: 5, conditions: [{ type: "AbleToScale", status: "True", reason: "ScaleDownStabilized", message: "held" }] });
  assert.deepEqual(held.because, [{ text: "held", tone: "notice" }]);
  const failed = story({ currentReplicas: 5, desiredReplicas: 5, conditions: [{ type: "ScalingActive", status: "False", reason: "FailedGetResourceMetric", message: "no metrics" }] });
  assert.equal(failed.tone, "alarm");
  assert.equal(story({ currentReplicas: 5, desiredReplicas: 5 }).because[0]!.text, "the metrics ask for no change");
});

test("sums are of readings and targets of one kind only", () => {
  const d = { currentReplicas: 3, currentMetrics: [{ type: "External", external: { metric: { name: "rps" }, current: { averageValue: "150" } } }] };
  const spec: Spec = { metrics: [{ type: "External", external: { metric: { name: "rps" }, target: { type: "AverageValue", averageValue: "100" } } }] };
  assert.equal(sums(d, spec)[0]!.proposal, "3 replicas × 1.50 = 4.5 → 5");
  const other: Spec = { metrics: [{ type: "External", external: { metric: { name: "rps" }, target: { type: "Value", value: "100" } } }] };
  assert.equal(sums(d, other)[0]!.proposal, "");
  assert.equal(sums(d, undefined)[0]!.target, "");
});

test("a sum has the digits that lead to its result", () => {
  const spec: Spec = { metrics: [{ type: "Pods", pods: { metric: { name: "rps" }, target: { type: "AverageValue", averageValue: "120" } } }] };
  const sum = (average: string, currentReplicas: number) => {
    const [got] = sums({ currentReplicas, currentMetrics: [{ type: "Pods", pods: { metric: { name: "rps" }, current: { averageValue: average } } }] }, spec);
    return [got!.ratio, got!.proposal];
  };
  assert.deepEqual(sum("107640m", 14), ["107.6 / 120 = 0.897", "14 replicas × 0.897 = 12.56 → 13"], "108 / 120 would be within the tolerance");
  assert.deepEqual(sum("108", 14), ["108 / 120 = 0.90", "0.90 is within the usual tolerance of 0.1: no change"]);
  assert.deepEqual(sum("132040m", 10), ["132.04 / 120 = 1.1003", "10 replicas × 1.1003 = 11.003 → 12"]);
  assert.deepEqual(sum("240100m", 3), ["240.1 / 120 = 2.001", "3 replicas × 2.001 = 6.003 → 7"], "3 × 2.00 would be 6");
  assert.deepEqual(sum("180", 3), ["180 / 120 = 1.50", "3 replicas × 1.50 = 4.5 → 5"]);
});

test("a change comes twice in a stream, and counts once", () => {
  const pending = { recommendationId: "a", time: at(0), outcome: "PENDING" };
  const applied = { recommendationId: "a", time: at(0), outcome: "APPLIED" };
  assert.deepEqual(merge([pending], [{ recommendationId: "b", time: at(-5) }, applied]).map((d) => [d.recommendationId, d.outcome]), [["b", undefined], ["a", "APPLIED"]]);
  assert.equal(merge([applied], [pending])[0]!.outcome, "APPLIED", "whichever comes first");
});

test("decisions of one millisecond keep their order", () => {
  const [a, b, c] = ["2026-01-01T00:00:00.0012Z", "2026-01-01T00:00:00.001300001Z", "2026-01-01T00:00:00.0014Z"].map((time, i) => ({ recommendationId: "abc"[i], time }));
  assert.deepEqual(merge([], [c!, b!, a!]).map((d) => d.recommendationId), ["a", "b", "c"]);
});

test("series of different instants share one axis", () => {
  assert.deepEqual(columns([[[1, 10], [3, 30]], [[2, 20], [3, 31]]]), [[1, 2, 3], [10, null, 30], [null, 20, 31]]);
});

test("a click finds the nearest decision, rather one that changed something", () => {
  const quiet = { recommendationId: "q", time: at(10), currentReplicas: 3, desiredReplicas: 3 };
  const change = { recommendationId: "c", time: at(18), currentReplicas: 3, desiredReplicas: 4 };
  assert.equal(nearest([quiet, change], t0 / 1000 + 13)?.recommendationId, "c");
  assert.equal(nearest([quiet, change], t0 / 1000 + 10)?.recommendationId, "q");
  assert.equal(nearest([], 0), undefined);
});

test("of a spec that is not stored the last decisions tell bounds and windows", () => {
  const basis = basisOf([{ basis: { minReplicas: 2, maxReplicas: 9, scaleDownWindowSeconds: 60, scaleUpWindowSeconds: 15 } }, { basis: { proposal: 4 } }, {}]);
  const o = outlook(recommendations([0, 10], [60, 8], [90, 5]), undefined, undefined, 10, t0 + 100_000, basis);
  assert.deepEqual([o.min, o.max, o.down.seconds, o.up.seconds, o.known], [2, 9, 60, 15, false]);
  assert.equal(outlook(recommendations([0, 10]), { maxReplicas: 20 }, undefined, 10, t0, basis).max, 20, "a stored spec is newer");
});

test("the basis of a decision is not unlearned", () => {
  const [d] = merge([{ recommendationId: "a", time: at(0), basis: { proposal: 3 } }], [{ recommendationId: "a", time: at(0), outcome: "APPLIED" }]);
  assert.deepEqual([d!.basis?.proposal, d!.outcome], [3, "APPLIED"]);
});

test("a window's line rises at once and falls when what was proposed has left it", () => {
  const asked: [number, number][] = [[0, 3], [10, 8], [20, 4]];
  assert.deepEqual(safest(asked, 30, Math.max, { from: 0, now: 60 }), [[0, 3], [10, 8], [20, 8], [30, 8], [40, 4], [50, 4], [60, 4]]);
  assert.deepEqual(safest(asked, 0, Math.min, { from: 5, now: 25 }), [[10, 8], [20, 4], [25, 4]]);
  assert.deepEqual(safest([], 30, Math.max, { from: 0, now: 60 }), []);
});
