import assert from "node:assert/strict";
import { test } from "node:test";
import { passing, serve, until, use } from "../lib/probe";
import { useOverrides } from "../overrides/store";
import { useTarget } from "./store";

const name = "clusters/eu/namespaces/shop/targets/web";
const refusal = (status: number, code: number, message: string) => Response.json({ code, message, details: [] }, { status });
/** A service whose records wait until they are let go, and what else it answers. */
function records(waits: ((r: Response) => void)[], more: (path: string) => Response) {
  return (path: string) => (path === `/v1/${name}` ? new Promise<Response>((answer) => waits.push(answer)) : path.includes(":watch") ? refusal(501, 12, "none") : more(path));
}

test("a record that comes late does not take the place of a newer one", async (t) => {
  const waits: ((r: Response) => void)[] = [];
  serve(t, records(waits, () => Response.json({})));
  const target = use(t, () => useTarget(name));
  await until("asked", () => waits.length === 1);
  target.now[1]();
  await until("asked again", () => waits.length === 2);
  const kind = () => target.now[0].value?.scaleTargetRef?.kind;
  const record = (kind: string) => Response.json({ name, scaleTargetRef: { kind } });
  waits[1]!(record("new"));
  await until("shown", () => kind() === "new");
  waits[0]!(record("old"));
  target.now[1]();
  await until("asked once more", () => waits.length === 3);
  assert.equal(kind(), "new");
  waits[2]!(record("newest"));
  await until("shown", () => kind() === "newest");
});

test("that the log can't be read is told until it is, and it is read again", async (t) => {
  const pass = passing(t, "setInterval");
  const waits: ((r: Response) => void)[] = [];
  let away = true;
  serve(t, records(waits, (path) => (!path.includes("/decisions") ? Response.json({}) : away ? refusal(500, 13, "the log is away") : Response.json({ decisions: [{ recommendationId: "a", time: "2026-01-01T00:00:00Z" }] }))));
  const target = use(t, () => useTarget(name));
  const problem = () => target.now[0].error?.problem;
  await until("told", () => problem() === "the log is away");
  waits[0]!(Response.json({ name }));
  await until("the record", () => target.now[0].value !== undefined);
  assert.equal(problem(), "the log is away");
  away = false;
  pass(15_000);
  await until("the log", () => target.now[0].decisions.length === 1);
  assert.equal(problem(), undefined);
});

test("a decision between the log's answer and the stream's begin is not lost", async (t) => {
  const decision = (id: string) => ({ recommendationId: id, time: "2026-01-01T00:00:00Z" });
  const logs = [[], [decision("between")]];
  let begin = (_: Response) => {};
  const asked = serve(t, (path) => {
    if (path.includes(":watch")) return new Promise<Response>((answer) => (begin = answer));
    return Response.json(path.includes("/decisions") ? { decisions: logs.shift() } : { name });
  });
  const target = use(t, () => useTarget(name));
  await until("read", () => logs.length === 1 && target.now[0].value !== undefined && asked.some((path) => path.includes(":watch")));
  begin(new Response('{"result":{"resumeToken":"t"}}\n'));
  await until("there", () => target.now[0].decisions.some((d) => d.recommendationId === "between"));
});

test("overrides are shown however slowly they are told, and never older ones", async (t) => {
  const pass = passing(t, "setInterval");
  const waits: ((r: Response) => void)[] = [];
  serve(t, (path) => new Promise<Response>((answer) => path.includes("/overrides") && waits.push(answer)));
  const listed = use(t, () => useOverrides(""));
  await until("asked", () => waits.length === 1);
  for (const n of [2, 3]) {
    pass(15_000);
    await until("asked again", () => waits.length === n);
  }
  const answer = (n: number) => waits[n]!(Response.json({ overrides: [{ name: `o${n}` }] }));
  const shown = () => listed.now[0].all?.[0]?.name;
  answer(1);
  await until("shown", () => shown() === "o1");
  answer(0);
  answer(2);
  await until("shown", () => shown() === "o2");
});
