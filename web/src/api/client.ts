// The client of this origin, and the token that it sends.

import { connectJson, SetpointError, type JsonClient } from "@setpoint-dev/client/json";

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

/** How far the service's clock is ahead of this machine's, ms. */
let skew = 0;

/** The service's clock, ms of Unix time: who has not asked for how long must not depend on the reader's. */
export const serviceNow = (): number => Date.now() + skew;

/** Sends a request. Its own header can't come from a form or link of another site. */
async function send(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("X-Setpoint-UI", "1");
  const bearer = token();
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  const response = await fetch(input, { ...init, headers, credentials: "same-origin", cache: "no-store" }).catch((e: unknown) => {
    if (init.signal?.aborted) throw e;
    throw new SetpointError("UNAVAILABLE", "The service can't be reached.");
  });
  const told = Date.parse(response.headers.get("Date") ?? "");
  if (told) skew = told - Date.now();
  if (response.status === 401) signIn();
  return response;
}

let made: JsonClient | undefined;

/** The page's client. Views poll by themselves, so a call has one more attempt at most; a lost watch waits up to half a minute. */
export const client = (): JsonClient =>
  (made ??= connectJson(location.origin, { fetch: send, timeoutMs: 60_000, retry: { maxAttempts: 2, baseDelayMs: 500, maxDelayMs: 30_000, attemptTimeoutMs: 0 } }));

/** Gets JSON. */
export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => client().get<T>(path, signal && { signal });
