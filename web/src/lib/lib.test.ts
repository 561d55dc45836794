import assert from "node:assert/strict";
import { test } from "node:test";
import { SetpointError } from "@setpoint-dev/client/json";
import { linkOf } from "../components/links";
import { spoken } from "../components/problem";
import { Bar } from "../operations/view";
import { csv, grouped, lack, select } from "../targets/order";
import { formatQuery, matcher, parseQuery } from "../targets/query";
import { searched } from "./names";
import { SparkLine } from "../targets/spark";
import { TargetsStore, type Row } from "../targets/store";
import { lines } from "../target/spec";
import { brief, bytes, compact, duration, integer, localClock, localTime, quantity, relative, utc } from "./format";
import { reading } from "./metrics";
import { copy } from "./copy";
import { Spark } from "./spark";
import { AtMax, Changed, ended, Failing, Flapping, Held, NotAsked, Overridden, Pending, stateBits, states, targetBits, Unknown, Unreadable, UpdateFailed, why } from "./state";

const decision = (states: string[], more: object = {}) => ({ states, ...more });
const condition = (type: string, status: string, reason: string) => ({ type, status, reason, message: `${type}: ${reason}` });

test("the service's words come to states, and none is steady unless the service knows", () => {
  assert.equal(stateBits(decision([])), 0);
  assert.equal(stateBits(decision(["METRICS_FAILING", "AT_MAXIMUM"])), Failing | AtMax);
  assert.equal(stateBits(decision(["SCALE_UNREADABLE"])), Unreadable);
  assert.equal(stateBits(decision(["UPDATE_FAILED"])), UpdateFailed, "no failure of metrics");
  assert.equal(stateBits(decision(["A_LATER_WORD"])), 0);
  assert.equal(stateBits(decision([], { outcome: "PENDING" })), Pending);
  assert.equal(stateBits({ desiredReplicas: 3 }), Unknown, "of an older service");
  assert.equal(stateBits(undefined), Unknown);
  const words = states.filter((s) => s.word).map((s) => s.word);
  assert.equal(new Set(words).size, 10);
  assert.deepEqual(states.map((s) => s.bit), [...states.map((s) => s.bit)].sort((a, b) => b - a), "bits are in the order of urgency");
});

test("who asks no more, and who turns often, is as the service says", () => {
  const now = 10_000;
  const time = (s: number) => new Date(s * 1000).toISOString();
  const t = { lastDecision: { ...decision(["HELD"]), time: time(now) }, updateTime: time(now), notAskedTime: time(now + 45), flappingUntilTime: time(now + 60) };
  assert.equal(targetBits(t, (now + 45) * 1000), Held | Flapping);
  assert.equal(targetBits(t, (now + 46) * 1000), Held | Flapping | NotAsked);
  assert.equal(targetBits(t, (now + 60) * 1000), Held | NotAsked);
  assert.equal(targetBits(t, (now + 60) * 1000, (now + 45) * 1000), Held, "who asks since it was read is not known");
  assert.equal(targetBits({ ...t, updateTime: time(now + 20) }, (now + 60) * 1000), Held, "a report shows that its caller lives");
  assert.equal(targetBits({ lastDecision: t.lastDecision, updateTime: t.updateTime }, (now + 9000) * 1000), Held, "an older service tells neither");
});

test("the most urgent state tells why", () => {
  const conditions = [condition("AbleToScale", "True", "ScaleDownStabilized"), condition("ScalingActive", "True", "ValidMetricFound"), condition("ScalingLimited", "True", "TooManyReplicas")];
  const told = why(Held | AtMax, { conditions });
  assert.equal(told.short, "Would be more than maxReplicas");
  assert.equal(told.long, "ScalingLimited: TooManyReplicas");
  assert.equal(why(Failing, { conditions: [condition("ScalingActive", "False", "FailedGetExternalMetric")] }).short, "ScalingActive: FailedGetExternalMetric");
  assert.equal(why(Failing, { conditions, error: "of one" }).short, "of one", "the other metric decides");
  assert.equal(why(UpdateFailed, { conditions: [condition("AbleToScale", "False", "FailedUpdateScale")] }).short, "The last change could not be applied");
  assert.equal(why(NotAsked | Held, { conditions }).short, "Nobody asks: does its agent run, or give way to another autoscaler?");
  assert.equal(why(0, { reason: "All metrics below target" }).short, "All metrics below target");
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

test("a spark line ends where nobody asked any more, and dots say so", () => {
  const now = 100_000;
  const spark = new Spark();
  spark.add(now - 2700, 3, 0);
  spark.add(now - 2400, 5, 0);
  const drawn = (until: number) => JSON.stringify(SparkLine({ spark, now: now * 1000, until, bits: 0 }));
  const ends = (text: string) => [/"line","d":"[^"]*H([\d.]+)"/, /"unknown","d":"[^"]*?M([\d.]+) [\d.]+H128"/, /"cx":([\d.]+)/].map((r) => Number(r.exec(text)?.[1]));
  assert.deepEqual(ends(drawn(Infinity)), [128, NaN, 128], "asked for");
  assert.deepEqual(ends(drawn(now - 900)), [96, 96, 96], "not asked for since 15 minutes");
  assert.match(drawn(now - 900), /45 min ago to 15 min ago: 3 to 5 replicas/);
  assert.match(drawn(Infinity), /the last 45 min: 3 to 5 replicas/);
  const none = drawn(now - 4000);
  assert.deepEqual([ends(none)[1], ends(none)[2]], [0, NaN], "since more than the hour");
  assert.match(none, /nothing known of the last hour/);
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
  for (const [s, text] of [[599, "9 min 59 s"], [3599, "1 h"], [86_390, "1 d"], [129_600, "1 d 12 h"], [-5, "0 s"]] as const) assert.equal(duration(s * 1000), text);
  for (const [n, text] of [[512, "512 B"], [1010 * 2 ** 20, "1\u2009010 MiB"], [1023.9 * 1024, "1 MiB"], [1.5 * 2 ** 30, "1.5 GiB"], [999.7 * 2 ** 10, "1\u2009000 KiB"]] as const) assert.equal(bytes(n), text);
  for (const [n, text] of [[9.2e18, "9.2E"], [-1.26e15, "-1.26P"], [999.6e18, "1.0e+21"], [0.0000123, "1.2e-5"], [-0.25, "-0.25"]] as const) assert.equal(compact(n), text);
  assert.equal(compact(999.6, 4), "999.6");
  const midnight = new Date(2026, 0, 5).getTime();
  assert.equal(localClock(midnight), "00:00:00");
  assert.match(localTime(midnight), /\b00:00:00/);
  assert.equal(relative(0, 3_599_000), "1 h ago");
  assert.equal(relative(0, 86_399_000), "1 d ago");
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
  const ofOne = reading({ type: "ContainerResource", containerResource: { name: "cpu", container: "app", current: { averageUtilization: 50 } } });
  assert.deepEqual([ofOne.name, ofOne.text], ["cpu of app", "50 %"]);
  const ofPods = reading({ type: "Pods", pods: { metric: { name: "requests" }, current: { averageValue: "10" } } });
  assert.deepEqual([ofPods.name, ofPods.text], ["requests", "10 per replica"]);
  const none = reading({ type: "External", external: { metric: { name: "queue" }, current: { averageValue: "9223372036854775807m" } } });
  assert.deepEqual([none.text, none.number, none.kind], ["no average", NaN, "average"], "there were no replicas to divide by");
  assert.equal(reading({ type: "" }).kind, "none");
});

test("the URL holds search, filters and order, and nothing else", () => {
  const q = parseQuery(new URLSearchParams("q=web+prod&state=held,max,nonsense&sort=-changed"));
  assert.equal(q.text, "web prod");
  assert.equal(q.filter, Held | AtMax);
  assert.equal(q.sort, "changed");
  assert.equal(q.descending, true);
  assert.deepEqual(parseQuery(new URLSearchParams(formatQuery(q))), q);
  assert.equal(formatQuery(parseQuery(new URLSearchParams("sort=evil&x=y&group=evil"))), "");
  const usual = parseQuery(new URLSearchParams());
  assert.deepEqual([usual.sort, usual.descending], ["state", true], "the most urgent first");
  assert.equal(formatQuery(parseQuery(new URLSearchParams("sort=name&group=cluster"))), "?sort=name&group=cluster");
});

test("every word has to be found", () => {
  for (const text of ["shop/web", "eu/shop/web", "web shop eu", "clusters/eu/namespaces/shop/targets/web"]) assert.ok(matcher(text)(searched("clusters/eu/namespaces/Shop/targets/web")), text);
  const m = matcher("Web prod");
  assert.ok(m("web shop prod-eu"));
  assert.ok(!m("web shop staging"));
  assert.ok(matcher("")("anything"));
});

const row = (name: string, more: Partial<Row> = {}): Row => {
  const [, cluster, , namespace, , target] = name.split("/");
  return { name, cluster, namespace, target, searched: name, shadows: "", bits: 0, current: 3, desired: 3, wants: 3, why: "", whyLong: "", metric: "", metricName: "", goal: "", kind: "", changed: 0, updated: 0, metricNumber: NaN, ...more } as Row;
};
const named = (target: string) => `clusters/eu/namespaces/shop/targets/${target}`;

test("the most urgent comes first, then what lacks most, and a shadow beside its target", () => {
  const rows = [
    row(named("calm")), row(named("short"), { bits: AtMax, wants: 5 }), row(named("dead"), { bits: NotAsked }), row(named("shorter"), { bits: AtMax, wants: 30 }),
    row(named("short.-shadow"), { shadows: named("short"), bits: NotAsked }),
  ];
  const targets = (sort: string) => select(rows, parseQuery(new URLSearchParams(sort && `sort=${sort}`))).map((r) => r.target);
  assert.deepEqual(targets(""), ["dead", "shorter", "short", "short.-shadow", "calm"]);
  assert.deepEqual(targets("-lack").slice(0, 2), ["shorter", "short"]);
});

test("groups sum what is known, and say what is not", () => {
  const rows = [
    row(named("a"), { current: 6, desired: 6, wants: 30 }), row(named("b"), { current: undefined, desired: undefined, wants: undefined, bits: Unreadable }),
    row(named("a.-shadow"), { shadows: named("a"), current: 6 }), row("clusters/us/namespaces/shop/targets/a", { bits: Failing, wants: undefined }),
  ];
  const sums = grouped(rows, "namespace").map(({ key, targets, replicas, wanted, unknown, broken }) => ({ key, targets, replicas, wanted, unknown, broken }));
  assert.deepEqual(sums, [
    { key: "eu/shop", targets: 2, replicas: 6, wanted: 30, unknown: 1, broken: 1 },
    { key: "us/shop", targets: 1, replicas: 3, wanted: 3, unknown: 0, broken: 1 },
  ]);
  assert.deepEqual(grouped(rows, "cluster").map((g) => [g.key, g.rows.length]), [["eu", 3], ["us", 1]]);
});

test("a spreadsheet runs nothing that somebody wrote", () => {
  const [, line] = csv([row(named("-2+3"), { whyLong: '=HYPERLINK("https://evil.example","a,b")', metricName: "@SUM(A1)", why: "x", current: undefined, desired: undefined, wants: undefined })]).split("\r\n");
  assert.ok(line!.startsWith("eu,shop,'-2+3,"), line);
  assert.ok(line!.includes(`,'@SUM(A1),`), line);
  assert.ok(line!.endsWith(`,"'=HYPERLINK(""https://evil.example"",""a,b"")"`), line);
  const [, wide] = csv([row(named("web"), { whyLong: "＝1+1" })]).split("\r\n");
  assert.ok(wide!.endsWith(",'＝1+1"), "some take these for formulas, too");
  const [, hidden] = csv([row(named("web"), { whyLong: "\t=1+1\u001b[31m\r\nred", metricName: "a\u202eb" })]).split("\r\n");
  assert.ok(hidden!.includes(",a\ufffdb,") && hidden!.endsWith(",\ufffd=1+1\ufffd[31m\ufffd\ufffdred"), hidden);
  assert.ok(line!.includes(",,,,"), "what is not known is left empty");
});

test("links have names in their places, and nothing else", () => {
  assert.equal(linkOf("https://g.example/d?var-ns={namespace}&var-t={target}&c={cluster}#{x}", named("web.-shadow")), "https://g.example/d?var-ns=shop&var-t=web&c=eu#{x}");
  assert.equal(linkOf("https://g.example/{target}", "clusters/a/namespaces/b/targets/x y&z"), "https://g.example/x%20y%26z");
});

/** What the store of the last row would read again. */
let last = new Set<Row>();
const unsure = (row: Row): boolean => last.has(row);

/** What a store makes of a target, and of decisions that are watched after it was read. */
function stored(target: object, ...decisions: object[]): Row {
  const store = new TargetsStore() as unknown as { takeTarget(name: string, t: object): void; take(batch: object[]): void; find(name: string): Row; tell(): void; unsure: Set<Row> };
  store.tell = () => {};
  last = store.unsure;
  store.takeTarget(named("web"), target);
  store.take(decisions.map((d) => ({ target: named("web"), decision: d })));
  return store.find(named("web"));
}
const ago = (s: number) => new Date(Date.now() - s * 1000).toISOString();

test("nothing is shown that is not known", () => {
  const failing = stored({ updateTime: ago(1), status: { currentReplicas: 4, desiredReplicas: 0 }, lastDecision: decision(["METRICS_FAILING"], { time: ago(1), currentReplicas: 4, desiredReplicas: 4 }) });
  assert.deepEqual([failing.current, failing.desired, failing.spark.counts], [4, 4, [4]], "nobody decided 0");
  const unread = stored({ updateTime: ago(1), status: {}, lastDecision: decision(["SCALE_UNREADABLE"], { time: ago(1) }) });
  assert.deepEqual([unread.current, unread.desired, unread.spark.counts], [undefined, undefined, []]);
  assert.ok(stored({ updateTime: ago(3000), notAskedTime: ago(2955), lastDecision: decision([], { time: ago(3000) }) }).bits & NotAsked, "its agent died");
  const bounded = stored({ updateTime: ago(1), specInUse: { hash: "x", spec: { maxReplicas: 6 } }, lastDecision: decision([], { time: ago(1), desiredReplicas: 6, basis: { proposal: 30 } }) });
  assert.deepEqual([bounded.min, bounded.max, bounded.wants], [1, 6, 30]);
});

test("what was decided lacks, and what was applied has changed the count", () => {
  const change = (outcome: string) => decision(["AT_MAXIMUM"], { time: ago(10), currentReplicas: 3, desiredReplicas: 6, action: "SCALE_UP", outcome, basis: { proposal: 30, maxReplicas: 6 } });
  for (const [outcome, changed, drawn] of [["PENDING", false, [3]], ["FAILED", false, [3]], ["DROPPED", false, [3]], ["APPLIED", true, [3, 6]]] as const) {
    const read = stored({ updateTime: ago(10), status: { currentReplicas: 3 }, lastDecision: change(outcome) });
    const watched = stored({ updateTime: ago(30), status: { currentReplicas: 3 }, lastDecision: decision([], { time: ago(30), currentReplicas: 3, desiredReplicas: 3 }) }, change("PENDING"), change(outcome));
    for (const row of [read, watched]) assert.deepEqual([row.current, row.desired, row.wants, lack(row)], [3, 6, 30, 24], outcome);
    assert.deepEqual([(watched.bits & Changed) > 0, watched.changed > 0, watched.spark.counts], [changed, changed, drawn], outcome);
    assert.ok(csv([read]).includes(",3,6,,6,30,24,"), outcome);
  }
});

test("an override that has ended decides nothing any more", () => {
  const overridden = (until: string | undefined) => ({
    updateTime: ago(60), notAskedTime: ago(-60),
    lastDecision: decision(["OVERRIDDEN", "AT_MAXIMUM"], { time: ago(60), currentReplicas: 4, desiredReplicas: 4, adjustments: [{ stage: "OVERRIDE", rule: "hold", message: "held at 4 by alice", untilTime: until }] }),
  });
  for (const [until, bits] of [[ago(-30), Overridden | AtMax], [ago(1), Unknown | AtMax], [undefined, Overridden | AtMax]] as const) {
    const t = overridden(until);
    assert.equal(targetBits(t, Date.now()), bits);
    const row = stored(t);
    assert.deepEqual([row.bits & ~NotAsked, row.why === ended], [bits, bits === (Unknown | AtMax)]);
  }
});

test("turns are the service's: one that is seen makes the page ask", () => {
  const target = { updateTime: ago(30), notAskedTime: ago(-60), lastDecision: decision([], { time: ago(30), action: "SCALE_UP", currentReplicas: 3, desiredReplicas: 5 }) };
  const change = (seconds: number, from: number, to: number, outcome = "PENDING") => decision([], { recommendationId: `${seconds}`, time: ago(seconds), currentReplicas: from, desiredReplicas: to, action: to > from ? "SCALE_UP" : "SCALE_DOWN", outcome });
  const asks = (...decisions: object[]) => unsure(stored(target, ...decisions));
  assert.ok(!asks(change(10, 5, 7)), "up after up");
  assert.ok(!asks(change(40, 5, 3)), "what the service has counted");
  assert.ok(asks(change(10, 5, 3)), "down after up");
  const flapping = { ...target, flappingUntilTime: ago(-600) };
  assert.ok(stored(flapping).bits & Flapping);
  assert.ok(unsure(stored(flapping, change(10, 5, 7, "FAILED"))), "a change that failed is none");
  assert.ok(!(stored({ ...target, flappingUntilTime: ago(1) }).bits & Flapping), "it was");
});

test("a spec's stages are lines, too", () => {
  assert.deepEqual(lines({ maxReplicas: 5 }, undefined, {
    schedules: [{ name: "office", timeZone: "Europe/Berlin", cron: "0 8 * * 1-5", duration: "43200s", minReplicas: 8 }], windowThroughFailures: false, guards: { ignoreSurge: true }, forecast: { mode: "", season: "", lead: "90s", quantilePercent: 0, timeZone: "Europe/Berlin" },
  }), [
    ["maxReplicas", "5"], ["schedule office", "at least 8, from 0 8 * * 1-5 for 12 h (Europe/Berlin)"], ["guards", '{"ignoreSurge":true}'], ["forecast", '{"lead":"1 min 30 s","timeZone":"Europe/Berlin"}'],
  ]);
});

test("errors begin with a capital, names do not, and pages of proxies are not shown", () => {
  const said = (code: "PERMISSION_DENIED" | "UNAVAILABLE", text: string) => spoken(new SetpointError(code, text));
  assert.deepEqual([said("PERMISSION_DENIED", "oidc:bob may not read"), said("UNAVAILABLE", "the store is away."), said("UNAVAILABLE", "HTTP status 503: <html>\n<p>x"), said("UNAVAILABLE", "")], ["oidc:bob may not read.", "The store is away.", "HTTP status 503.", ""]);
});

test("a bar is high where little is left, and not where all is", () => {
  const high = (value: number, left = false) => JSON.stringify(Bar({ value, most: 100, label: "", left })).includes("fill high");
  assert.deepEqual([high(90), high(80), high(100, true), high(10, true)], [true, false, false, true]);
});

test("what was not copied is not said to be", async () => {
  const with_ = async (clipboard: object | undefined) => {
    Object.defineProperty(globalThis, "navigator", { value: { clipboard }, configurable: true });
    return copy("x");
  };
  assert.deepEqual([await with_({ writeText: async () => {} }), await with_({ writeText: () => Promise.reject(new Error("not allowed")) }), await with_(undefined)], [true, false, false]);
});

test("counts where there is little room are whole or rounded, never cut", () => {
  assert.deepEqual([0, 9999, 10_000, 19_744, 1_234_567].map(brief), ["0", integer(9999), "10k", "19.7k", "1.23M"]);
});
