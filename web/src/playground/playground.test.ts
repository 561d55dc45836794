import assert from "node:assert/strict";
import { test } from "node:test";
import { time } from "./curve";
import { difference, hunks } from "./diff";
import { edited, presets, withFile, withSpec } from "./presets";
import { envelope, nearest } from "./series";
import { recordedOf } from "./recorded";
import { pack, shared, stateOfFragment, unpack } from "./share";
import { checked, empty, filesOf, hpa, isUsage, scenarioOf, shortened, type State, tried, withUnit } from "./state";
import { tryPath } from "../target/try";

const start = 1_767_571_200;

/** Samples of a load once a minute, with noise in every digit. */
const recording = (minutes: number): string => {
  let seed = 7;
  const draw = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  return Array.from({ length: minutes }, (_, i) => `${start + 60 * i},${Number((220 + 180 * Math.sin((i / 1440) * 2 * Math.PI) + 40 * draw()).toFixed(9))}`).join("\n");
};

const withLoad = (content: string): State => ({ ...structuredClone(empty), load: [{ kind: "file", values: { scale: "1" }, name: "load.json", content }] });

const encoded = async (value: unknown, kind = "p1"): Promise<string> => {
  const stream = new Blob([typeof value === "string" ? value : JSON.stringify(value)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return `#${kind}=${Buffer.from(await new Response(stream).arrayBuffer()).toString("base64url")}`;
};

test("a series is packed and loses nothing", () => {
  for (const content of ["0,1\n60,1.5\n120,0.25", `${start},400\n${start + 15},401\n${start + 15},380\n${start + 45.125},0`, "5,100000000000"]) {
    assert.equal(unpack(pack(content)), content);
  }
  assert.equal(unpack(pack("0,123.456\n1,7.891", 3)), "0,123\n1,8");
  assert.equal(unpack(pack("0,123456\n1,789", 3)), "0,123000\n1,1000");
  assert.equal(unpack(pack("0,0.0123456\n1,0", 3)), "0,0.0123\n1,0");
  for (const other of ["time,value\n0,1", '{"status":"success"}', "0,1e308", "0,NaN", "0,-1", "", "0,0.12345678901234567890"]) assert.equal(pack(other), undefined, other);
});

test("a day of Prometheus, once a minute, is a link for chats, and what it shows is what is shown", async () => {
  const day = await shared(withLoad(recording(1440)), 40);
  assert.ok(day.fragment && day.size <= 4000, `${day.size} characters`);
  assert.ok(day.digits === 3 || day.digits === 4);
  const opened = await stateOfFragment(day.fragment);
  assert.deepEqual(opened!.load, day.state.load, "the sender's page has what the link has");
  const values = (s: State) => s.load[0]!.content!.split("\n").map((l) => Number(l.split(",")[1]));
  values(opened!).forEach((v, i) => assert.ok(Math.abs(v - values(withLoad(recording(1440)))[i]!) <= 0.51, `${i}: ${v}`));

  const hour = await shared(withLoad(recording(60)), 40);
  assert.equal(hour.digits, undefined, "no rounding where there is no need");
  assert.deepEqual(scenarioOf((await stateOfFragment(hour.fragment!))!), scenarioOf(hour.state));
  assert.deepEqual(filesOf((await stateOfFragment(hour.fragment!))!), filesOf(hour.state));

  const month = await shared(withLoad(recording(30 * 1440)), 40);
  assert.equal(month.fragment, undefined);
  assert.ok(month.size > 4000);
});

test("a link's files have the form that its scenario says", async () => {
  const short = { "load-1": "0,1\n60,2" };
  const of = (content: string, more: Partial<State> = {}): State => ({ ...withLoad(content), ...more });
  const range = '{"status":"success","data":{}}', targets = '{"calls":[]}\n';
  const said = async (s: State) => {
    const link = await shared(shortened(s, short), 40);
    const opened = (await stateOfFragment(link.fragment!))!;
    return [/(csv|prometheus|recording):/.exec(scenarioOf(opened))?.[1], filesOf(opened)["load-1"]];
  };
  const text = (form: string, more = "") => ({ text: `load:\n  - ${form}: {file: "load-1"${more}}\nworkload:\n` });
  assert.deepEqual(await said(of(range)), ["csv", short["load-1"]]);
  assert.deepEqual(await said(of(range, text("prometheus"))), ["csv", short["load-1"]]);
  assert.deepEqual(await said(of(range, text("prometheus", ", metric: queue"))), ["csv", short["load-1"]]);
  assert.deepEqual(await said(of(range, { text: "load: [{prometheus: {file: load-1}}]" })), ["prometheus", range]);
  assert.deepEqual(await said(of(targets)), ["recording", targets], "a load would not be the readings");
  assert.deepEqual(await said(of(targets, { workload: { ...empty.workload, perLoad: "1", idle: "" } })), ["csv", short["load-1"]]);
  assert.deepEqual(await said(of(targets, text("recording", ", metric: queue"))), ["recording", targets]);
});

test("a series of any length is packed, or told to be too long", async () => {
  const rows = (n: number) => Array.from({ length: n }, (_, i) => `${i},1`).join("\n");
  assert.equal(pack(rows(200_000))?.t.length, 200_000);
  assert.equal(pack(rows(200_001)), undefined);
});

test("what is typed as noise is the engine's to judge, unless it is none", () => {
  const noise = (noise: string) => /^noise: .*$/m.exec(scenarioOf({ ...structuredClone(empty), noise }))?.[0];
  assert.deepEqual(["0.1", "5%", "-1", "0", "0.0", ""].map(noise), ["noise: {variation: 0.1, every: 1m}", 'noise: {variation: "5%", every: 1m}', "noise: {variation: -1, every: 1m}", undefined, undefined, undefined]);
});

test("a state that can't be read is told by what is wrong with it", () => {
  const s = structuredClone(empty);
  for (const [from, problem] of [
    [undefined, "it has no playground"], [{ apiVersion: "autoscaling/v2" }, "it has no playground"], [{ ...s, version: 2 }, "it is of version 2, this page reads version 1"],
    [{ ...s, specs: ["a", "b", "c"] }, "it has 3 specs, at most 2"], [{ ...s, load: {} }, "its list of parts of the load is none"], [{ ...s, seed: 7 }, "its seed is no text"],
    [{ ...s, noise: "0".repeat(101) }, "its noise has 101 characters, at most 100"],
  ] as const) assert.throws(() => checked(from), { message: problem });
});

test("a time of a drawn load is the nearest minute", () => {
  assert.deepEqual([5.5, 5.995, 23.9999, 0].map(time), ["05:30", "06:00", "24:00", "00:00"]);
});

test("a link of before this form still opens", async () => {
  const { zone: _, price: __, ...old } = structuredClone(presets[3]!);
  const opened = await stateOfFragment(await encoded(old));
  assert.equal(scenarioOf(opened!), scenarioOf(presets[3]!));
  const file = await stateOfFragment(await encoded({ ...withLoad("0,5\n60,7"), zone: undefined }));
  assert.equal(filesOf(file!)["load-1"], "0,5\n60,7");
});

test("what a hostile link holds is bounded and refused", async () => {
  const packed = (p: unknown) => encoded({ ...withLoad(""), load: [{ kind: "file", values: {}, name: "x", packed: p }] }, "p2");
  const damaged = [
    { t: [0, 1], v: [1], d: 0 },
    { t: [0], v: [1e308], d: 0 },
    { t: [0], v: [1], d: 400 },
    { t: ["0"], v: [1], d: 0 },
    { t: [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER], v: [1, 1], d: 0 },
    { t: new Array(300_000).fill(0), v: new Array(300_000).fill(0), d: 0 },
    { t: [1e12, ...new Array(189_999).fill(0)], v: [Number.MAX_SAFE_INTEGER, ...new Array(189_999).fill(0)], d: 12 },
    null,
    "x",
  ];
  for (const p of damaged) await assert.rejects(stateOfFragment(await packed(p)), /damaged|large|text/, JSON.stringify(p).slice(0, 80));
  // Together they may be as large as one.
  const one = { kind: "file", values: {}, name: "x", packed: { t: new Array(60_000).fill(0), v: [9_007_199_254_740_000, ...new Array(59_999).fill(0)], d: 9 } };
  await assert.rejects(stateOfFragment(await encoded({ ...withLoad(""), load: new Array(20).fill(one) }, "p2")), /large/);
  for (const kind of ["p1", "p2"]) {
    const bomb = await encoded(" ".repeat(40_000_000), kind);
    assert.ok(bomb.length < 64_000);
    await assert.rejects(stateOfFragment(bomb), /too large/);
    await assert.rejects(stateOfFragment(await encoded("[".repeat(1_000_000), kind)));
    await assert.rejects(stateOfFragment(await encoded("null", kind)));
    await assert.rejects(stateOfFragment(`#${kind}=${"A".repeat(70_000)}`), /too large/);
  }
  for (const bad of ["#p3=AAAA", "#try=", "#try=%%%"]) await assert.rejects(stateOfFragment(bad), /another version/, bad);
  for (const bad of ["rubbish", "null", "7", "[]", "{}", '{"spec":7}', '{"title":"a","load":"x"}']) await assert.rejects(stateOfFragment(`#try=${Buffer.from(bad).toString("base64url")}`), /not valid JSON|neither|is none/, bad);
  assert.equal(await stateOfFragment("#elsewhere"), undefined);
  assert.throws(() => checked({ ...structuredClone(empty), recorded: { name: 1, content: "" } }));
  assert.throws(() => checked({ ...structuredClone(empty), recorded: [] }));
});

test("stories are told of presets alone", () => {
  const shop = structuredClone(presets[0]!);
  assert.match(edited(shop, { seed: "2" }).title + edited(shop, { noise: "0" }).lesson, /^$/);
  const typed = withSpec(shop, 0, shop.specs[0]!.replace("60", "70"));
  assert.equal(typed.specs.length, 2, "a value that is typed leaves the comparison");
  const pasted = withSpec(shop, 0, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: mine\n  uid: 7d1c\nspec:\n  maxReplicas: 7\n");
  assert.deepEqual([pasted.specs.length, pasted.title, pasted.lesson], [1, "", ""], "one's own spec is not compared with a preset's");

  const loaded = withFile(presets[5]!, 0, "cores.json", "{}");
  assert.deepEqual([loaded.load.length, loaded.noise, loaded.events.length, loaded.lesson, loaded.duration], [1, "0", 0, "", ""]);
  assert.doesNotMatch(scenarioOf(loaded), /noise|duration|events/);
  assert.equal(withFile({ ...structuredClone(empty), title: "mine" }, -1, "a.csv", "0,1").load.length, 1);
  const mine = { ...structuredClone(empty), title: "mine", load: [...empty.load, ...empty.load] };
  assert.equal(withFile(mine, 1, "a.csv", "0,1").load.length, 4, "one's own parts stay");

  const target = tried({ title: "web", lesson: "Load of this target.", load: [[1e12, 1], [1e12 + 6e4, 2]] });
  assert.equal(withSpec(target, 0, hpa).lesson, "Load of this target.");
  assert.equal(edited(target, { load: [] }).lesson, "");
});

test("a recorded target keeps its instants, its count and its options", () => {
  const at = Date.UTC(2026, 4, 7, 13, 30);
  const s = tried({
    title: "web", spec: { maxReplicas: 9 }, options: { profile: "v1.28", tolerance: "0.05", cpuInitializationPeriod: "300s", scaleToZero: true },
    interval: 4.98, load: [[at, 10], [at + 15_000, 12.5], [at + 7_200_000, 11]], counts: [[at, 3], [at + 15_000, 4], [NaN, 1], "x"],
  });
  assert.equal(s.load[0]!.content, `${at / 1000},10\n${at / 1000 + 15},12.5\n${at / 1000 + 7200},11`);
  assert.equal(s.recorded!.content, `${at / 1000},3\n${at / 1000 + 15},4`);
  assert.deepEqual([s.duration, s.noise, s.period], ["7200s", "0", "5s"]);
  assert.match(scenarioOf(s), /^loop: \{syncPeriod: 5s\}$/m);
  assert.doesNotMatch(scenarioOf(empty), /^loop/m, "as the controller");
  assert.match(s.specs[0]!, /kind: Autoscaler\nmetadata: \{name: web\}[^]*options:\n    profile: v1.28\n    tolerance: "0.05"\n    cpuInitializationPeriodSeconds: 300\n    scaleToZero: true/);
  assert.match(tried({ spec: { maxReplicas: 9 }, title: "x: {y}" }).specs[0]!, /kind: HorizontalPodAutoscaler\nmetadata: \{name: tried\}/);
});

test("a spec is tried with its stages, and overrides are told", async () => {
  const target = {
    name: "clusters/a/namespaces/b/targets/web",
    specInUse: { spec: { maxReplicas: 9, metrics: [{ type: "External", external: { metric: { name: "queue" }, target: { type: "AverageValue", averageValue: "10" } } }] }, stages: { schedules: [{ name: "day", cron: "0 8 * * *", minReplicas: 3 }], fallbacks: [] } },
  };
  const reading = (at: string, stage: string) => ({ time: at, currentReplicas: 2, desiredReplicas: 2, currentMetrics: [{ type: "External", external: { metric: { name: "queue" }, current: { value: "20" } } }], adjustments: [{ stage }] });
  const opened = async (stage: string) => (await stateOfFragment(new URL(tryPath("web", target as never, [reading("2026-05-07T13:30:00Z", stage), reading("2026-05-07T13:30:15Z", stage)] as never, 15_000), "http://x").hash))!;
  const s = await opened("SCHEDULE");
  for (const text of s.specs) assert.match(text, /kind: Autoscaler[^]*\n  stages:\n    schedules:\n      - name: day\n        cron: "0 8 \* \* \*"\n        minReplicas: 3\n$/);
  assert.doesNotMatch(s.lesson!, /[Oo]verride/);
  assert.match((await opened("OVERRIDE")).lesson!, /Overrides were in force meanwhile/);
  // What was read of the metric is what the scenario's metric is.
  assert.match(scenarioOf(s), /^  - csv: \{file: "load-1", metric: queue\}$/m);
  assert.doesNotMatch(scenarioOf({ ...s, workload: withUnit(s, false) }), /metric: queue\}$/m, "a load is no reading");
});

test("a file is what it begins with", () => {
  const text = (content: string) => /^  - (\w+): \{file/m.exec(scenarioOf(withLoad(content)))?.[1];
  assert.deepEqual([text('{"name":"web from t","calls":[]}\n'), text('{"calls":[],"name":"web from t"}\n'), text('{"status":"success"}'), text("0,1\n")], ["recording", "recording", "prometheus", "csv"]);
});

test("a target's recording is in place of its last decisions", async () => {
  const at = Date.UTC(2026, 4, 7, 13, 30);
  const link = (more: object) => `#try=${btoa(JSON.stringify({ title: "web", lesson: "Load of this target's last decisions, by its first metric. Both tabs are alike.", spec: { maxReplicas: 9 }, load: [[at, 1], [at + 15_000, 2]], ...more })).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
  const asked: string[] = [];
  const recorded = { load: [[at - 3_600_000, 10], [at, 20]] as [number, number][], counts: [[at - 3_600_000, 3], [at, 4]] as [number, number][], min: 2, max: 9, proposal: 12, bounds: null };
  const of = (target: string) => (asked.push(target), Promise.resolve(recorded));
  const name = "clusters/a/namespaces/b/targets/web";
  const s = (await stateOfFragment(link({ recording: name }), of))!;
  assert.deepEqual(asked, [name]);
  assert.equal(s.load[0]!.content, `${(at - 3_600_000) / 1000},10\n${at / 1000},20`);
  assert.deepEqual([s.duration, s.recorded!.content.split("\n").length], ["3600s", 2]);
  assert.equal(s.lesson, "Load and count of 2 recorded decisions, of 1.0 hours. It was within 2 and 9 replicas, and metrics asked for 12 at most. Both tabs are alike.");
  // Without one, and for what is no target, the link's own load stays, and nothing is asked for.
  for (const [more, none] of [[{ recording: name }, () => Promise.resolve(undefined)], [{ recording: "../../v1/x" }, of], [{ recording: `${name}?x` }, of], [{ recording: 7 }, of], [{}, of]] as const) {
    const plain = (await stateOfFragment(link(more), none))!;
    assert.equal(plain.load[0]!.content, `${at / 1000},1\n${at / 1000 + 15},2`);
    assert.match(plain.lesson!, /^Load of this/);
  }
  assert.equal(asked.length, 1);
});

test("a recording is read by pages, and is nothing where it can't be read", async () => {
  const paths: string[] = [];
  const engine = { ask: (q: { chunks?: string[] }) => Promise.resolve({ recorded: { load: null, counts: null, min: 0, max: q.chunks!.length, proposal: 0, bounds: null } }) };
  const pages = [{ chunks: ["a", "b"], nextPageToken: "t" }, { chunks: ["c"] }];
  const read = (async (path: string) => (paths.push(path), pages[paths.length - 1])) as never;
  assert.equal((await recordedOf("clusters/a/namespaces/b/targets/web", engine, read))?.max, 3);
  assert.deepEqual(paths, ["/v1/clusters/a/namespaces/b/targets/web/recording?pageSize=100", "/v1/clusters/a/namespaces/b/targets/web/recording?pageSize=100&pageToken=t"]);
  assert.equal(await recordedOf("clusters/a/namespaces/b/targets/web", engine, (() => Promise.reject(new Error("501"))) as never), undefined);
  assert.equal(await recordedOf("clusters/a/namespaces/b/targets/web", engine, (() => Promise.resolve({})) as never), undefined);
});

test("the first metric may be the load itself", () => {
  const s = { ...structuredClone(empty), workload: { ...empty.workload, metric: "cpu, queue", perLoad: "10m, 5" } };
  const usage = { ...s, workload: withUnit(s, true) };
  assert.deepEqual([isUsage(s), isUsage(usage), usage.workload.perLoad, usage.workload.idle], [false, true, "1, 5", ""]);
  assert.equal(withUnit(usage, false).perLoad, "10m, 5");
  assert.match(scenarioOf({ ...usage, price: "0.04", zone: "Europe/Berlin" }), /^price: 0.04\ntimezone: "Europe\/Berlin"\n/);
});

test("the difference of two texts has all their lines, each once", () => {
  const of = (a: string, b: string) => difference(a, b).map((l) => (l.of === undefined ? " " : "AB"[l.of]!) + l.text);
  assert.deepEqual(of("a\nb\nc\n", "a\nx\nc\nd\n"), [" a", "Ab", "Bx", " c", "Bd"]);
  assert.deepEqual(of("a\nb\n", "a\nb\n"), [" a", " b"]);
  assert.deepEqual(of("", "a"), ["A", "Ba"]);
  const long = Array.from({ length: 60 }, (_, i) => `l${i}`);
  const changed = difference(long.join("\n"), [...long.slice(0, 30), "new", ...long.slice(30)].join("\n"));
  assert.deepEqual(hunks(changed).map((l) => l?.text), [undefined, "l28", "l29", "new", "l30", "l31", undefined]);
  const many = Array.from({ length: 100_000 }, (_, i) => `a${i}`);
  assert.equal(difference(many.join("\n"), many.map((l) => `b${l}`).join("\n")).length, 200_000, "large texts are not compared for ever");
});

test("ranges hold all values, and a click is at the point of the legend", () => {
  const values = Array.from({ length: 6000 }, (_, i) => (i % 100 === 0 ? null : i % 7));
  const [low, high] = envelope(values);
  assert.equal(low.length, 6000);
  values.forEach((v, i) => assert.ok(v === null || (low[i]! <= v && v <= high[i]!)));
  assert.deepEqual(envelope([1, null, 3]), [[1, null, 3], [1, null, 3]]);
  const run = { at: [0, 30, 60, 90], stride: 2 };
  assert.deepEqual([0, 14, 16, 44, 46, 1e9, -5].map((at) => nearest(run, at)), [0, 0, 2, 2, 4, 6, 0]);
});
