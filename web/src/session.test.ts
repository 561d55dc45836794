import assert from "node:assert/strict";
import { test } from "node:test";
import { get, setToken } from "./api/client";
import { passing, serve, until, use } from "./lib/probe";
import { canSignOut, retry, signInWithToken, signOut, useSession, whoAmI } from "./session";

const kept = new Map<string, string>();
Object.assign(globalThis, {
  sessionStorage: { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => kept.set(k, v), removeItem: (k: string) => kept.delete(k) },
});
const refusal = (status: number, code: number) => Response.json({ code, message: "no", details: [] }, { status });
const config = () => Response.json({ signIn: { oidc: { issuer: "https://issuer.test", path: "/ui/in", endPath: "/ui/out" } } });

test("an answer to a former caller's request is not the present one's", async (t) => {
  const waits = new Map<string, (r: Response) => void>();
  serve(t, (path, init) => (path === "/ui/config.json" ? config() : new Promise<Response>((answer) => waits.set(`${new Headers(init.headers).get("Authorization")} ${path}`, answer))));
  const session = use(t, useSession);
  setToken("ann");
  const left = [whoAmI(), get("/v1/store").catch(() => {})]; // of views that were left
  const signsIn = signInWithToken("bob");
  await until("asked", () => waits.size === 3);
  waits.get("Bearer bob /v1/caller")!(Response.json({ name: "bob" }));
  await signsIn;
  waits.get("Bearer ann /v1/caller")!(Response.json({ name: "ann" }));
  waits.get("Bearer ann /v1/store")!(refusal(401, 16));
  await Promise.all(left);
  await until("known", () => session.now.caller !== undefined);
  assert.deepEqual([session.now.caller?.name, session.now.wanted], ["bob", false]);
});

test("who signed in is asked for again while the service is away", async (t) => {
  let away = 3;
  serve(t, (path) => (path === "/ui/config.json" ? config() : away-- > 0 ? refusal(503, 14) : Response.json({ name: "cleo" })));
  const session = use(t, useSession);
  const pass = passing(t, "setTimeout");
  void whoAmI();
  await until("known", () => session.now.caller?.name === "cleo", () => pass(100));
});

test("a session that the service did not end is not shown as ended", async (t) => {
  setToken("");
  let status = 503;
  serve(t, (path) => (path === "/ui/out" ? new Response(null, { status }) : path === "/ui/config.json" ? config() : Response.json({ name: "dan", method: "oidc" })));
  const session = use(t, useSession);
  await whoAmI();
  await until("known", () => session.now.caller?.name === "dan");
  assert.ok(canSignOut(session.now));
  await assert.rejects(signOut(), /503/);
  assert.equal(session.now.wanted, false);
  status = 204;
  await signOut();
  await until("signed out", () => session.now.wanted);
  assert.equal(session.now.caller, undefined);
});

test("a refusal of something in front of the service is over once the caller is asked for again", async (t) => {
  setToken("");
  let away = true;
  serve(t, (path) => (path === "/ui/config.json" ? config() : away ? refusal(401, 16) : Response.json({ name: "eve" })));
  const session = use(t, useSession);
  await whoAmI();
  await until("refused", () => session.now.wanted);
  away = false;
  const { generation } = session.now;
  retry();
  await whoAmI(); // as the page does with each generation
  await until("known", () => session.now.caller?.name === "eve");
  assert.deepEqual([session.now.wanted, session.now.ended, session.now.generation], [false, false, generation + 1]);
});
