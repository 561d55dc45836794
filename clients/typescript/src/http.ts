import { codeOf, failure, fromStatus, isObject, SetpointError } from "./errors.js";
import type { Code } from "./errors.js";
import { after, ending } from "./retry.js";
import type { Attempt } from "./transport.js";

/** How requests are made. */
export interface HttpOptions {
  /** What makes requests, for example one of undici's with a client certificate. Default: the global fetch. */
  fetch?: typeof fetch;
  /** The largest answer that is taken, in bytes. Default: 256 MiB. */
  maxAnswerBytes?: number;
}

/** A call as HTTP has it. */
export interface HttpCall {
  verb: string;
  /** With its query, from the first slash on. */
  path: string;
  body?: unknown;
}

/** Http makes single attempts of calls to the REST port, with JSON. What fails is a SetpointError. */
export class Http {
  private readonly closing = new AbortController();

  /** bases are the URLs of the addresses, without a slash at the end. */
  constructor(private readonly bases: readonly string[], private readonly options: HttpOptions = {}) {}

  /** unary returns the answer to a call. */
  async unary(call: HttpCall, attempt: Attempt): Promise<unknown> {
    const { ending: one, close } = ending(attempt.signal, this.closing.signal);
    const timer = after(attempt.timeoutMs, () => one.abort(new SetpointError("DEADLINE_EXCEEDED", "there was no answer in time")));
    try {
      return parsed(await this.content(await this.ask(call, attempt.address, one.signal), one.signal));
    } catch (error) {
      throw failure(error, one.signal, this.closed);
    } finally {
      clearTimeout(timer);
      close();
    }
  }

  /** stream returns the answers to a call that has many: the result of each line. */
  async *stream(call: HttpCall, attempt: { address: number; signal: AbortSignal }): AsyncGenerator<unknown> {
    const { ending: one, close } = ending(attempt.signal, this.closing.signal);
    try {
      const answer = await this.ask(call, attempt.address, one.signal);
      for await (const line of linesOf(answer, Math.min(this.most(), mostOfLine), one.signal)) {
        const value = parsed(line);
        const { result, error } = isObject(value) ? value : {};
        if (result === undefined) {
          throw error === undefined ? new SetpointError("INTERNAL", "a line of the answer is none") : errorOf(200, JSON.stringify(error));
        }
        yield result;
      }
    } catch (error) {
      throw failure(error, one.signal, this.closed);
    } finally {
      close();
      one.abort();
    }
  }

  get closed(): AbortSignal {
    return this.closing.signal;
  }

  close(): void {
    this.closing.abort();
  }

  /** ask sends a request, and returns the answer if it is one of success. */
  private async ask({ verb, path, body }: HttpCall, address: number, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { accept: "application/json" };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
    }
    const answer = await (this.options.fetch ?? fetch)(this.bases[address] + path, {
      method: verb, headers, signal, redirect: "manual", ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (answer.type === "opaqueredirect" || answer.status >= 300 && answer.status < 400) { // of browsers, or of Node.js
      void answer.body?.cancel().catch(() => {});
      throw new SetpointError("UNKNOWN", "there is a redirect: give the URL of the service itself, with https if it has that");
    }
    if (!answer.ok) {
      throw errorOf(answer.status, await this.content(answer, signal), answer.headers.get("retry-after"));
    }
    return answer;
  }

  private most(): number {
    return this.options.maxAnswerBytes ?? 256 << 20;
  }

  private async content(answer: Response, signal: AbortSignal): Promise<string> {
    let content = "";
    for await (const part of textOf(answer, this.most(), signal)) {
      content += part;
    }
    return content;
  }
}

/** What one of many answers may take, in characters: a decision takes some kilobytes. */
const mostOfLine = 4 << 20;

/**
 * textOf reads an answer in parts, as they come, until it is larger than it may be. The signal ends it here, too: Node's
 * fetch forgets its own once its request is collected as garbage.
 */
async function* textOf(answer: Response, mostBytes: number, signal: AbortSignal): AsyncGenerator<string> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  const cancel = () => void reader?.cancel().catch(() => {});
  signal.addEventListener("abort", cancel);
  try {
    for (let size = 0; reader;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      size += value?.length ?? 0;
      if (size > mostBytes) {
        throw new SetpointError("RESOURCE_EXHAUSTED", `the answer is larger than ${mostBytes} bytes`);
      }
      yield decoder.decode(value, { stream: !done });
      if (done) {
        return;
      }
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel(); // what is left of an answer that nobody reads on
  }
}

/** linesOf reads the lines of an answer, each no longer than it may be. */
async function* linesOf(answer: Response, most: number, signal: AbortSignal): AsyncGenerator<string> {
  let begun = "";
  for await (const part of textOf(answer, Infinity, signal)) {
    const lines = (begun + part).split("\n");
    if (lines.some((line) => line.length > most)) {
      throw new SetpointError("RESOURCE_EXHAUSTED", `a line of the answer is longer than ${most} characters`);
    }
    begun = lines.pop()!;
    yield* lines.filter((line) => line.trim() !== "");
  }
  if (begun.trim() !== "") {
    yield begun;
  }
}

/** segments escapes a name for a path, but for the slashes between its segments. */
export function segments(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

/** parsed reads an answer, or a line of one. Only where a proxy cut it off does it begin as JSON, or not at all. */
function parsed(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    throw /^\s*(\{|$)/.test(content) ? new SetpointError("UNAVAILABLE", "the answer was cut off")
      : new SetpointError("INTERNAL", `the answer is no JSON: ${content.slice(0, 200)}`);
  }
}

/** errorOf reads a google.rpc.Status, or goes by the HTTP status where something else answered, which may say when to come back, too. */
function errorOf(status: number, content: string, retryAfter: string | null = null): SetpointError {
  const delayMs = /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : Date.parse(retryAfter ?? "") - Date.now();
  const found = Number.isNaN(delayMs) ? {} : { retryDelayMs: Math.max(0, delayMs) };
  let body: unknown;
  try {
    body = JSON.parse(content);
  } catch {
    body = undefined;
  }
  if (isObject(body) && body["error"] !== undefined) {
    body = body["error"]; // of a call with many answers
  }
  if (isObject(body) && typeof body["code"] === "number" && codeOf(body["code"]) !== "OK") {
    const { code, message = "", details } = body as { code: number; message?: unknown; details?: unknown };
    return fromStatus(code, String(message), Array.isArray(details) ? details as unknown[] : [], found);
  }
  return new SetpointError(ofHttp(status), `HTTP status ${status}: ${content.slice(0, 200)}`, found);
}

/** ofHttp is the code for a status of a proxy's. */
function ofHttp(status: number): Code {
  switch (status) {
    case 400: return "INTERNAL";
    case 401: return "UNAUTHENTICATED";
    case 403: return "PERMISSION_DENIED";
    case 404: return "UNIMPLEMENTED";
    case 429: case 502: case 503: case 504: return "UNAVAILABLE";
    default: return "UNKNOWN";
  }
}

export function baseOf(url: string): string {
  const shown = JSON.stringify(url.replace(/\/\/[^/]*@/, "//…@")); // without a password
  let parsedUrl: URL;
  try {
    parsedUrl = new URL(url);
  } catch {
    throw new TypeError(`setpoint: ${shown} is no URL, such as https://setpoint.example.org:8080`);
  }
  const { protocol, search, hash, username, password } = parsedUrl;
  if (!/^https?:$/.test(protocol) || [search, hash, username, password].some((part) => part !== "")) {
    throw new TypeError(`setpoint: ${shown} must be http:// or https://, without query, fragment and user`);
  }
  return parsedUrl.href.replace(/\/+$/, "");
}
