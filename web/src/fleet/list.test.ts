import assert from "node:assert/strict";
import { test } from "node:test";
import { passing, serve, until, use } from "../lib/probe";
import { useFleets } from "./list";

test("the list of fleets is read again: others store them, and the service may have been away", async (t) => {
  const pass = passing(t, "setTimeout");
  const answers = [Response.json({ code: 13, message: "away" }, { status: 500 }), Response.json({ targetSpecs: [{ name: "a" }] }), Response.json({ targetSpecs: [{ name: "a" }, { name: "b" }] })];
  const asked = serve(t, () => answers.shift()!);
  const fleets = use(t, useFleets);
  const shown = () => fleets.now[0].fleets?.map((f) => f.name).join();
  await until("told", () => fleets.now[0].error !== undefined, () => pass(50));
  await until("read", () => shown() === "a" && fleets.now[0].error === undefined, () => pass(1000));
  await until("read again", () => shown() === "a,b", () => pass(1000));
  assert.equal(asked.length, 3);
});
