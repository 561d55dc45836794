// Calls of the REST API, of this origin only.

const tokenKey = "setpoint.token";

/** A refusal or failure, in the API's own form where it has one. */
export class ApiError extends Error {
  constructor(
    /** HTTP status; 0: the service could not be reached. */
    readonly status: number,
    message: string,
    /** gRPC code. */
    readonly code = 0,
    /** ErrorInfo's reason; empty where there is none. */
    readonly reason = "",
  ) {
    super(message);
  }
}

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

/** Headers of every call. The custom one can't come from a form or link of another site. */
function headers(body: boolean): HeadersInit {
  const all: Record<string, string> = { Accept: "application/json", "X-Setpoint-UI": "1" };
  if (body) all["Content-Type"] = "application/json";
  const bearer = token();
  if (bearer) all.Authorization = `Bearer ${bearer}`;
  return all;
}

/** Who wants to know that the service wants a sign-in. */
let signIn: () => void = () => {};
export function onUnauthenticated(f: () => void): void {
  signIn = f;
}

interface ErrorBody {
  code?: number;
  message?: string;
  details?: { reason?: string }[];
}

/** The error that a body tells of. */
export function errorOf(status: number, text: string): ApiError {
  try {
    const body = JSON.parse(text) as ErrorBody & { error?: ErrorBody };
    const e = body.error && typeof body.error === "object" ? body.error : body;
    const reason = e.details?.find((d) => typeof d.reason === "string")?.reason ?? "";
    return new ApiError(status, e.message || `HTTP ${status}`, e.code ?? 0, reason);
  } catch {
    return new ApiError(status, text.slice(0, 300) || `HTTP ${status}`);
  }
}

/** Sends a request; throws ApiError unless it is answered with success. */
export async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: headers(body !== undefined),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new ApiError(0, "The service can't be reached.");
  }
  if (response.ok) return response;
  const error = errorOf(response.status, await response.text().catch(() => ""));
  if (response.status === 401) signIn();
  throw error;
}

/** Gets JSON. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request("GET", path, undefined, signal)).json() as Promise<T>;
}

/** Posts JSON and gets JSON. */
export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await request("POST", path, body, signal)).json() as Promise<T>;
}

/** Thrown where a stream is longer in one line than any honest message. */
const maxLine = 4 << 20;

/** Cuts chunks of text into lines; the last, unfinished one is kept. */
export class Lines {
  private rest = "";
  push(chunk: string): string[] {
    const lines = (this.rest + chunk).split("\n");
    this.rest = lines.pop()!;
    if (this.rest.length > maxLine) throw new ApiError(0, "A line of the stream is too long.");
    return lines.filter((l) => l.trim() !== "");
  }
}

/** How long messages of a stream are read in one go, ms: half a frame. */
const atOnce = 8;

/** Lets the browser draw, and answer whoever clicks. */
const breathe = () => new Promise<void>((resolve) => setTimeout(resolve));

/**
 * Reads a stream of newline-delimited JSON, {"result": …} or {"error": …} a line. The callback
 * gets what one read brought, so that many small messages cost one update; of very many it gets
 * a part at a time, and the browser draws in between.
 */
export async function stream<T>(method: string, path: string, body: unknown, signal: AbortSignal, each: (batch: T[]) => void): Promise<void> {
  const response = await request(method, path, body, signal);
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  const lines = new Lines();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      let batch: T[] = [];
      let began = performance.now();
      for (const line of lines.push(decoder.decode(value, { stream: true }))) {
        const message = JSON.parse(line) as { result?: T; error?: unknown };
        if (message.error) {
          if (batch.length) each(batch);
          throw errorOf(200, line);
        }
        if (message.result) batch.push(message.result);
        if (batch.length % 16 === 15 && performance.now() - began > atOnce) {
          each(batch);
          batch = [];
          await breathe();
          if (signal.aborted) return;
          began = performance.now();
        }
      }
      if (batch.length) each(batch);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
