import assert from "node:assert/strict";
import { test } from "node:test";
import type { FleetJson as Fleet } from "@setpoint-dev/client/json";
import { grouped, select } from "../targets/order";
import { formatQuery, parseQuery } from "../targets/query";
import { TargetsStore, type Row } from "../targets/store";
import { NotAsked, stateBits, Unknown, why } from "./state";
import { until } from "./probe";
import { story } from "./story";
import { boundsInForce, byState, lookOf, members, sentence, troubles } from "./fleet";

const of = (cluster: string) => `clusters/${cluster}/namespaces/shop/targets/web`;

test("what the service does not tell of a member is unknown, and what it tells as 0 is 0", () => {
  const f: Fleet = {
    spec: { members: [{ target: of("a") }, { target: of("b"), weight: 3, minReplicas: 2, maxReplicas: 9, drained: true }] },
    members: [
      { target: of("a"), state: "UNSEEN" },
      { target: of("b"), state: "FRESH", drained: true, share: 0, specReplicas: 0, statusReplicas: 0, capacity: 0, lastCallTime: "2026-11-26T14:00:00Z", applied: true },
      { target: of("c"), state: "STALE", share: 3, lastCallTime: "2026-11-26T14:00:00Z", error: "away\u202e" },
    ],
  };
  const [a, b, c] = members(f);
  assert.deepEqual([a!.share, a!.has, a!.runs, a!.capacity, a!.applied, a!.weight, a!.bounds], [undefined, undefined, undefined, undefined, undefined, 1, ""]);
  assert.ok(Number.isNaN(a!.called), "never");
  assert.deepEqual([b!.share, b!.has, b!.runs, b!.capacity, b!.applied, b!.weight, b!.bounds, b!.drained], [0, 0, 0, 0, true, 3, "at least 2, at most 9", true]);
  assert.deepEqual([c!.applied, c!.weight, c!.error, c!.cluster], [false, undefined, "away\ufffd", "c"], "the spec has no such member; hidden characters show");
  assert.deepEqual(members({}), []);
});

test("bounds of a member's own are told where they are narrower than the fleet's", () => {
  const own = (bounds: object, spec: object = {}) => {
    const f: Fleet = { maxReplicas: 20, spec: { members: [{ target: of("a"), ...spec }] }, members: [{ target: of("a"), ...bounds }] };
    return members(f)[0]!.own;
  };
  assert.equal(own({}), "", "unknown");
  assert.equal(own({ ownMinReplicas: 1, ownMaxReplicas: 20 }), "", "as any spec says, and the fleet's own");
  assert.equal(own({ ownMinReplicas: 2, ownMaxReplicas: 19 }), "at least 2, at most 19");
  assert.equal(own({ ownMinReplicas: 2, ownMaxReplicas: 9 }, { minReplicas: 2, maxReplicas: 9 }), "", "the same as the fleet's of it");
  assert.equal(own({ ownMinReplicas: 0, ownMaxReplicas: 0 }), "at most 0", "an override keeps it at none");
});

test("each state has a word and a mark of its own; a newer one is shown as it is", () => {
  const all = ["FRESH", "RETURNING", "STALE", "LOST", "UNSEEN"].map(lookOf);
  for (const key of ["mark", "label"] as const) assert.equal(new Set(all.map((l) => l[key])).size, all.length, key);
  assert.deepEqual([lookOf("HALF_AWAKE").label, lookOf(undefined).label, lookOf("constructor").label], ["Half awake", "Unknown", "Constructor"]);
});

test("what is the matter is the service's, the most urgent first", () => {
  const f: Fleet = { unplacedReplicas: 2, missingReplicas: 1, memberCounts: { unseen: 1, fresh: 2, stale: 1, lost: 1, returning: 1, drained: 1 } };
  assert.deepEqual(troubles(f, 0).map((l) => l.label), ["1 lost", "2 unplaced", "1 missing without the largest member", "1 stale", "1 returning", "1 unseen", "1 drained"]);
  assert.deepEqual(troubles({ memberCounts: { fresh: 3 } }, 0), []);
  const active = (status: string, reason: string): Fleet => ({ status: { conditions: [{ type: "ScalingActive", status, reason, message: "why" }] } });
  assert.deepEqual(troubles(active("False", "FailedGetResourceMetric"), 0).map((l) => [l.label, l.help]), [["No count: FailedGetResourceMetric", "why"]]);
  assert.deepEqual([active("True", "ValidMetricFound"), active("False", "ScalingDisabled")].flatMap((x) => troubles(x, 0)), [], "a fleet that is off is meant to be");
  const told = { members: [{ state: "FRESH", error: "no samples" }, { state: "STALE", error: "away" }, { state: "UNSEEN", error: "it calls without naming the fleet" }], memberCounts: { fresh: 1, stale: 1 } };
  assert.deepEqual(troubles(told, 0).map((l) => l.label), ["1 calls in vain", "1 without a metric", "1 stale"]);
  const most = { decisionTime: "2026-11-26T14:00:00Z", status: { conditions: [{ type: "ScalingLimited", status: "True", reason: "TooManyReplicas" }] } };
  assert.deepEqual(troubles({ ...most, unplacedReplicas: 1 }, 0).map((l) => l.label), ["At maximum", "1 unplaced"]);
  const refused = { ...most, spec: { staleAfter: "45s" }, members: [{ state: "LOST", lastCallTime: most.decisionTime, error: "it calls and is refused: no" }] };
  assert.deepEqual(troubles(refused, Date.parse(most.decisionTime) + 60_000).map((l) => l.label), ["1 calls in vain"], "of an earlier decision; and somebody does call");
  assert.deepEqual(troubles({}, 0), []);
  const scopes: Fleet = { contradictions: ["External:queue", "Object:a\u202e"] };
  assert.deepEqual(troubles(scopes, 0).map((l) => l.label), ["2 against its scope: External:queue, Object:a\ufffd"]);
  const n = { share: 2, specReplicas: 3 };
  const differs: Fleet = { decisionTime: "2026-11-26T14:00:00Z", members: [{ state: "FRESH", ...n }, { state: "FRESH", ...n, applied: true }, { state: "LOST", ...n }, { state: "UNSEEN" }] };
  assert.deepEqual(troubles(differs, 0).map((l) => l.label), ["1 not as told"], "who is silent can't do what it is told");
  assert.deepEqual(troubles({ ...differs, decisionTime: undefined }, 0), [], "before a decision nobody is told anything");
  assert.deepEqual([byState({ fresh: 1200, lost: 1, drained: 2 }), byState()], ["1\u2009200 fresh, 1 lost, 2 drained", ""]);
});

test("a fleet that has not decided has no count", () => {
  assert.equal(sentence({ desiredReplicas: 0, members: [{}, {}] }), "The fleet has not decided yet.");
  assert.equal(sentence({ decisionTime: "2026-11-26T14:00:00Z", desiredReplicas: 1, members: [{}, {}] }), "1 replica decided, 0 shared out to 2 members.");
});

test("a fleet of the list leads to its view, and its replicas are counted with its members", async () => {
  const asked: string[] = [];
  const answers: Record<string, object> = { [`/v1/${of("eu")}/fleet`]: { minReplicas: 4, maxReplicas: 40, decisionTime: new Date().toISOString() }, [`/v1/${of("us")}/decisions`]: {} };
  globalThis.location ??= { origin: "http://setpoint.test" } as Location;
  const before = globalThis.fetch;
  globalThis.fetch = async (input: RequestInfo | URL) => {
    const path = new URL(String(input)).pathname;
    asked.push(path);
    return path in answers ? Response.json(answers[path]) : Response.json({ code: 5, message: "no history", details: [] }, { status: 404 });
  };
  try {
    const store = new TargetsStore() as unknown as {
      take(batch: object[]): void; find(name: string): Row; readRecord(row: Row, signal: AbortSignal): Promise<void>; pass(): void; unsure: Set<Row>; snapshot: { loading: boolean }; rows: Row[];
    };
    const decision = (desiredReplicas: number) => ({ time: new Date().toISOString(), currentReplicas: desiredReplicas, desiredReplicas, states: [] });
    store.take([{ target: of("eu"), decision: decision(12) }, { target: of("us"), decision: decision(5) }]);
    for (const cluster of ["eu", "us"]) await store.readRecord(store.find(of(cluster)), new AbortController().signal);
    assert.deepEqual(asked, [specsPath, ...["eu", "us"].flatMap((c) => [`/v1/${of(c)}`, `/v1/${of(c)}/fleet`]), `/v1/${of("us")}/decisions`], "where the stored fleets can't be read");
    const [fleet, other] = ["eu", "us"].map((c) => store.find(of(c))) as [Row, Row];
    assert.deepEqual([fleet.fleet, fleet.min, fleet.max, other.fleet], [true, 4, 40, false]);
    assert.deepEqual(grouped(select(store.rows, parseQuery(new URLSearchParams())), "namespace").map((g) => [g.key, g.targets, g.replicas]).sort(), [["eu/shop", 0, 0], ["us/shop", 1, 5]]);
    store.snapshot.loading = false;
    store.pass();
    assert.equal(store.unsure.size, 0, "what has no record is not asked for again and again");
  } finally {
    globalThis.fetch = before;
  }
});

test("fleets and members are asked for what they have: no record", async () => {
  const fleet = { decisionTime: ago(1), desiredReplicas: 7, maxReplicas: 9, spec: { staleAfter: "60s" }, members: ["eu", "us"].map((c) => ({ target: of(c), share: 3, lastCallTime: ago(1) })) } satisfies Fleet;
  const answers: Record<string, object> = {
    [targetsPath]: {}, [specsPath]: { targetSpecs: [{ name: of("all"), fleet: { members: fleet.members.map(({ target }) => ({ target })) } }] },
    [`/v1/${of("all")}/fleet`]: fleet,
  };
  const store = await page(answers, 30, "all", "eu", "us", "ghost");
  assert.deepEqual(store.snapshot.rows.map((r) => [r.cluster, r.fleet, r.unrecorded]).sort(), [["all", true, true], ["eu", false, true], ["us", false, true]]);
  assert.deepEqual(store.refused.sort(), [`/v1/${of("ghost")}`, `/v1/${of("ghost")}/decisions`], "but of a target that was deleted");
});

/** A page whose service answers with these by path, and nothing else, after the stream has brought one decision of each of some clusters. */
async function page(answers: Record<string, object>, seconds: number, ...clusters: string[]) {
  globalThis.location ??= { origin: "http://setpoint.test" } as Location;
  const before = globalThis.fetch;
  const [refused, requests]: string[][] = [[], []];
  globalThis.fetch = async (input: RequestInfo | URL) => {
    const path = new URL(String(input)).pathname;
    requests.push(path);
    if (!(path in answers)) refused.push(path);
    return path in answers ? Response.json(answers[path]) : Response.json({ code: 5, message: "no history", details: [] }, { status: 404 });
  };
  try {
    const store = new TargetsStore() as unknown as {
      take(batch: object[]): void; find(name: string): Row | undefined; readRecord(row: Row, signal: AbortSignal): Promise<void>; load(signal: AbortSignal): Promise<void>; pass(): void;
      abort: AbortController; snapshot: { rows: Row[] }; unsure: Set<Row>; reading: number; started: number; tell(): void;
    };
    store.abort = new AbortController();
    store.started = Date.now() / 1000;
    const time = ago(seconds);
    store.take(clusters.map((c) => ({ target: of(c), decision: { time, currentReplicas: 4, desiredReplicas: 4, states: [] } })));
    await store.load(store.abort.signal);
    for (const wait = performance.now() + 5000; (store.unsure.size > 0 || store.reading > 0) && performance.now() < wait; ) await new Promise((r) => setTimeout(r, 1));
    await new Promise((r) => setTimeout(r, 300)); // listeners are told so often
    return Object.assign(store, { refused, requests });
  } finally {
    globalThis.fetch = before;
  }
}
const ago = (s: number) => new Date(Date.now() - s * 1000).toISOString();
const targetsPath = "/v1/clusters/-/namespaces/-/targets";
const specsPath = "/v1/clusters/-/namespaces/-/targetSpecs";

test("a target that was deleted is not shown, though the stream brings its decisions", async () => {
  const web = { name: of("eu"), updateTime: ago(120), notAskedTime: ago(-60), lastDecision: { time: ago(120), currentReplicas: 4, desiredReplicas: 4, states: [] } };
  const store = await page({ [targetsPath]: { targets: [web] }, [`/v1/${of("member")}/decisions`]: {}, [`/v1/${of("young")}/fleet`]: {} }, 120, "eu", "ghost", "member", "young");
  assert.deepEqual(store.snapshot.rows.map((r) => r.cluster).sort(), ["eu", "member"], "a fleet that has not decided has the decisions of a target that was deleted");
  assert.equal(store.find(of("ghost")), undefined);
  store.abort.abort();
  store.take([["unread", 120], ["now", -1]].map(([c, s]) => ({ target: of(c as string), decision: { time: ago(s as number), currentReplicas: 4, desiredReplicas: 4, states: [] } })));
  await new Promise((r) => setTimeout(r, 300));
  assert.deepEqual(store.snapshot.rows.map((r) => r.cluster).sort(), ["eu", "member", "now"], "nor what is not known to be there; what was decided just now is");
});

test("what lives is shown before it is read, and what the list has no more is shown no more", async () => {
  const store = await page({ [targetsPath]: {}, [`/v1/${of("eu")}`]: { name: of("eu"), updateTime: ago(3000), notAskedTime: ago(-60), lastDecision: { time: ago(3000), states: [] } } }, 3000, "eu");
  assert.equal(store.find(of("eu"))!.read > 0, true);
  const before = globalThis.fetch;
  globalThis.fetch = async () => Response.json({});
  store.take([{ target: of("new"), decision: { time: ago(-1), currentReplicas: 4, desiredReplicas: 4, states: [] } }]);
  await store.load(store.abort.signal);
  globalThis.fetch = before;
  await new Promise((r) => setTimeout(r, 300));
  assert.deepEqual(store.snapshot.rows.map((r) => r.cluster), ["new"]);
});

test("a fleet and its members are not asked by the fleet's own instants", async () => {
  const fleet = (eu: number, us: number): Fleet => ({
    decisionTime: ago(Math.min(eu, us)), minReplicas: 2, maxReplicas: 9, spec: { staleAfter: "45s" },
    members: [{ target: of("eu"), state: "FRESH", lastCallTime: ago(eu) }, { target: of("us"), state: "STALE", lastCallTime: ago(us) }],
  });
  const bits = async (f: Fleet) => {
    const store = await page({ [targetsPath]: {}, [`/v1/${of("all")}/fleet`]: f, [`/v1/${of("eu")}/decisions`]: {}, [`/v1/${of("us")}/decisions`]: {} }, 600, "all", "eu", "us");
    return ["all", "eu", "us"].map((c) => store.find(of(c))!.bits & (NotAsked | Unknown));
  };
  assert.deepEqual(await bits(fleet(10, 20)), [0, 0, 0]);
  assert.deepEqual(await bits(fleet(10, 46)), [0, 0, NotAsked]);
  assert.deepEqual(await bits(fleet(60, 46)), [NotAsked, NotAsked, NotAsked], "silence of all is no steadiness");
  assert.deepEqual(troubles(fleet(60, 46), Date.now()).map((l) => l.label), ["Not asked"]);
  assert.deepEqual(troubles(fleet(10, 46), Date.now()), []);
});

test("a member is read with its fleet, whichever of the two was known first", async () => {
  const fleet = (staleAfter: string): Fleet => ({
    decisionTime: ago(1), maxReplicas: 9, spec: { staleAfter }, members: ["eu", "us"].map((c) => ({ target: of(c), lastCallTime: ago(50) })),
  });
  const answers: Record<string, object> = { [targetsPath]: {}, [`/v1/${of("all")}/fleet`]: fleet("60s"), [`/v1/${of("eu")}/decisions`]: {}, [`/v1/${of("us")}/decisions`]: {} };
  const store = await page(answers, 50, "all", "eu"); // the member's own log is answered after the fleet
  const before = globalThis.fetch;
  globalThis.fetch = async (input: RequestInfo | URL) => {
    const path = new URL(String(input)).pathname;
    return path.endsWith("/fleet") && path in answers ? Response.json(fleet("45s")) : path in answers ? Response.json({}) : Response.json({ code: 5, message: "no history", details: [] }, { status: 404 });
  };
  try {
    store.take([{ target: of("us"), decision: { time: ago(50), currentReplicas: 4, desiredReplicas: 4, states: [] } }]);
    for (const c of ["eu", "us"]) {
      store.find(of(c))!.bits = 0;
      await store.readRecord(store.find(of(c))!, store.abort.signal);
      assert.equal(store.find(of(c))!.bits & (NotAsked | Unknown), NotAsked, c);
    }
  } finally {
    globalThis.fetch = before;
  }
});

test("the counts of a fleet and its members are the fleet's: the log has changes only", async () => {
  const answers = (share: number, has: number) => ({
    [targetsPath]: {}, [`/v1/${of("eu")}/decisions`]: {},
    [`/v1/${of("all")}/fleet`]: { decisionTime: ago(1), desiredReplicas: share, maxReplicas: 9, spec: { staleAfter: "60s" }, members: [{ target: of("eu"), share, specReplicas: has, lastCallTime: ago(1) }] } satisfies Fleet,
  });
  const counts = async (share: number, has: number) => {
    const store = await page(answers(share, has), 600, "all", "eu");
    return ["all", "eu"].flatMap((c) => [store.find(of(c))!.current, store.find(of(c))!.desired]);
  };
  assert.deepEqual(await counts(7, 5), [7, 7, 5, 7]);
  assert.deepEqual(await counts(7, 7), [7, 7, 7, 7]);
});

test("a member's reason is that of its last decision, in whatever order the log is read", async () => {
  const fleet = { decisionTime: ago(1), desiredReplicas: 7, maxReplicas: 9, spec: { staleAfter: "60s" }, members: [{ target: of("eu"), share: 7, specReplicas: 7, lastCallTime: ago(1) }] } satisfies Fleet;
  const store = await page({ [targetsPath]: {}, [`/v1/${of("eu")}/decisions`]: {}, [`/v1/${of("all")}/fleet`]: fleet }, 600, "all", "eu");
  const told = (s: number, n: number) => ({ target: of("eu"), decision: { time: ago(s), currentReplicas: n, desiredReplicas: n, states: [], reason: `the reason of ${n}` } });
  store.take([told(500, 4), told(100, 7)]);
  store.take([told(300, 5)]);
  const row = store.find(of("eu"))!;
  assert.deepEqual([row.why, row.current, row.desired], ["the reason of 7", 7, 7]);
});

test("a member's reading and share are its fleet's present ones, not those of an old decision; where no fleet tells they are left out", async () => {
  const queue = (n: string) => [{ type: "External", external: { metric: { name: "queue" }, current: { averageValue: n } } }];
  const told = (s: number, n: number) => ({ target: of("eu"), decision: { time: ago(s), currentReplicas: 3, desiredReplicas: n, states: [], reason: `share of fleet: ${n} of 12`, currentMetrics: queue("90") } });
  const fleet: Fleet = {
    decisionTime: ago(1), desiredReplicas: 9, shareTotal: 8, unplacedReplicas: 1, maxReplicas: 9, spec: { staleAfter: "60s" }, status: { currentMetrics: queue("10") },
    members: ["eu", "us"].map((c) => ({ target: of(c), share: 4, specReplicas: 4, lastCallTime: ago(2) })),
  };
  const says = (store: { find(name: string): Row | undefined }) => ["metric", "why"].map((k) => store.find(of("eu"))![k as "metric" | "why"]);
  const stored = { targetSpecs: [{ name: of("all"), fleet: { members: [{ target: of("eu") }, { target: of("us") }] } }] };
  const store = await page({ [targetsPath]: {}, [specsPath]: stored, [`/v1/${of("all")}/fleet`]: fleet }, 3600, "all", "eu", "us");
  assert.deepEqual(store.requests.filter((p) => p === `/v1/${of("all")}/fleet`).length, 1, "one answer is for all its members");
  store.take([told(3600, 6)]);
  assert.deepEqual(says(store), ["10 per replica", "share of fleet: 4 of 8; 1 find no place"]);
  store.abort.abort();
  for (const since of [119, 121]) {
    store.unsure.clear();
    Object.assign(store.find(of("eu"))!, { read: Date.now() / 1000 - since, updated: Date.now() / 1000 });
    store.pass();
    assert.equal(store.unsure.has(store.find(of("eu"))!), since > 120, "it is asked for again, however long its members may be silent");
  }
  store.take([told(-1, 5)]);
  assert.deepEqual(says(store), ["90 per replica", "share of fleet: 5 of 12"], "what is decided now is newer");
  const alone = await page({ [targetsPath]: {}, [`/v1/${of("eu")}/decisions`]: {} }, 3600, "eu");
  alone.take([told(3600, 6)]);
  assert.deepEqual(says(alone), ["", "a share of its fleet"]);
});

test("of many fleets some are asked each time, and none twice", async () => {
  const names = Array.from({ length: 30 }, (_, i) => `all-${i}`);
  const answers = Object.fromEntries(names.map((c) => [`/v1/${of(c)}/fleet`, { decisionTime: ago(1), maxReplicas: 9, spec: { staleAfter: "60s" } }]));
  const store = await page({ [targetsPath]: {}, [specsPath]: { targetSpecs: names.map((c) => ({ name: of(c), fleet: {} })) }, ...answers }, 1, ...names);
  const before = globalThis.fetch;
  const asked: string[] = [];
  globalThis.fetch = async (input: RequestInfo | URL) => {
    asked.push(new URL(String(input)).pathname);
    return Response.json(answers[asked.at(-1)!] ?? {});
  };
  try {
    for (const most of [20, 30]) {
      if (most === 20) for (const c of names) store.unsure.add(Object.assign(store.find(of(c))!, { unrecorded: true, fleet: true, read: 1, updated: Date.now() / 1000 }));
      store.pass();
      await until("asked", () => asked.length >= most && store.reading === 0);
      assert.equal(asked.length, most);
    }
    assert.equal(new Set(asked).size, 30);
  } finally {
    store.abort.abort();
    globalThis.fetch = before;
  }
});

test("what can't be read is told with the list, until it can be", async () => {
  const store = await page({ [targetsPath]: { targets: [{ name: of("eu"), updateTime: ago(1), lastDecision: { time: ago(1), currentReplicas: 4, desiredReplicas: 4, states: [] } }] } }, 1, "eu");
  const before = globalThis.fetch;
  const problem = () => (store.snapshot as { unread?: { problem: string } }).unread?.problem;
  try {
    globalThis.fetch = async () => Response.json({ code: 14, message: "the history store can't be reached", details: [] }, { status: 503 });
    await store.readRecord(store.find(of("eu"))!, new AbortController().signal);
    assert.equal(problem(), "the history store can't be reached");
    globalThis.fetch = async () => Response.json({ name: of("eu"), updateTime: ago(0) });
    await store.readRecord(store.find(of("eu"))!, new AbortController().signal);
    assert.equal(problem(), undefined);
  } finally {
    globalThis.fetch = before;
  }
});

test("a fleet's bounds are those of its last decision, with why they are not the spec's", () => {
  const f = { minReplicas: 3, maxReplicas: 30 };
  assert.deepEqual(boundsInForce(f, undefined), { text: ", 3 to 30 allowed", why: "" });
  assert.deepEqual(boundsInForce(f, { basis: f }), { text: ", 3 to 30 allowed", why: "" });
  const { text, why } = boundsInForce(f, { basis: { minReplicas: 12, maxReplicas: 30 } });
  assert.equal(text, ", 12 to 30 allowed");
  assert.match(why, /^at the last decision; the spec has 3 to 30/);
});

test("a fleet is read, however many targets are not certain", async () => {
  const many = Array.from({ length: 30 }, (_, i) => `silent-${i}`);
  const silent = many.map((c) => ({ name: of(c), updateTime: ago(300), notAskedTime: ago(200), lastDecision: { time: ago(300), currentReplicas: 4, desiredReplicas: 4, states: [] } }));
  const store = await page({ [targetsPath]: { targets: silent.map((t) => ({ ...t, notAskedTime: ago(-1) })) }, [`/v1/${of("all")}/fleet`]: { decisionTime: ago(1), maxReplicas: 9, spec: {} } }, 300, "all", ...many);
  for (const c of many) store.unsure.add(store.find(of(c))!); // as they are once their time has come
  const before = globalThis.fetch;
  globalThis.fetch = async (input: RequestInfo | URL) =>
    new URL(String(input)).pathname === `/v1/${of("new")}/fleet` ? Response.json({ decisionTime: ago(1), maxReplicas: 9, spec: {} }) : Response.json({ code: 5, message: "no history", details: [] }, { status: 404 });
  try {
    store.take([{ target: of("new"), decision: { time: ago(0), currentReplicas: 4, desiredReplicas: 4, states: [] } }]);
    await until("known", () => Boolean(store.find(of("new"))?.fleet));
    assert.equal(store.find(of("new"))?.fleet, true);
  } finally {
    store.abort.abort();
    globalThis.fetch = before;
  }
});

test("a member whose fleet has not decided is unknown, and not steady", () => {
  const told = {
    time: ago(1), currentReplicas: 3, desiredReplicas: 3, states: [],
    conditions: [{ type: "AbleToScale", status: "True", reason: "ReadyForNewScale" }, { type: "ScalingActive", status: "Unknown", reason: "FleetUndecided", message: "the fleet has not decided yet" }],
  };
  assert.equal(stateBits(told), Unknown);
  assert.equal(why(Unknown, told).short, "Its fleet has not decided yet");
  assert.deepEqual(story(told).because, [{ text: "the fleet has not decided yet", tone: "plain" }]);
  const store = new TargetsStore() as unknown as { take(batch: object[]): void; find(name: string): Row; tell(): void };
  store.tell = () => {};
  store.take([{ target: of("eu"), decision: { ...told, states: ["OVERRIDDEN"], adjustments: [{ stage: "OVERRIDE", untilTime: ago(-60) }] } }]);
  assert.equal(store.find(of("eu")).why, "Its fleet has not decided yet", "its override has not ended");
});

test("a member whose fleet is not known here is unknown once its log is silent", async () => {
  const bits = async (seconds: number) => (await page({ [targetsPath]: {}, [`/v1/${of("eu")}/decisions`]: {} }, seconds, "eu")).find(of("eu"))!.bits;
  assert.deepEqual([await bits(800), await bits(901)], [0, Unknown]);
});

test("the address keeps that fleets are listed", () => {
  for (const text of ["?fleets=", "?overrides=&fleets=", ""]) assert.equal(formatQuery(parseQuery(new URLSearchParams(text))), text);
});
