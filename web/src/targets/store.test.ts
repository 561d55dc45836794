import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { get } from "../api/client";
import { NotAsked, Unread } from "../lib/state";
import { passing, serve, until } from "../lib/probe";
import { TargetsStore, type Row } from "./store";

interface Inside {
  abort: AbortController; snapshot: { rows: readonly Row[]; loading: boolean; link: string; error?: { code: string } }; fleetOf: Map<string, string>; unsure: Set<Row>;
  load(signal: AbortSignal): Promise<void>; reloadSoon(signal: AbortSignal): void; pass(): void; reload(): void; clear(): void; subscribe(f: () => void): () => void;
  take(batch: object[]): void; find(name: string): Row; fleet(name: string): Promise<string | undefined>; readRecord(row: Row, signal: AbortSignal): Promise<void>;
}
function made(t: TestContext): Inside {
  const store = new TargetsStore() as unknown as Inside;
  store.abort = new AbortController();
  t.after(() => store.abort.abort());
  return store;
}
const lists = (asked: string[]) => asked.filter((path) => path.includes("/targets?")).length;
const refusal = (status: number, code: number) => Response.json({ code, message: "no", details: [] }, { status });
/** Lets answers come. */
const turns = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
};
const all = "clusters/eu/namespaces/shop/targets/all";

// It is the first: the service's clock is not known yet.
test("the stream begins an hour ago on the service's clock", async (t) => {
  const early = 3 * 3600e3;
  const asked = serve(t, () => Response.json({}, { headers: { Date: new Date(Date.now() - early).toUTCString() } }));
  const store = made(t);
  store.abort = undefined as never;
  store.subscribe(() => {});
  t.after(async () => {
    store.clear();
    serve(t, () => Response.json({}, { headers: { Date: new Date().toUTCString() } }));
    await get("/v1/caller");
  });
  const watches = () => asked.filter((path) => path.includes(":watch"));
  await until("watched", () => watches().length > 0);
  const start = Date.parse(new URL(watches()[0]!, "http://page.test").searchParams.get("startTime")!);
  assert.ok(Math.abs(start - (Date.now() - early - 3600e3)) < 10_000, new Date(start).toISOString());
});

test("fleets and members that are silent for longer than the stream reaches back are listed, not asked", async (t) => {
  const ago = (s: number) => new Date(Date.now() - 1000 * s).toISOString();
  const [eu, us, unseen] = ["eu", "us", "unseen"].map((c) => `clusters/${c}/namespaces/shop/targets/web`);
  const fleet = { name: all, decisionTime: ago(1500), desiredReplicas: 5, maxReplicas: 9, spec: { staleAfter: "45s" }, members: [{ target: eu, lastCallTime: ago(1500), share: 3, specReplicas: 3 }, { target: us, lastCallTime: ago(1501), share: 2, specReplicas: 2 }, { target: unseen }] };
  serve(t, (path) => Response.json(path.includes("/targetSpecs?") ? { targetSpecs: [{ name: all, fleet: { members: fleet.members.map((m) => ({ target: m.target })) } }] } : path.endsWith("/fleet") ? fleet : {}));
  const store = made(t);
  await store.load(store.abort.signal);
  await until("listed", () => store.snapshot.rows.length === 3);
  const bits = (name = "") => store.find(name).bits;
  assert.deepEqual([bits(all), bits(eu), bits(us), store.find(unseen!)], [NotAsked, NotAsked, NotAsked, undefined]);
});

test("of a record that the service can't read nothing is known, whatever the stream brings of before", async (t) => {
  let target: object = { name: all, turnTimes: [] };
  serve(t, (path) => Response.json(path.includes("/targets?") ? { targets: [target] } : {}));
  const store = made(t);
  const decision = (ms: number) => ({ target: all, decision: { time: new Date(Date.now() - ms).toISOString(), currentReplicas: 4, desiredReplicas: 4, states: [], reason: "All metrics below target" } });
  store.take([decision(60_000)]);
  await store.load(store.abort.signal);
  store.take([decision(30_000)]);
  store.pass();
  const row = store.find(all);
  assert.deepEqual([row.bits, row.current, row.desired], [Unread, undefined, undefined]);
  assert.match(row.why, /its record can't be read/);
  target = { name: all, updateTime: new Date().toISOString(), lastDecision: decision(0).decision };
  await store.load(store.abort.signal);
  assert.deepEqual([row.bits, row.current, row.why], [0, 4, "All metrics below target"]);
});

test("a gap while the list is read has it read once more, and later ones again", async (t) => {
  const waits: ((r: Response) => void)[] = [];
  const asked = serve(t, () => new Promise<Response>((answer) => waits.push(answer)));
  const pass = passing(t, "setTimeout");
  const store = made(t);
  const { signal } = store.abort;
  void store.load(signal);
  for (let i = 0; i < 3; i++) store.reloadSoon(signal);
  pass(2000); // it is still being read
  assert.equal(lists(asked), 1, "not twice at once");
  for (const n of [2, 3]) {
    waits.pop()!(Response.json({}));
    await turns();
    if (n > 2) store.reloadSoon(signal);
    pass(2000);
    await turns();
    assert.equal(lists(asked), n);
  }
});

test("while the service is away one reader asks for the list, however long", async (t) => {
  const asked = serve(t, () => refusal(500, 13));
  const pass = passing(t, "setTimeout");
  const store = made(t);
  void store.load(store.abort.signal);
  for (let second = 1; second <= 1800; second++) {
    await turns();
    pass(1000);
    if (second % 15 === 0) store.pass();
    if (second % 60 === 1) store.reload(); // as «Try again» does
    (store as unknown as { listed: number }).listed -= 1; // time passes
  }
  assert.ok(lists(asked) <= 1800 / 5 + 40, `${lists(asked)} requests in half an hour`);
});

test("a service that accepts and does not answer is told, until it does", async (t) => {
  let answers = (_: Response) => {};
  serve(t, () => new Promise<Response>((answer) => (answers = answer)));
  const store = made(t);
  const loaded = store.load(store.abort.signal);
  const told = () => store.snapshot.error?.code;
  store.pass();
  assert.equal(told(), undefined);
  (store as unknown as { begun: number }).begun -= 15_000; // time passes
  store.pass();
  assert.equal(told(), "DEADLINE_EXCEEDED");
  answers(Response.json({}));
  await loaded;
  assert.equal(told(), undefined);
});

test("what is said of an outage is the last that is known of it", async (t) => {
  let n = 0;
  serve(t, (path) => (path.includes(":watch") ? Response.json({ code: 14, message: `away ${++n}`, details: [] }, { status: 503 }) : Response.json({})));
  const pass = passing(t, "setTimeout");
  const store = made(t);
  store.abort = undefined as never;
  store.subscribe(() => {});
  t.after(() => store.clear());
  const said = () => (store.snapshot.error as { problem?: string } | undefined)?.problem;
  for (const last of [3, 6]) await until(`told of ${last}`, () => n >= last && said() === `away ${n}`, () => pass(500));
});

test("who may not read the list is not asked for again and again", async (t) => {
  const asked = serve(t, () => refusal(403, 7));
  const store = made(t);
  store.abort = undefined as never;
  store.subscribe(() => {});
  t.after(() => store.clear());
  await until("refused", () => store.snapshot.link === "refused" && !store.snapshot.loading);
  const before = asked.length;
  for (let i = 0; i < 5; i++) {
    store.pass();
    await turns();
  }
  assert.equal(asked.length, before);
});

test("a fleet that can't be read for a while stays a fleet, and in the list", async (t) => {
  let away = false;
  serve(t, (path) => (path.includes("/targets?") ? Response.json({}) : away ? refusal(503, 14) : path.endsWith("/fleet") ? Response.json({ decisionTime: new Date().toISOString(), desiredReplicas: 4, maxReplicas: 9, spec: { staleAfter: "45s" } }) : refusal(404, 5)));
  const store = made(t);
  const { signal } = store.abort;
  store.take([{ target: all, decision: { time: new Date(Date.now() - 300_000).toISOString(), currentReplicas: 4, desiredReplicas: 4, states: [] } }]);
  const row = store.find(all);
  await store.readRecord(row, signal);
  assert.equal(row.fleet, true);
  away = true;
  await store.readRecord(row, signal);
  assert.deepEqual([row.fleet, row.unrecorded], [true, true]);
  row.updated -= 600;
  await store.load(signal);
  assert.equal(store.find(all), row);
});

test("what was asked for somebody else is nobody's after that", async (t) => {
  const waits: ((r: Response) => void)[] = [];
  serve(t, () => new Promise<Response>((answer) => waits.push(answer)));
  const store = made(t);
  const asks = store.fleet(all);
  await until("asked", () => waits.length > 0);
  store.clear();
  waits[0]!(Response.json({ targetSpecs: [{ name: all, fleet: { members: [] } }] }));
  assert.equal(await asks, undefined);
  assert.equal(store.fleetOf.size, 0);
});
