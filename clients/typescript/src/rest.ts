import { createRegistry, fromJson, getOption, toJson } from "@bufbuild/protobuf";
import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, JsonObject, JsonValue, MessageShape } from "@bufbuild/protobuf";
import { onLoopback } from "./addresses.js";
import { Client, clientOptions } from "./client.js";
import type { ClientOptions } from "./client.js";
import { bearer, invalid, SetpointError, text } from "./errors.js";
import { file_google_rpc_error_details } from "./gen/google/rpc/error_details_pb.js";
import { baseOf, Http, segments } from "./http.js";
import type { HttpCall, HttpOptions } from "./http.js";
import { refuseUnknown } from "./options.js";
import type { Names } from "./options.js";
import { http } from "./gen/google/api/annotations_pb.js";
import type { HttpRule } from "./gen/google/api/http_pb.js";
import type { Attempt, Transport } from "./transport.js";

export * from "./common.js";

/** How to reach a service over REST. */
export interface RestOptions extends ClientOptions, HttpOptions {
  /** A bearer token, or what returns one at each attempt. */
  token?: string | (() => string | Promise<string>);
  /** Allows a token without TLS, on a trusted network. */
  tokenOverInsecure?: boolean;
}

const restOptions: Names<RestOptions> = { ...clientOptions, token: true, tokenOverInsecure: true, fetch: true, maxAnswerBytes: true };

/**
 * Returns a client of the service's REST port, also for browsers. The URL is that of the service,
 * "https://setpoint.example.org:8080", or several, separated by commas.
 */
export function connectRest(url: string, options: RestOptions = {}): Client {
  refuseUnknown(options, restOptions);
  return new Client(new RestTransport(url, options), options);
}

/** RestTransport makes calls over REST, by the paths that the contract has. */
export class RestTransport implements Transport {
  readonly addresses: number;
  readonly closed: AbortSignal;
  private readonly http: Http;

  constructor(urls: string, options: RestOptions = {}) {
    const bases = [...new Set(urls.split(",").map((text) => baseOf(text.trim())))];
    const { token, fetch: plain = fetch } = options;
    if (token !== undefined && !options.tokenOverInsecure && bases.some((base) => !base.startsWith("https:") && !onLoopback(`${new URL(base).hostname}:`))) {
      throw new TypeError("setpoint: a token would travel unencrypted: use https, or tokenOverInsecure on a trusted network");
    }
    this.addresses = bases.length;
    this.http = new Http(bases, { ...options, fetch: token === undefined ? plain : withToken(plain, token) });
    this.closed = this.http.closed;
  }

  size<M extends DescMessage>(schema: M, message: MessageShape<M>): number {
    return new TextEncoder().encode(JSON.stringify(toJson(schema, message))).length;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, attempt: Attempt,
  ): Promise<MessageShape<O>> {
    const { answer, body } = routeOf(method);
    try {
      const value = await this.http.unary(callOf(method, request), attempt);
      return read(method.output, answer === "" ? value : { [answer]: value });
    } catch (error) {
      throw error instanceof SetpointError && body !== "" && body !== "*" ? within(method.input, body, error) : error;
    }
  }

  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageShape<I>, attempt: { address: number; signal: AbortSignal },
  ): AsyncGenerator<MessageShape<O>> {
    for await (const value of this.http.stream(callOf(method, request), attempt)) {
      yield read(method.output, value);
    }
  }

  close(): void {
    this.http.close();
  }
}

/** withToken sends a bearer token with each request. */
function withToken(plain: typeof fetch, token: string | (() => string | Promise<string>)): typeof fetch {
  return async (input, init) => {
    const authorization = await bearer(typeof token === "string" ? () => token : token, init!.signal!);
    return plain(input, { ...init, headers: { ...init?.headers as Record<string, string>, authorization } });
  };
}

/** within gives what is wrong with a body that is one field of a request the paths that it has in the request. */
function within(request: DescMessage, body: string, { code, problem, reason, violations, retryDelayMs }: SetpointError): SetpointError {
  const ofRequest = new Set(request.fields.map((field) => field.jsonName));
  return new SetpointError(code, problem, {
    violations: violations.map(({ field, description }) =>
      ({ field: ofRequest.has(/^[^.[]*/.exec(field)![0]) ? field : field === "" ? body : `${body}.${field}`, description })),
    ...(reason !== undefined && { reason }), ...(retryDelayMs !== undefined && { retryDelayMs }),
  });
}

function read<O extends DescMessage>(schema: O, value: unknown): MessageShape<O> {
  try {
    return fromJson(schema, value as JsonValue, reading);
  } catch (error) {
    throw new SetpointError("INTERNAL", `the answer can't be read: ${text(error)}`);
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
  /** The other places where it is. */
  others: Route[];
}

type AnyMethod = DescMethodUnary<DescMessage, DescMessage> | DescMethodServerStreaming<DescMessage, DescMessage>;

/** A segment of a name. A URL would lead from . and .. to another path. */
const segment = "(?!\\.{1,2}(?:/|$))[^/]+";

const routes = new Map<AnyMethod, Route>();

function routeOf(method: AnyMethod): Route {
  let route = routes.get(method);
  if (!route) {
    const rule = getOption(method, http);
    route = { ...placeOf(method, rule), others: rule.additionalBindings.map((other) => placeOf(method, other)) };
    routes.set(method, route);
  }
  return route;
}

/** placeOf reads one place of a method on the REST port. */
function placeOf(method: AnyMethod, rule: HttpRule): Route {
  if (!rule.pattern.case || rule.pattern.case === "custom") {
    throw new SetpointError("UNIMPLEMENTED", `${method.name} is not served over REST`);
  }
  const name = (field: string) => method.input.fields.find((f) => f.name === field)?.jsonName ?? field;
  const parts: Route["parts"] = [];
  for (const part of rule.pattern.value.split(/(\{[^}]*\})/)) {
    const match = /^\{([^=}]+)(?:=([^}]*))?\}$/.exec(part);
    const pattern = match?.[2] ?? "*";
    parts.push(match ? { field: name(match[1]!), pattern, form: new RegExp(`^${pattern.replaceAll("*", segment)}$`) } : { text: part });
  }
  const answer = method.output.fields.find((f) => f.name === rule.responseBody)?.jsonName ?? "";
  return { verb: rule.pattern.case.toUpperCase(), parts, body: rule.body === "*" ? "*" : rule.body && name(rule.body), answer, others: [] };
}

/** callOf puts a request's fields where the method's route has them. */
function callOf<I extends DescMessage>(method: AnyMethod & { input: I }, request: MessageShape<I>): HttpCall {
  const rest = { ...toJson(method.input, request) as JsonObject };
  const first = routeOf(method);
  const fits = (one: Route) => one.parts.every((part) => "text" in part || part.form.test(String(rest[part.field] ?? "")));
  const route = [first, ...first.others].find(fits) ?? first;
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
    path += segments(value);
  }
  if (route.body === "*") {
    return { verb: route.verb, path, body: rest };
  }
  let body: JsonValue | undefined;
  if (route.body !== "") {
    body = rest[route.body] ?? {};
    delete rest[route.body];
  }
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(rest)) {
    fields.set(name, String(value));
  }
  const query = String(fields); // their size is unknown to Node.js before 18.16 and to browsers of 2022
  return { verb: route.verb, path: path + (query && `?${query}`), body };
}
