import assert from "node:assert/strict";
import { test } from "node:test";
import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { gapOf, gaps, measuredOver, metricRange, plotted } from "../target/charts";
import { tryPath } from "../target/try";
import { adjustments, plain, stageName, turned } from "./adjustments";
import { basisOf, changed, counts, lastChange, merge, told, usually } from "./decisions";
import { steps, sum } from "./explained";
import { alone, between, columns, day, dayBefore, nearest } from "./points";
import { story } from "./story";

const t0 = Date.UTC(2026, 0, 1, 12);
const at = (s: number) => new Date(t0 + s * 1000).toISOString();

test("a target is usually asked for as its newest decisions say, whatever an outage left", () => {
  const of = (interval: number, ...gaps: number[]) => usually(interval * 1000, gaps.reduce<number[]>((all, g) => [...all, all.at(-1)! + g], [0]).map((s) => ({ time: at(s) }))) / 1000;
  assert.equal(of(13, 5, 5, 5, 5, 300, 5), 5, "after an outage");
  assert.equal(of(13, 5, 300, 5), 13, "of few decisions the service knows more");
  assert.equal(of(15, 0, 15, 0, 15, 0, 15), 15, "calls that come twice");
  assert.equal(of(15, 60, 45, 60, 30, 60), 15, "a log that leaves decisions out");
  assert.equal(of(60, ...new Array<number>(16).fill(5), ...new Array<number>(16).fill(60)), 60, "a new pace");
  assert.equal(of(0, 5, 5, 5, 5), 0, "unknown");
});

test("a chart ends where nobody asked any more", () => {
  const now = t0 / 1000 + 3600;
  const drawn = (until?: number) => plotted({
    span: { from: now - 3600, now, to: now + 60 }, until, decisions: [{ time: at(60), currentReplicas: 3, desiredReplicas: 3, basis: { proposal: 3 } }],
    recommendations: [], outlook: undefined, limits: [], ahead: [], compared: false,
  }).data[0].at(-1);
  assert.deepEqual([drawn(), drawn(now - 1200)], [now, now - 1200]);
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
  const ends = (outcome: string, target: string) => story({ currentReplicas: 3, desiredReplicas: 5, outcome }, target).outcome[0];
  assert.deepEqual(["PENDING", "APPLIED", "FAILED", "DROPPED", "NONE"].map((o) => ends(o, "web")), ["pending", "applied", "failed", "not applied", ""]);
  assert.deepEqual(["PENDING", "APPLIED", "DROPPED", "NONE"].map((o) => ends(o, "web.-shadow")), ["pending", "seen", "not seen", ""], "a shadow applies nothing");
});

test("a story under an override begins with what holds, and what the metrics ask for, in the service's words", () => {
  const message = 'held at 3 by ops until 2026-11-26T14:00:00Z: "migration"; the recommendation would be 6';
  const hold = { currentReplicas: 3, desiredReplicas: 3, plainDesiredReplicas: 6, states: ["OVERRIDDEN"], adjustments: [{ stage: "WINDOW", message: "remembers" }, { stage: "OVERRIDE", rule: "hold", message }] };
  assert.deepEqual(story(hold).because, [{ text: message, tone: "notice" }]);
  const pin = { ...hold, desiredReplicas: 8, reason: "external metric queue above target", adjustments: [{ stage: "OVERRIDE", rule: "pin", message }] };
  assert.deepEqual(story(pin).because.map((b) => b.text), [message, "external metric queue above target"], "also before the controller's reason");
  const stage = { ...hold, states: [], adjustments: [{ stage: "REVERSALS", message: "waits" }] };
  assert.deepEqual(story(stage).because.map((b) => b.text), ["waits"], "a stage that keeps a change back is no wish of the metrics");
  const failing = { ...hold, conditions: [{ type: "ScalingActive", status: "False", message: "no metrics" }] };
  assert.equal(story(failing).because[0]!.text, "no metrics", "what is broken comes first");
  assert.equal(story({ ...hold, adjustments: [] }).because[0]!.text, "the metrics ask for no change", "an override that changes nothing");
});

test("the chart's colour is that of what has the last word, and the legend has no other", () => {
  const d = (states: string[], proposal: number | undefined, desiredReplicas = 3) => ({ states, desiredReplicas, basis: { proposal } });
  for (const [decision, state] of [
    [d(["OVERRIDDEN", "AT_MAXIMUM"], 20), "OVERRIDDEN"], [d(["OVERRIDDEN"], 6), "OVERRIDDEN"], [d(["AT_MAXIMUM", "HELD"], 20), "AT_MAXIMUM"],
    [d(["HELD"], 1), "HELD"], [d(["AT_MINIMUM"], 1), "AT_MINIMUM"],
    [d(["OVERRIDDEN"], 3), ""], [d(["HELD"], undefined), ""], [d([], 6), ""], [{ states: ["AT_MINIMUM"], basis: { proposal: 0 } }, ""],
  ] as const) assert.equal(gapOf(decision as Decision), gaps.find((g) => g.state === state)?.tone, JSON.stringify(decision));
  for (const list of [gaps.map((g) => g.tone), gaps.map((g) => g.label)]) assert.equal(new Set(list).size, gaps.length, "each its own");
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
  assert.deepEqual(columns([[[1, 10], [3, 30]], [[2, 20], [3, 31]]]), [[1, 2, 3], [10, undefined, 30], [undefined, 20, 31]]);
  assert.deepEqual(columns([[[1, 10], [2, null], [4, 30]], [[3, 20]]]), [[1, 2, 3, 4], [10, null, null, 30], [undefined, undefined, 20, undefined]], "a gap lasts until it is known again");
});

test("the basis of a decision is not unlearned", () => {
  const [d] = merge([{ recommendationId: "a", time: at(0), basis: { proposal: 3 } }], [{ recommendationId: "a", time: at(0), outcome: "APPLIED" }]);
  assert.deepEqual([d!.basis?.proposal, d!.outcome], [3, "APPLIED"]);
  // The record, which is read after the log or before it.
  const [logged, kept] = [{ metricProposals: [3, 2], minReplicas: 0, maxReplicas: 9, proposal: 3 }, { proposal: 3, metricProposals: [] }].map((basis) => [{ recommendationId: "a", time: at(0), basis }]);
  for (const [known, more] of [[logged, kept], [kept, logged]]) assert.deepEqual(merge(known!, more!)[0]!.basis, logged![0]!.basis);
});

test("a count that was never read is unknown, one that was is the last known", () => {
  const states = ["SCALE_UNREADABLE"];
  assert.equal(counts({ states }), undefined);
  assert.equal(story({ states }).head, "left as it is (the count is unknown)");
  assert.deepEqual(counts({ states, currentReplicas: 4, desiredReplicas: 4 }), { from: 4, to: 4, after: 4 });
  assert.equal(story({ states, currentReplicas: 4, desiredReplicas: 4 }).head, "left as it is (last known count: 4)");
  assert.deepEqual(counts({}), { from: 0, to: 0, after: 0 }, "0 that was read");
});

test("one chart has one metric, whatever was in its place by an earlier spec", () => {
  const external = (value: string) => ({ type: "External", external: { metric: { name: "queue" }, current: { value } } });
  const metrics = [{ type: "Resource", resource: { name: "cpu", current: { averageUtilization: 80 } } }, external("40"), { type: "" }, external("-6")];
  const decisions = metrics.map((m, i): Decision => ({ time: at(i), currentReplicas: 2, currentMetrics: [m] }));
  const now = t0 / 1000;
  const { values, missing, of } = measuredOver(decisions, { from: now, now, to: now + 9 }, 0);
  assert.deepEqual([values.map((v) => v[1]), missing, of?.name], [[null, 40, null, -6], 1, "queue"]);
  const load = JSON.parse(Buffer.from(tryPath("web", {}, decisions, 0).split("=")[1]!, "base64url").toString()).load as number[][];
  assert.deepEqual(load.map((r) => r[1]), [40, -6]);
  assert.deepEqual([metricRange(-6, 40), metricRange(-6, -2), metricRange(3, 40), metricRange(0, 0), metricRange(null, null)].map((r) => r.map(Math.round)), [[-7, 46], [-7, 0], [0, 46], [0, 1], [0, 1]]);
});

test("a click finds the nearest decision; a change, where its marker is", () => {
  const quiet = { recommendationId: "q", time: at(10), currentReplicas: 3, desiredReplicas: 3 };
  const change = { recommendationId: "c", time: at(18), currentReplicas: 3, desiredReplicas: 4 };
  const found = (x: number, marker?: number) => nearest([quiet, change], t0 / 1000 + x, marker)?.recommendationId;
  assert.deepEqual([found(13), found(13, 4), found(13, 5), found(15)], ["q", "q", "c", "c"]);
  assert.equal(nearest([], 0), undefined);
});

test("the newest decisions that know it tell the bounds", () => {
  assert.equal(basisOf([{ basis: { maxReplicas: 7 } }, { basis: { minReplicas: 2, maxReplicas: 9 } }, { basis: { proposal: 4 } }, {}]).maxReplicas, 9);
  assert.deepEqual(basisOf([{}]), {});
});

const tolerance = { scaleUp: 0.1, scaleDown: 0.1 };

test("a sum has the engine's ratio and proposal, and the digits that lead to them", () => {
  const pods = (average: string, usageRatio: number, replicasBase: number, rule: string, proposal: number) =>
    sum({ calculation: "AverageValue", current: { averageValue: average }, target: { averageValue: "120" }, usageRatio, replicasBase, tolerance, rule, proposal, podCounts: { ready: replicasBase } }).lines;
  assert.deepEqual(pods("107640m", 0.897, 14, "Proportional", 13), ["107.6 / 120 = 0.897", "14 pods × 0.897 = 12.558 → 13"], "108 / 120 would be within the tolerance");
  assert.deepEqual(pods("108", 0.9, 14, "WithinTolerance", 14), ["108 / 120 = 0.90", "0.90 is within the tolerance of 0.9 to 1.1: no change"]);
  assert.deepEqual(pods("132040m", 1.1003333, 10, "Proportional", 12), ["132.04 / 120 = 1.1003", "10 pods × 1.1003 = 11.003 → 12"]);
  assert.deepEqual(pods("240100m", 2.0008333, 3, "Proportional", 7), ["240.1 / 120 = 2.001", "3 pods × 2.001 = 6.003 → 7"], "3 × 2.00 would be 6");
  assert.deepEqual(pods("249600m", 2.08, 12, "Proportional", 25)[1], "12 pods × 2.08 = 24.96 → 25", "not 25 → 25");
  assert.deepEqual(pods("240", 2, 3, "Proportional", 6), ["240 / 120 = 2.00", "3 pods × 2.00 = 6"]);
  assert.deepEqual(pods("800", 20 / 3, 3, "Proportional", 20)[1], "3 pods × 6.67 = 20", "not 3 × 6.66666667 = 20.00000001 → 20");
});

test("pods that were filled in, totals and failures are told", () => {
  const decision = sum({ calculation: "Utilization", current: { averageUtilization: 140 }, target: { averageUtilization: 60 }, usageRatio: 140 / 60, dampenedUsageRatio: 93 / 60, replicasBase: 6, tolerance, rule: "Proportional", proposal: 10, podCounts: { ready: 4, missing: 1, unready: 1 } });
  assert.deepEqual(decision.lines, ["140 / 60 = 2.33", "1.55 with 1 missing and 1 unready pods filled in", "6 pods × 1.55 = 9.3 → 10"]);
  assert.deepEqual([decision.reading, decision.target, decision.proposal], ["140 %", "60 %", 10]);
  const queue = sum({ calculation: "AverageValuePerReplica", current: { averageValue: "13334m" }, target: { averageValue: "10" }, totalUsage: "40", usageRatio: 40 / 30, tolerance, rule: "Proportional", proposal: 4 });
  assert.deepEqual(queue.lines, ["13.3 / 10 = 1.33", "40 in all / 10 = 4"]);
  assert.deepEqual(sum({ target: { value: "3" }, error: "no answer" }), { reading: "no reading", target: "3", lines: [], error: "no answer", proposal: undefined });
  assert.deepEqual(sum({ usageRatio: 1, tolerance, rule: "DampenedReversed", proposal: 3 }).lines.at(-1), "with those the ratio turns round: no change");
});

test("a trace goes from the metrics' proposal to the count", () => {
  const told = steps({
    proposal: { replicas: 4, metric: "queue" },
    stabilization: { proposedReplicas: 4, stabilizedReplicas: 10, windows: [{ direction: "Up", windowSeconds: 0 }, { direction: "Down", windowSeconds: 300, replicas: 10, recommendationTime: at(0), releaseTime: at(300) }] },
    rateLimit: { direction: "Down", selectPolicy: "Max", limit: 11, limited: true, policies: [{ type: "Percent", value: 20, periodSeconds: 60, limit: 11, selected: true }] },
    bounds: { minReplicas: 2, maxReplicas: 12, wantedReplicas: 10, boundedReplicas: 11, reason: "ScaleDownLimit" },
    desiredReplicas: 11,
  });
  assert.deepEqual(told.map((s) => [s.what, s.count, s.held]), [["Metrics", 4, false], ["Windows", 10, true], ["Policies, at least", 11, true], ["Bounds", 11, false], ["Decided", 11, false]]);
  assert.match(told[1]!.how[0]!, /^down, 5 min: 10, recommended at .*, leaves at /);
  assert.deepEqual(told[2]!.how, ["20 % per 1 min: 11, which decides"]);
  assert.deepEqual(steps({}), [], "nothing is known of it");
});

test("adjustments are told with the override first, and bounded", () => {
  const schedule = { stage: "BOUNDS", rule: "schedule/office", message: "schedule \"office\" raises minReplicas from 2 to 8", untilTime: at(60) };
  const hold = { stage: "OVERRIDE", rule: "hold", message: "held at 10 by alice" };
  assert.deepEqual(adjustments({ adjustments: [schedule, hold] }), [
    { stage: "Override", tone: "held", text: "held at 10 by alice", until: 0 },
    { stage: "Bounds", tone: "limited", text: "schedule \"office\" raises minReplicas from 2 to 8", until: t0 + 60_000 },
  ]);
  assert.deepEqual(adjustments({}), []);
  const began = adjustments({ adjustments: [{ stage: "OVERRIDE", rule: "begins", message: "it begins" }, hold] });
  assert.deepEqual(began.map((a) => a.stage), ["Override", "Override begins"], "one that begins or ends is not the one that decides");
  assert.equal(adjustments({ adjustments: [{ stage: "SURGE", rule: "External:queue" }] })[0]!.text, "External:queue", "without a sentence");
  const many = adjustments({ adjustments: Array.from({ length: 1000 }, () => ({ message: "x".repeat(9999) })) });
  assert.deepEqual([many.length, many[0]!.text.length, many[0]!.stage], [32, 300, "Stage"]);
  assert.deepEqual(["ZERO_GUARD", "OF_TOMORROW", ""].map(stageName), ["Zero guard", "Of tomorrow", "Stage"]);
});

test("what changes the count, fails, or begins or ends an override is told among the changes", () => {
  const of = (...rules: string[]): Decision => ({ currentReplicas: 4, desiredReplicas: 4, adjustments: rules.map((rule) => ({ stage: "OVERRIDE", rule })) });
  assert.deepEqual([of(), of("hold"), of("begins", "hold"), of("ends"), { desiredReplicas: 4 }, { outcome: "FAILED" }].map(told), [false, false, true, true, true, true]);
  assert.equal(told({ adjustments: [{ stage: "BOUNDS", rule: "begins" }] }), false, "another stage's rule of this name");
  assert.deepEqual([of("begins", "begins", "hold"), of("hold"), {}].map(turned), [2, 0, 0]);
});

test("the plain count is told where it is another one", () => {
  assert.equal(plain({ desiredReplicas: 10, plainDesiredReplicas: 8 }), "plain 8");
  assert.equal(plain({ desiredReplicas: 10, plainDesiredReplicas: 0 }), "plain 0");
  assert.equal(plain({ plainDesiredReplicas: 0 }), "", "both are 0");
  assert.equal(plain({ desiredReplicas: 10 }), "");
  assert.equal(plain(undefined), "");
});

test("steps hold until the next, also those before what is shown, and a day later", () => {
  const of = [[0, 1], [10, 3], [20, 2], [30, 9]] as [number, number][];
  assert.deepEqual(between(of, 5, 25), [[5, 1], [10, 3], [20, 2], [25, 2]]);
  assert.deepEqual(between(of, 10, 10), [[10, 1], [10, 3], [10, 3]]);
  assert.deepEqual(between(of, -5, 3), [[0, 1], [3, 1]]);
  assert.deepEqual(between([], 0, 9), []);
  assert.deepEqual(dayBefore(of, day + 15, day + 25), [[day + 15, 3], [day + 20, 2], [day + 25, 2]]);
});

test("a chart's count is the one that was: a change that failed, was not made or is not known yet is not drawn", () => {
  const change = (s: number, outcome: string): Decision => ({ recommendationId: `${s}`, time: at(s), currentReplicas: 6, desiredReplicas: 9, outcome });
  const drawn = (...decisions: Decision[]) => plotted({
    span: { from: t0 / 1000, now: t0 / 1000 + 60, to: t0 / 1000 + 60 }, decisions, recommendations: [], outlook: undefined, limits: [], ahead: [], compared: false,
  }).data[1];
  for (const outcome of ["FAILED", "DROPPED", "PENDING"]) assert.deepEqual(drawn(change(0, outcome), change(5, outcome)), [6, 6, 6], outcome);
  assert.deepEqual(drawn(change(0, "FAILED"), change(5, "APPLIED")), [6, 9, 9]);
  assert.deepEqual(["FAILED", "DROPPED", "PENDING", "APPLIED"].map((o) => changed(change(0, o))), [false, false, false, true], "only what happened has a triangle");
  const log = [change(0, "APPLIED"), change(5, "APPLIED"), change(9, "FAILED")];
  assert.deepEqual([undefined, at(2), at(7)].map((scaled) => lastChange(scaled, log)), [5, 5, 7].map((s) => t0 + s * 1000), "an override's change is a change, too");
  assert.ok(Number.isNaN(lastChange(undefined, [])));
});

// A line needs two ends: a first reading, and one between two that failed, are drawn as points.
test("values that no line leads to are points", () => {
  assert.deepEqual(alone([1]), [0]);
  assert.deepEqual(alone([undefined, 1, undefined]), [1]);
  assert.deepEqual(alone([1, undefined, 2, null, 3, null, undefined, 4]), [4, 7]);
  assert.deepEqual(alone([null, undefined]), []);
});
