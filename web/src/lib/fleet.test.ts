import assert from "node:assert/strict";
import { test } from "node:test";
import type { FleetJson as Fleet } from "@setpoint-dev/client/json";
import { grouped, select } from "../targets/order";
import { formatQuery, parseQuery } from "../targets/query";
import { TargetsStore, type Row } from "../targets/store";
import { byState, lookOf, members, sentence, troubles } from "./fleet";

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

test("each state has a word and a mark of its own; a newer one is shown as it is", () => {
  const all = ["FRESH", "RETURNING", "STALE", "LOST", "UNSEEN"].map(lookOf);
  for (const key of ["mark", "label"] as const) assert.equal(new Set(all.map((l) => l[key])).size, all.length, key);
  assert.deepEqual([lookOf("HALF_AWAKE").label, lookOf(undefined).label, lookOf("constructor").label], ["Half awake", "Unknown", "Constructor"]);
});

test("what is the matter is the service's, the most urgent first", () => {
  const f: Fleet = { unplacedReplicas: 2, missingReplicas: 1, memberCounts: { unseen: 1, fresh: 2, stale: 1, lost: 1, returning: 1, drained: 1 } };
  assert.deepEqual(troubles(f).map((l) => l.label), ["1 lost", "2 unplaced", "1 missing without the largest member", "1 stale", "1 returning", "1 unseen", "1 drained"]);
  assert.deepEqual(troubles({ memberCounts: { fresh: 3 } }), []);
  const active = (status: string, reason: string): Fleet => ({ status: { conditions: [{ type: "ScalingActive", status, reason, message: "why" }] } });
  assert.deepEqual(troubles(active("False", "FailedGetResourceMetric")).map((l) => [l.label, l.help]), [["No count: FailedGetResourceMetric", "why"]]);
  assert.deepEqual([active("True", "ValidMetricFound"), active("False", "ScalingDisabled")].flatMap(troubles), [], "a fleet that is off is meant to be");
  const told = { members: [{ state: "FRESH", error: "no samples" }, { state: "STALE", error: "away" }], memberCounts: { fresh: 1, stale: 1 } };
  assert.deepEqual(troubles(told).map((l) => l.label), ["1 without a metric", "1 stale"]);
  assert.deepEqual(troubles({}), []);
  const scopes: Fleet = { contradictions: ["External:queue", "Object:a\u202e"] };
  assert.deepEqual(troubles(scopes).map((l) => l.label), ["2 against its scope: External:queue, Object:a\ufffd"]);
  const n = { share: 2, specReplicas: 3 };
  const differs: Fleet = { decisionTime: "2026-11-26T14:00:00Z", members: [{ state: "FRESH", ...n }, { state: "FRESH", ...n, applied: true }, { state: "LOST", ...n }, { state: "UNSEEN" }] };
  assert.deepEqual(troubles(differs).map((l) => l.label), ["1 not as told"], "who is silent can't do what it is told");
  assert.deepEqual(troubles({ ...differs, decisionTime: undefined }), [], "before a decision nobody is told anything");
  assert.deepEqual([byState({ fresh: 1200, lost: 1, drained: 2 }), byState()], ["1\u2009200 fresh, 1 lost, 2 drained", ""]);
});

test("a fleet that has not decided has no count", () => {
  assert.equal(sentence({ desiredReplicas: 0, members: [{}, {}] }), "The fleet has not decided yet.");
  assert.equal(sentence({ decisionTime: "2026-11-26T14:00:00Z", desiredReplicas: 1, members: [{}, {}] }), "1 replica decided, 0 shared out to 2 members.");
});

test("a fleet of the list leads to its view, and its replicas are counted with its members", async () => {
  const asked: string[] = [];
  const answers: Record<string, object> = { [`/v1/${of("eu")}/fleet`]: { minReplicas: 4, maxReplicas: 40 } };
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
    assert.deepEqual(asked, ["eu", "us"].flatMap((c) => [`/v1/${of(c)}`, `/v1/${of(c)}/fleet`]));
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

test("the address keeps that fleets are listed", () => {
  for (const text of ["?fleets=", "?overrides=&fleets=", ""]) assert.equal(formatQuery(parseQuery(new URLSearchParams(text))), text);
});
