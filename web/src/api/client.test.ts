import assert from "node:assert/strict";
import { test } from "node:test";
import { stream } from "./client";

// A burst of decisions, as after a reconnection, is not one long task: the browser can draw in
// between.
test("a stream lets others have their turn", async () => {
  const count = 20_000;
  let text = "";
  for (let i = 0; i < count; i++) text += `${JSON.stringify({ result: { n: i, padding: "x".repeat(200) } })}\n`;
  const real = globalThis.fetch;
  globalThis.fetch = () => Promise.resolve(new Response(text));
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const got: number[] = [];
  let batches = 0;
  try {
    await stream<{ n: number }>("GET", "/", undefined, new AbortController().signal, (batch) => {
      batches++;
      for (const m of batch) got.push(m.n);
    });
  } finally {
    clearInterval(timer);
    globalThis.fetch = real;
  }
  assert.equal(got.length, count);
  assert.ok(got.every((n, i) => n === i), "out of order");
  assert.ok(turns > 1 && batches > 1, `${turns} turns of others, ${batches} batches`);
});

test("a stream that is given up brings nothing more", async () => {
  const real = globalThis.fetch;
  const line = `${JSON.stringify({ result: { padding: "x".repeat(200) } })}\n`;
  globalThis.fetch = () => Promise.resolve(new Response(line.repeat(20_000)));
  const ending = new AbortController();
  let got = 0;
  try {
    await stream("GET", "/", undefined, ending.signal, (batch) => {
      got += batch.length;
      ending.abort();
    });
  } finally {
    globalThis.fetch = real;
  }
  assert.ok(got > 0 && got < 20_000, `${got} came`);
});
