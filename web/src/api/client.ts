// The client of this origin, and the token that it sends.

import { connectJson, SetpointError, type JsonClient } from "@setpoint-dev/client/json";
import { root } from "../router";

const tokenKey = "setpoint.token";

/** The bearer token of this tab; empty: none, a cookie or a client certificate may speak. */
export function token(): string {
  try {
    return sessionStorage.getItem(tokenKey) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a token for this tab; "" forgets it. */
export function setToken(value: string): void {
  try {
    if (value) sessionStorage.setItem(tokenKey, value);
    else sessionStorage.removeItem(tokenKey);
  } catch {
    // Storage is refused: the user signs in again after each load.
  }
}

/** Called when the service requires a sign-in. */
let signIn: () => void = () => {};
export function onUnauthenticated(f: () => void): void {
  signIn = f;
}

let answered: () => void;
/** Resolves with the first answer, or when a request failed: before that nothing is known of the service's clock. */
export const clockAsked = new Promise<void>((resolve) => (answered = resolve));

/** How far the service's clock is ahead of this machine's, ms. */
let ahead = 0;
export const clockAhead = (): number => ahead;

/** The service's clock, ms of Unix time: who has not asked for how long must not depend on the reader's. */
export const serviceNow = (): number => Date.now() + ahead;

/** Sends a request. Its own header can't come from a form or link of another site. */
async function send(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("X-Setpoint-UI", "1");
  const bearer = token();
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  const response = await fetch(input, { ...init, headers, credentials: "same-origin", cache: "no-store" }).catch((e: unknown) => {
    answered();
    if (init.signal?.aborted) throw e;
    throw new SetpointError("UNAVAILABLE", "The service can't be reached.");
  });
  const differs = Date.parse(response.headers.get("Date") ?? "") - Date.now();
  if (Math.abs(differs - ahead) > 1500) ahead = differs; // the header has whole seconds
  answered();
  if (response.status === 401 && bearer === token()) signIn(); // a refusal of a former token says nothing of this one
  return response;
}

/** For how long a request is waited for before a view says so, ms: what it shows may be old. */
export const silent = 12_000;
export const unanswered = (): SetpointError => new SetpointError("DEADLINE_EXCEEDED", "The service has not answered for a while.");

let made: JsonClient | undefined;

/** The page's client. Views poll by themselves, so a call has one more attempt at most; a lost watch waits up to half a minute. */
export const client = (): JsonClient =>
  (made ??= connectJson(location.origin + root, { fetch: send, timeoutMs: 60_000, retry: { maxAttempts: 2, baseDelayMs: 500, maxDelayMs: 30_000, attemptTimeoutMs: 0 } }));

/** Posts nothing, to a path that answers nothing. */
export async function post(path: string): Promise<void> {
  const { ok, status } = await send(root + path.slice(1), { method: "POST" });
  if (!ok) throw new SetpointError("UNKNOWN", `The service answers with HTTP status ${status}.`);
}

/** Gets JSON. */
export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => client().get<T>(path, signal && { signal });
