import { createRegistry, fromJson, getOption, toJson } from "@bufbuild/protobuf";
import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, JsonObject, JsonValue, MessageShape } from "@bufbuild/protobuf";
import { onLoopback } from "./addresses.js";
import { Client } from "./client.js";
import type { ClientOptions } from "./client.js";
import { codeOf, fromStatus, SetpointError } from "./errors.js";
import type { Code, Detail } from "./errors.js";
import { file_google_rpc_error_details } from "./gen/google/rpc/error_details_pb.js";
import { invalid } from "./made.js";
import { http } from "./gen/google/api/annotations_pb.js";
import type { Attempt, Transport } from "./transport.js";

export * from "./common.js";

/** How to reach a service over REST. */
export interface RestOptions extends ClientOptions {
  /** A bearer token, or what returns one at each attempt. */
  token?: string | (() => string | Promise<string>);
  /** Allows a token without TLS, on a trusted network. */
  tokenOverInsecure?: boolean;
  /** What makes requests, for example one of undici's with a client certificate. Default: the global fetch. */
  fetch?: typeof fetch;
  /** The largest answer that is taken, in bytes. Default: 256 MiB. */
  maxAnswerBytes?: number;
}

/**
 * Returns a client of the service's REST port, also for browsers. The URL is that of the service,
 * "https://setpoint.example.org:8080", or several, separated by commas.
 */
export function connectRest(url: string, options: RestOptions = {}): Client {
  return new Client(new RestTransport(url, options), options);
}

/** RestTransport makes calls over REST, by the paths that the contract has. */
export class RestTransport implements Transport {
  private readonly bases: string[];
  private readonly token: (() => string | Promise<string>) | undefined;
  private readonly closing = new AbortController();

  constructor(urls: string, private readonly options: RestOptions = {}) {
    this.bases = [...new Set(urls.split(",").map((text) => baseOf(text.trim())))];
    const { token } = options;
    if (token !== undefined && !options.tokenOverInsecure && this.bases.some((base) => !base.startsWith("https:") && !onLoopback(`${new URL(base).hostname}:`))) {
      throw new TypeError("setpoint: a token would travel unencrypted: use https, or tokenOverInsecure on a trusted network");
    }
    this.token = typeof token === "string" ? () => token : token;
  }

  get addresses(): number {
    return this.bases.length;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, attempt: Attempt,
  ): Promise<MessageShape<O>> {
    const { route, path, init } = await this.asked(method, request);
    const time = new AbortController();
    const timer = Number.isFinite(attempt.timeoutMs) ? setTimeout(() => time.abort(), attempt.timeoutMs) : undefined;
    const abort = () => time.abort();
    attempt.signal?.addEventListener("abort", abort, { once: true });
    this.closing.signal.addEventListener("abort", abort, { once: true });
    try {
      if (attempt.signal?.aborted || this.closing.signal.aborted) {
        abort();
      }
      const answer = await (this.options.fetch ?? fetch)(this.bases[attempt.address] + path, { ...init, signal: time.signal });
      const content = await bounded(answer, this.options.maxAnswerBytes ?? 256 << 20);
      if (!answer.ok) {
        throw errorOf(answer.status, content);
      }
      const value = parsed(content);
      try {
        return fromJson(method.output, route.answer === "" ? value : { [route.answer]: value }, reading);
      } catch (error) {
        throw new SetpointError("INTERNAL", `the answer can't be read: ${text(error)}`);
      }
    } catch (error) {
      if (error instanceof SetpointError) {
        throw error;
      }
      if (attempt.signal?.aborted || this.closing.signal.aborted) {
        throw new SetpointError("CANCELLED", "the caller gave up");
      }
      if (time.signal.aborted) {
        throw new SetpointError("DEADLINE_EXCEEDED", "there was no answer in time");
      }
      throw new SetpointError("UNAVAILABLE", text(error));
    } finally {
      clearTimeout(timer);
      attempt.signal?.removeEventListener("abort", abort);
      this.closing.signal.removeEventListener("abort", abort);
    }
  }

  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageShape<I>, attempt: { address: number; signal: AbortSignal },
  ): AsyncGenerator<MessageShape<O>> {
    const { path, init } = await this.asked(method, request);
    const most = this.options.maxAnswerBytes ?? 256 << 20;
    const ending = new AbortController();
    const end = () => ending.abort();
    attempt.signal.addEventListener("abort", end, { once: true });
    this.closing.signal.addEventListener("abort", end, { once: true });
    try {
      if (attempt.signal.aborted || this.closing.signal.aborted) {
        end();
      }
      const answer = await (this.options.fetch ?? fetch)(this.bases[attempt.address] + path, { ...init, signal: ending.signal });
      if (!answer.ok) {
        throw errorOf(answer.status, await bounded(answer, most));
      }
      for await (const line of linesOf(answer, Math.min(most, mostOfLine))) {
        yield answerOf(method.output, line);
      }
    } catch (error) {
      if (error instanceof SetpointError) {
        throw error;
      }
      throw ending.signal.aborted ? new SetpointError("CANCELLED", "the caller gave up") : new SetpointError("UNAVAILABLE", text(error));
    } finally {
      attempt.signal.removeEventListener("abort", end);
      this.closing.signal.removeEventListener("abort", end);
      end();
    }
  }

  /** asked is how a call is made over HTTP. */
  private async asked<I extends DescMessage>(method: AnyMethod & { input: I }, request: MessageShape<I>): Promise<{ route: Route; path: string; init: RequestInit }> {
    const route = routeOf(method);
    const { path, query, body } = placed(route, toJson(method.input, request) as JsonObject);
    const headers: Record<string, string> = { accept: "application/json" };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
    }
    if (this.token) {
      try {
        headers["authorization"] = `Bearer ${await this.token()}`;
      } catch (error) {
        throw new SetpointError("UNAUTHENTICATED", `bearer token: ${text(error)}`);
      }
    }
    return { route, path: path + query, init: { method: route.verb, headers, redirect: "error", ...(body !== undefined && { body: JSON.stringify(body) }) } };
  }

  close(): void {
    this.closing.abort();
  }
}

/** How answers are read: of the details of errors the usual ones are known. */
const reading = { ignoreUnknownFields: true, registry: createRegistry(file_google_rpc_error_details) };

/** Route is where a method is on the REST port. */
interface Route {
  verb: string;
  /** Parts of the path: text, or the field in its place. */
  parts: ({ text: string } | { field: string; pattern: string; form: RegExp })[];
  /** The field that is the body, "*": all that is not in the path; "": none. */
  body: string;
  /** The field of the answer that is its body; "": all of it. */
  answer: string;
}

type AnyMethod = DescMethodUnary<DescMessage, DescMessage> | DescMethodServerStreaming<DescMessage, DescMessage>;

const routes = new Map<AnyMethod, Route>();

function routeOf(method: AnyMethod): Route {
  let route = routes.get(method);
  if (!route) {
    const rule = getOption(method, http);
    if (!rule.pattern.case || rule.pattern.case === "custom") {
      throw new SetpointError("UNIMPLEMENTED", `${method.name} is not served over REST`);
    }
    const name = (field: string) => method.input.fields.find((f) => f.name === field)?.jsonName ?? field;
    const parts: Route["parts"] = [];
    for (const part of rule.pattern.value.split(/(\{[^}]*\})/)) {
      const match = /^\{([^=}]+)(?:=([^}]*))?\}$/.exec(part);
      const pattern = match?.[2] ?? "*";
      parts.push(match ? { field: name(match[1]!), pattern, form: new RegExp(`^${pattern.replaceAll("*", "[^/]+")}$`) } : { text: part });
    }
    const answer = method.output.fields.find((f) => f.name === rule.responseBody)?.jsonName ?? "";
    route = { verb: rule.pattern.case.toUpperCase(), parts, body: rule.body === "*" ? "*" : rule.body && name(rule.body), answer };
    routes.set(method, route);
  }
  return route;
}

/** placed puts a request's fields where a route has them. */
function placed(route: Route, request: JsonObject): { path: string; query: string; body: JsonValue | undefined } {
  const rest = { ...request };
  let path = "";
  for (const part of route.parts) {
    if ("text" in part) {
      path += part.text;
      continue;
    }
    const value = String(rest[part.field] ?? "");
    delete rest[part.field];
    if (!part.form.test(value)) { // else the path would be another's
      throw invalid([{ field: part.field, description: `must be ${part.pattern}, is ${JSON.stringify(value.slice(0, 200))}` }]);
    }
    // Names have slashes between their segments; the service refuses what is in none.
    path += value.split("/").map(encodeURIComponent).join("/");
  }
  if (route.body === "*") {
    return { path, query: "", body: rest };
  }
  let body: JsonValue | undefined;
  if (route.body !== "") {
    body = rest[route.body] ?? {};
    delete rest[route.body];
  }
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(rest)) {
    query.set(name, String(value));
  }
  return { path, query: query.size > 0 ? `?${query}` : "", body };
}

function baseOf(url: string): string {
  let parsedUrl: URL;
  try {
    parsedUrl = new URL(url);
  } catch {
    throw new TypeError(`setpoint: ${JSON.stringify(url)} is no URL, such as https://setpoint.example.org:8080`);
  }
  if (!/^https?:$/.test(parsedUrl.protocol) || parsedUrl.search !== "" || parsedUrl.hash !== "" || parsedUrl.username !== "") {
    throw new TypeError(`setpoint: ${JSON.stringify(url)} must be http:// or https://, without query, fragment and user`);
  }
  return parsedUrl.href.replace(/\/+$/, "");
}

/** answerOf reads a line of an answer that has many: {"result": …} or {"error": …}. */
function answerOf<O extends DescMessage>(schema: O, line: string): MessageShape<O> {
  const value = parsed(line);
  if (typeof value !== "object" || value === null || Array.isArray(value) || value["result"] === undefined) {
    const error = typeof value === "object" && value !== null && !Array.isArray(value) ? value["error"] : undefined;
    throw error === undefined ? new SetpointError("INTERNAL", "a line of the answer is none") : errorOf(200, JSON.stringify(error));
  }
  try {
    return fromJson(schema, value["result"], reading);
  } catch (error) {
    throw new SetpointError("INTERNAL", `the answer can't be read: ${text(error)}`);
  }
}

/** What one of many answers may take, in characters: a decision takes some kilobytes. */
const mostOfLine = 4 << 20;

/** linesOf reads the lines of an answer as they come, each no larger than it may be. */
async function* linesOf(answer: Response, most: number): AsyncGenerator<string> {
  if (!answer.body) {
    return;
  }
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let begun = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (begun + decoder.decode(value, { stream: !done })).split("\n");
    begun = done ? "" : lines.pop()!;
    if (begun.length > most || lines.some((line) => line.length > most)) {
      throw new SetpointError("RESOURCE_EXHAUSTED", `a line of the answer is longer than ${most} characters`);
    }
    yield* lines.filter((line) => line.trim() !== "");
    if (done) {
      return;
    }
  }
}

/** bounded reads an answer that is not larger than it may be. */
async function bounded(answer: Response, most: number): Promise<string> {
  if (!answer.body) {
    return "";
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      break;
    }
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new SetpointError("RESOURCE_EXHAUSTED", `the answer is larger than ${most} bytes`);
    }
    parts.push(value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return new TextDecoder().decode(all);
}

function parsed(content: string): JsonValue {
  try {
    return JSON.parse(content) as JsonValue;
  } catch {
    throw new SetpointError("INTERNAL", "the answer is no JSON");
  }
}

/** errorOf reads a google.rpc.Status, or goes by the HTTP status where something else answered. */
function errorOf(status: number, content: string): SetpointError {
  let body: unknown;
  try {
    body = JSON.parse(content);
  } catch {
    body = undefined;
  }
  if (typeof body === "object" && body !== null && "error" in body) {
    body = body.error; // of a call with many answers
  }
  if (typeof body === "object" && body !== null && "code" in body && typeof body.code === "number" && codeOf(body.code) !== "OK") {
    const message = "message" in body ? String(body.message) : "";
    const details: Detail[] = [];
    for (const detail of "details" in body && Array.isArray(body.details) ? body.details as unknown[] : []) {
      if (typeof detail === "object" && detail !== null && "@type" in detail) {
        const { "@type": typeUrl, ...json } = detail as JsonObject;
        details.push({ typeUrl: String(typeUrl), json });
      }
    }
    return fromStatus(body.code, message, details);
  }
  return new SetpointError(ofHttp(status), `HTTP status ${status}: ${content.slice(0, 200)}`);
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

function text(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return error instanceof Error ? error.message + cause : String(error);
}
