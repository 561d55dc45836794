import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { beforeEach, test } from "node:test";
import { asError } from "@setpoint-dev/client/json";
import { get, onUnauthenticated, setToken } from "./client";
import { claimStream } from "./slots";
import { watch, type Watcher } from "./watch";

Object.assign(globalThis, { location: { origin: "http://page.test" } });
const kept = new Map<string, string>();
Object.assign(globalThis, {
  sessionStorage: { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => kept.set(k, v), removeItem: (k: string) => kept.delete(k) },
});

/** The page, which is seen or not. */
let seen = true;
const page = Object.defineProperty(new EventTarget(), "visibilityState", { get: () => (seen ? "visible" : "hidden") });
Object.assign(globalThis, { document: page });
function show(is: boolean): void {
  seen = is;
  page.dispatchEvent(new Event("visibilitychange"));
}

/** The service, by what it answers to each request in turn, the last one again and again. */
let asked: Request[] = [];
function answers(...all: ((request: Request) => Response)[]): void {
  asked = [];
  globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    asked.push(request);
    return (all[asked.length - 1] ?? all.at(-1)!)(request);
  };
}
beforeEach(() => setToken(""));

const all = "clusters/-/namespaces/-/targets/-";
const line = (result: object): string => `${JSON.stringify({ result })}\n`;
const decided = (n: number): string => line({ resumeToken: `t/${n}`, decisions: [{ target: "a", decision: { recommendationId: String(n), reason: "x".repeat(200) } }] });
const refusal = (status: number, code: number, details: object[] = []) => () => new Response(JSON.stringify({ code, message: "no", details }), { status });

/** Watches until f returns true. */
async function until(f: (seen: { ids: string[]; links: string[]; missed: number[] }) => boolean, more: Partial<Watcher> = {}): Promise<{ ids: string[]; links: string[]; missed: number[] }> {
  const ending = new AbortController();
  const seen = { ids: [] as string[], links: [] as string[], missed: [] as number[] };
  const look = () => f(seen) && ending.abort();
  await watch(all, () => Date.UTC(2026, 0, 1), {
    decisions: (batch) => (seen.ids.push(...batch.map((d) => d.decision?.recommendationId ?? "")), look()),
    link: (state) => (seen.links.at(-1) !== state && seen.links.push(state), look()),
    missed: (n) => (seen.missed.push(n), look()),
    ...more,
  }, ending.signal);
  return seen;
}

// A burst of decisions, as after a reconnection, is not one long task: the browser can draw in
// between.
test("a burst lets others have their turn, in order, to the end", async (t) => {
  const count = 500;
  let clock = 0;
  t.mock.method(performance, "now", () => (clock += 1)); // each decision takes a millisecond to handle
  const text = Array.from({ length: count }, (_, i) => decided(i)).join("");
  answers(() => new Response(text));
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const { ids } = await until(({ ids }) => ids.length === count);
  clearInterval(timer);
  assert.ok(ids.every((id, n) => id === String(n)), "out of order");
  assert.ok(turns > 1, `${turns} turns of others`);
});

test("bursts leave nothing behind, however many there are", async (t) => {
  let clock = 0;
  t.mock.method(performance, "now", () => (clock += 10));
  answers(() => new Response(Array.from({ length: 100 }, (_, i) => decided(i)).join("")));
  const ending = new AbortController();
  let most = 0;
  await watch(all, undefined, {
    decisions: ([d]) => {
      most = Math.max(most, getEventListeners(ending.signal, "abort").length);
      if (d?.decision?.recommendationId === "99") ending.abort();
    },
    link: () => {},
    missed: () => {},
  }, ending.signal);
  assert.ok(most < 5, `${most} listeners`);
});

test("a watch that is given up brings nothing more", async () => {
  answers(() => new Response(decided(1).repeat(20_000)));
  const { ids } = await until(({ ids }) => ids.length >= 2);
  assert.equal(ids.length, 2);
});

test("messages are put together from pieces", async () => {
  const pieces = [line({ resumeToken: "t/0" }).slice(0, 9), `${line({ resumeToken: "t/0" }).slice(9)}\n${decided(1).slice(0, 30)}`, decided(1).slice(30)];
  answers(() => new Response(new ReadableStream({ start: (c) => pieces.forEach((p) => c.enqueue(new TextEncoder().encode(p))) })));
  assert.deepEqual((await until(({ ids }) => ids.length === 1)).ids, ["1"]);
});

test("a watch goes on where it was", async () => {
  answers(() => new Response(decided(1)), () => new Response(decided(2)));
  const { ids, links } = await until(({ ids }) => ids.length === 2);
  assert.deepEqual(ids, ["1", "2"]);
  assert.deepEqual(links, ["connecting", "live", "lost", "live"]);
  const [first, second] = asked.map((r) => new URL(r.url));
  assert.equal(first!.pathname, `/v1/${all}/decisions:watch`);
  assert.deepEqual([...first!.searchParams], [["startTime", "2026-01-01T00:00:00.000Z"], ["maxDecisions", "1000"]]);
  assert.equal(second!.searchParams.get("resumeToken"), "t/1");
});

// A browser has six connections to a service for all its tabs, and each stream takes one.
test("a page that nobody sees holds no stream, and goes on where it was", async () => {
  const open = (n: number) => ({ signal }: Request) => new Response(new ReadableStream({
    start(c) {
      c.enqueue(new TextEncoder().encode(decided(n)));
      signal.addEventListener("abort", () => c.error(signal.reason));
    },
  }));
  answers(open(1), open(2));
  show(false);
  setTimeout(() => (assert.equal(asked.length, 0), show(true)), 50);
  let looked = false;
  const { ids, links } = await until(({ ids }) => {
    if (ids.length === 1 && !looked) {
      looked = true;
      setTimeout(() => {
        show(false);
        setTimeout(() => (assert.equal(asked[0]!.signal.aborted, true), assert.equal(asked.length, 1), show(true)), 50);
      });
    }
    return ids.length === 2;
  });
  assert.deepEqual([ids, links], [["1", "2"], ["connecting", "live"]]);
  assert.equal(new URL(asked[1]!.url).searchParams.get("resumeToken"), "t/1");
});

// Its connection may be gone, which nobody tells it: the page would say that it is live until the client misses signs of life.
test("a stream without signs of life is asked for again, where it was", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"], now: 0 });
  const streams: ReadableStreamDefaultController[] = [];
  const say = (text: string) => streams.at(-1)!.enqueue(new TextEncoder().encode(text));
  const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
  answers(({ signal }) => new Response(new ReadableStream({
    start(c) {
      streams.push(c);
      say(decided(streams.length));
      signal.addEventListener("abort", () => c.error(signal.reason));
    },
  })));
  const watched = until(({ ids }) => ids.length === 3);
  await turn();
  for (let i = 0; i < 12; i++) {
    t.mock.timers.tick(5000);
    say(line({ resumeToken: `t/1-${i}` }));
    await turn();
  }
  assert.equal(asked[0]!.signal.aborted, false, "a minute with signs of life");
  t.mock.timers.tick(12_000);
  await turn();
  assert.equal(asked.length, 2, "asked again after 12 s");
  t.mock.timers.setTime(3_600_000); // it slept
  t.mock.timers.tick(1000);
  const { ids, links } = await watched;
  assert.deepEqual([ids, links], [["1", "2", "3"], ["connecting", "live", "lost", "live", "lost", "live"]]);
  assert.deepEqual(asked.slice(1).map((r) => new URL(r.url).searchParams.get("resumeToken")), ["t/1-11", "t/2"]);
});

test("windows that are seen at once leave connections for requests", async () => {
  const kept = new Map<string, string>();
  const storage = { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => kept.set(k, v), removeItem: (k: string) => kept.delete(k) };
  Object.assign(globalThis, { localStorage: storage });
  try {
    const claims = await Promise.all(Array.from({ length: 6 }, () => claimStream()));
    const held = claims.filter((c) => c !== undefined);
    assert.ok(held.length > 0 && held.length <= 4, `${held.length} of six at once`);
    while (held.length < 4) held.push((await claimStream())!);
    assert.equal(await claimStream(), undefined);
    answers(() => new Response(decided(1)));
    assert.deepEqual((await until(({ links }) => links.includes("polled"))).links, ["connecting", "polled"]);
    assert.equal(asked.length, 0);
    held.pop()!();
    assert.deepEqual((await until(({ ids }) => ids.length === 1)).ids, ["1"]);
    for (const [k, v] of kept) kept.set(k, v.replace(/ .*/, ` ${Date.now() - 1}`)); // windows that are gone without a word
    const another = await claimStream();
    assert.notEqual(another, undefined);
    [another!, ...held].forEach((end) => end());
    kept.clear();
    const claimed = claimStream();
    assert.equal(kept.size, 1);
    show(false); // it is left, or loaded again, before it has a stream
    assert.equal(kept.size, 0);
    show(true);
    (await claimed)!();
  } finally {
    Object.assign(globalThis, { localStorage: undefined });
  }
});

test("a position that nobody knows is told", async () => {
  const unknown = refusal(400, 3, [{ "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [{ field: "resumeToken", description: "is unknown" }] }]);
  answers(() => new Response(decided(1)), unknown, () => new Response(decided(9)));
  const { ids, missed } = await until(({ ids }) => ids.length === 2);
  assert.deepEqual([ids, missed], [["1", "9"], [1]]);
});

test("without streams lists are polled", async () => {
  answers(refusal(501, 12));
  assert.deepEqual((await until(({ links }) => links.includes("polled"))).links, ["connecting", "polled"]);
});

const full = (retryDelay: string) => refusal(429, 8, [
  { "@type": "type.googleapis.com/google.rpc.ErrorInfo", domain: "setpoint.dev", reason: "LIMIT_EXCEEDED" },
  { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay },
]);

test("where there are too many watchers lists are polled, until there is a place", async (t) => {
  answers(full("0.01s"));
  assert.deepEqual((await until(({ links }) => links.includes("polled"))).links, ["connecting", "polled"]);
  let clock = 0;
  t.mock.method(performance, "now", () => (clock += 20_000));
  answers(() => new Response(decided(1)), full("0.01s"), () => new Response(decided(2)));
  const { ids, links, missed } = await until(({ ids }) => ids.length === 2);
  assert.deepEqual([ids, links, missed], [["1", "2"], ["connecting", "live", "lost", "polled", "live"], [0]]);
});

test("a watch that is told to wait for days waits for minutes", async (t) => {
  const longest: number[] = [];
  const real = setTimeout;
  t.mock.method(globalThis, "setTimeout", (f: () => void, ms: number) => (ms > 60_000 && longest.push(ms), real(f, ms > 60_000 ? 0 : ms)));
  answers(() => new Response(decided(1)), () => new Response("busy", { status: 503, headers: { "Retry-After": "999999" } }), () => new Response(decided(2)));
  await until(({ ids }) => ids.length === 2);
  assert.equal(longest.length, 1);
  assert.ok(longest[0]! >= 300_000 && longest[0]! < 305_000, `it waits for ${longest[0]} ms`);
});

test("calls carry the page's header and token, and a refused one asks to sign in", async () => {
  let wanted = 0;
  onUnauthenticated(() => wanted++);
  setToken("secret");
  answers(refusal(401, 16), () => new Response("{}"));
  await assert.rejects(get("/v1/caller"), (e) => asError(e).code === "UNAUTHENTICATED" && asError(e).problem === "no");
  assert.equal(wanted, 1);
  await get("/v1/caller");
  assert.equal(asked[1]!.headers.get("Authorization"), "Bearer secret");
  assert.equal(asked[1]!.headers.get("X-Setpoint-UI"), "1");
});

test("a service that is away is asked once more", async () => {
  answers(refusal(503, 14), () => new Response('{"name":"me"}'));
  assert.deepEqual(await get("/v1/caller"), { name: "me" });
  answers(() => {
    throw new TypeError("Failed to fetch");
  });
  await assert.rejects(get("/v1/caller"), /The service can't be reached/);
});

// Asking again and again would change nothing, and fill the service's log and the browser's console.
test("who may not watch, or must sign in first, asks once", async () => {
  for (const [status, code] of [[403, 7], [401, 16]] as const) {
    answers(refusal(status, code));
    const { links } = await until(() => false);
    assert.deepEqual(links, ["connecting", "refused"]);
    assert.equal(asked.length, 1);
  }
});
