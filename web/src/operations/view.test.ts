import assert from "node:assert/strict";
import { test } from "node:test";
import { passing, serve, until, use } from "../lib/probe";
import { usePolled } from "./view";

// A connection may be gone without a word: what was read before would stand there as if it were of now.
test("a service that accepts and does not answer is told beside what was read before", async (t) => {
  const pass = passing(t, "setTimeout");
  let silent = false;
  serve(t, () => (silent ? new Promise<never>(() => {}) : Response.json({ instances: [] })));
  const seen = use(t, () => usePolled<object>("/v1/instances"));
  await until("read", () => seen.now.value !== undefined, () => pass(100));
  silent = true;
  await until("told", () => seen.now.error?.code === "DEADLINE_EXCEEDED", () => pass(1000));
  assert.notEqual(seen.now.value, undefined);
  assert.match(seen.now.error!.problem, /has not answered for a while/);
});
