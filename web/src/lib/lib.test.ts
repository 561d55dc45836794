import assert from "node:assert/strict";
import { test } from "node:test";
import { Lines, errorOf } from "../api/client";
import { apart, backoff, watchPath } from "../api/watch";
import { formatQuery, matcher, parseQuery } from "../fleet/query";
import { compact, duration, integer, quantity, relative, utc } from "./format";
import { reading } from "./metrics";
import { Spark } from "./spark";
import { AtMax, AtMin, Failing, Held, Limited, reversals, stateBits, why } from "./state";

const able = (reason: string, status = "True") => ({ type: "AbleToScale", status, reason, message: `able: ${reason}` });
const active = (status: string, reason: string) => ({ type: "ScalingActive", status, reason, message: `active: ${reason}` });
const limited = (status: string, reason: string) => ({ type: "ScalingLimited", status, reason, message: `limited: ${reason}` });

test("conditions come to states", () => {
  const ok = { type: "Resource" };
  assert.equal(stateBits([able("ReadyForNewScale"), active("True", "ValidMetricFound"), limited("False", "DesiredWithinRange")], [ok], ""), 0);
  assert.equal(stateBits([able("ScaleDownStabilized")], [], ""), Held);
  assert.equal(stateBits([able("HistoryUnavailable", "False")], [], ""), Held, "withheld, not failing");
  assert.equal(stateBits([able("BackoffBoth", "False")], [], ""), Held);
  assert.equal(stateBits([able("FailedGetScale", "False")], [], ""), Failing);
  assert.equal(stateBits([limited("True", "TooManyReplicas")], [], ""), AtMax);
  assert.equal(stateBits([limited("True", "TooFewReplicas")], [], ""), AtMin);
  assert.equal(stateBits([limited("True", "ScaleUpLimit")], [], ""), Limited);
  assert.equal(stateBits([active("False", "FailedGetResourceMetric")], [], ""), Failing);
  assert.equal(stateBits([active("False", "ScalingDisabled")], [], ""), 0, "at zero on purpose");
  assert.equal(stateBits([], [ok, { type: "" }], ""), Failing, "one of two metrics has no reading");
});

test("the most urgent condition tells why", () => {
  const conditions = [able("ScaleDownStabilized"), active("True", "ValidMetricFound"), limited("True", "TooManyReplicas")];
  const told = why(Held | AtMax, conditions, "", "");
  assert.equal(told.short, "Asks for more than maxReplicas");
  assert.equal(told.long, "limited: TooManyReplicas");
  assert.equal(why(Failing, [active("False", "FailedGetExternalMetric")], "", "").short, "active: FailedGetExternalMetric");
  assert.equal(why(0, [], "", "All metrics below target").short, "All metrics below target");
});

test("turns are counted, not steps", () => {
  assert.equal(reversals([1, 2, 3, 4]), 0);
  assert.equal(reversals([1, 2, 2, 1]), 1);
  assert.equal(reversals([4, 2, 4, 2, 4]), 3);
  assert.equal(reversals([]), 0);
});

test("a spark line keeps changes, in order of time", () => {
  const s = new Spark();
  assert.equal(s.add(100, 3, 50), true);
  assert.equal(s.add(110, 3, 50), false, "no change");
  s.add(120, 5, 50);
  s.add(115, 4, 50);
  assert.deepEqual(s.times, [100, 115, 120]);
  assert.deepEqual(s.counts, [3, 4, 5]);
  assert.equal(s.add(10, 9, 50), false, "too old");
  s.cut(118);
  assert.deepEqual(s.times, [115, 120], "the count that still held then stays");
  for (let i = 0; i < 500; i++) s.add(200 + i, i, 50);
  assert.ok(s.times.length <= 64);
});

test("quantities are numbers", () => {
  for (const [text, n] of [["450m", 0.45], ["1Gi", 2 ** 30], ["12", 12], ["1.5k", 1500], ["123456789n", 0.123456789], ["1e3", 1000], ["-2", -2]] as const) {
    assert.ok(Math.abs(quantity(text) - n) <= Math.abs(n) * 1e-12, text);
  }
  for (const text of ["", "x", "1Q", "1 2", undefined]) assert.ok(Number.isNaN(quantity(text)), String(text));
});

test("numbers and times are short", () => {
  assert.equal(compact(0.25), "0.25");
  assert.equal(compact(1234), "1.23k");
  assert.equal(compact(100), "100");
  assert.equal(compact(999.9), "1k");
  assert.equal(compact(NaN), "–");
  assert.equal(integer(1234567), "1\u2009234\u2009567");
  assert.equal(duration(45_000), "45 s");
  assert.equal(duration(150_000), "2 min 30 s");
  assert.equal(duration(7_500_000), "2 h 5 min");
  assert.equal(relative(1_000_000, 1_000_500), "just now");
  assert.equal(relative(1_000_000, 1_180_000), "3 min ago");
  assert.equal(relative(1_180_000, 1_000_000), "in 3 min");
  assert.equal(utc(Date.UTC(2026, 0, 2, 3, 4, 5)), "2026-01-02 03:04:05 UTC");
});

test("readings of every type", () => {
  assert.deepEqual(reading({ type: "Resource", resource: { name: "cpu", current: { averageUtilization: 82, averageValue: "410m" } } }), {
    type: "Resource", name: "cpu", kind: "utilization", number: 82, text: "82 %",
  });
  assert.equal(reading({ type: "External", external: { metric: { name: "rps" }, current: { averageValue: "17334m" } } }).text, "17.3 per replica");
  assert.equal(reading({ type: "Object", object: { metric: { name: "q" }, current: { value: "1500" } } }).text, "1.5k");
  assert.equal(reading({ type: "" }).kind, "none");
});

test("the URL holds search, filters and order, and nothing else", () => {
  const q = parseQuery(new URLSearchParams("q=web+prod&state=held,max,nonsense&sort=-changed"));
  assert.equal(q.text, "web prod");
  assert.equal(q.filter, Held | AtMax);
  assert.equal(q.sort, "changed");
  assert.equal(q.descending, true);
  assert.deepEqual(parseQuery(new URLSearchParams(formatQuery(q))), q);
  assert.equal(formatQuery(parseQuery(new URLSearchParams("sort=evil&x=y"))), "");
});

test("every word has to be found", () => {
  const m = matcher("Web prod");
  assert.ok(m("web shop prod-eu"));
  assert.ok(!m("web shop staging"));
  assert.ok(matcher("")("anything"));
});

test("lines of a stream are put together from pieces", () => {
  const l = new Lines();
  assert.deepEqual(l.push('{"a":'), []);
  assert.deepEqual(l.push("1}\n\n{"), ['{"a":1}']);
  assert.deepEqual(l.push("}\n"), ["{}"]);
  assert.throws(() => l.push("x".repeat((4 << 20) + 1)), /too long/);
});

test("errors of the API, of a stream, and of what stands before it", () => {
  const e = errorOf(403, '{"code":7,"message":"no","details":[{"@type":"x"},{"reason":"FORBIDDEN"}]}');
  assert.deepEqual([e.status, e.code, e.message, e.reason], [403, 7, "no", "FORBIDDEN"]);
  assert.equal(errorOf(200, '{"error":{"code":14,"message":"gone"}}').message, "gone");
  assert.equal(errorOf(502, "<html>Bad gateway</html>").message, "<html>Bad gateway</html>");
});

test("waiting doubles up to half a minute, with jitter", () => {
  assert.equal(backoff(0, () => 1), 500);
  assert.equal(backoff(3, () => 1), 4000);
  assert.equal(backoff(50, () => 1), 30_000);
  assert.equal(backoff(50, () => 0), 15_000);
});

test("a watch goes on where it was", () => {
  const start = new Date(Date.UTC(2026, 0, 1));
  assert.equal(watchPath("clusters/-/namespaces/-/targets/-", "", start), "/v1/clusters/-/namespaces/-/targets/-/decisions:watch?maxDecisions=1000&startTime=2026-01-01T00%3A00%3A00.000Z");
  assert.equal(watchPath("clusters/-/namespaces/-/targets/-", "t/1", start), "/v1/clusters/-/namespaces/-/targets/-/decisions:watch?maxDecisions=1000&resumeToken=t%2F1");
});

test("decisions that came together are taken apart", () => {
  const one = { target: "a", decision: {}, resumeToken: "1" };
  const beat = { resumeToken: "3", missedDecisions: 2 };
  const both = [{ target: "b", decision: {} }, { target: "c", decision: {} }];
  assert.deepEqual(apart([one, { decisions: both, resumeToken: "2" }, beat]), [one, ...both, beat]);
});
