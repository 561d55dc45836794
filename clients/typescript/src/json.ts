import { baseOf, Http, segments } from "./http.js";
import type { HttpOptions } from "./http.js";
import type { WatchDecisionsRequestJson, WatchDecisionsResponseJson } from "./gen/setpoint/v1/target_service_pb.js";
import { refuseNaN, refuseUnknown } from "./options.js";
import type { Names } from "./options.js";
import { Deadline, Retrier } from "./retry.js";
import type { CallOptions, Retry } from "./retry.js";
import { Watch } from "./watch.js";
import type { WatchOptions } from "./watch.js";

export { asError, SetpointError } from "./errors.js";
export type { Code, Violation } from "./errors.js";
export type { CallOptions, Retry } from "./retry.js";
export type { WatchOptions } from "./watch.js";
export type * from "./gen/setpoint/v1/autoscaling_pb.js";
export type * from "./gen/setpoint/v1/explanation_pb.js";
export type * from "./gen/setpoint/v1/fleet_service_pb.js";
export type * from "./gen/setpoint/v1/operations_service_pb.js";
export type * from "./gen/setpoint/v1/override_service_pb.js";
export type * from "./gen/setpoint/v1/recommendation_service_pb.js";
export type * from "./gen/setpoint/v1/stages_pb.js";
export type * from "./gen/setpoint/v1/target_service_pb.js";

/** Settings of a JsonClient, which are those of every client. */
export interface JsonOptions extends HttpOptions {
  timeoutMs?: number;
  retry?: Partial<Retry>;
}

const jsonOptions: Names<JsonOptions> = { timeoutMs: true, retry: true, fetch: true, maxAnswerBytes: true };

/**
 * Returns a client of the service's REST port without Protobuf, for pages in which each kilobyte
 * counts: it takes paths and JSON as the REST API has them. The types of their JSON end in Json.
 * A token, where the page has one, is for options.fetch to send.
 */
export function connectJson(url: string, options: JsonOptions = {}): JsonClient {
  return new JsonClient(url, options);
}

/** JsonClient retries, and watches, as Client does. */
export class JsonClient {
  private readonly http: Http;
  private readonly retrier: Retrier;
  private readonly timeoutMs: number;

  constructor(url: string, options: JsonOptions = {}) {
    refuseUnknown(options, jsonOptions);
    this.http = new Http([baseOf(url)], options);
    this.retrier = new Retrier(options.retry, 1);
    this.timeoutMs = options.timeoutMs ?? 10_000;
    refuseNaN({ timeoutMs: this.timeoutMs });
  }

  /** Reads a path, such as "/v1/clusters/-/namespaces/-/targets?pageSize=100". */
  get<T>(path: string, options?: CallOptions): Promise<T> {
    return this.call<T>({ verb: "GET", path }, true, options);
  }

  /** Posts JSON to a path, once. */
  post<T>(path: string, body: unknown, options?: CallOptions): Promise<T> {
    return this.call<T>({ verb: "POST", path, body }, false, options);
  }

  /** Puts JSON at a path, once. */
  put<T>(path: string, body: unknown, options?: CallOptions): Promise<T> {
    return this.call<T>({ verb: "PUT", path, body }, false, options);
  }

  /** Deletes what a path names, once. */
  delete<T>(path: string, options?: CallOptions): Promise<T> {
    return this.call<T>({ verb: "DELETE", path }, false, options);
  }

  /** Returns decisions as they are made, as Client's does, with up to 1,000 in a response unless the request says otherwise. */
  watchDecisions(request: WatchDecisionsRequestJson & { parent: string }, options: WatchOptions = {}): AsyncGenerator<WatchDecisionsResponseJson> {
    return new Watch<WatchDecisionsRequestJson, WatchDecisionsResponseJson>(request, (sent, attempt) => {
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(sent)) {
        if (name !== "parent" && value !== undefined && value !== "") {
          query.set(name, String(value));
        }
      }
      return this.http.stream({ verb: "GET", path: `/v1/${segments(request.parent)}/decisions:watch?${query}` }, attempt) as AsyncGenerator<WatchDecisionsResponseJson>;
    }, this.retrier, options).run();
  }

  private async call<T>(call: { verb: string; path: string; body?: unknown }, mayRepeat: boolean, options: CallOptions = {}): Promise<T> {
    const deadline = new Deadline(options.timeoutMs ?? this.timeoutMs, options.signal);
    return this.retrier.attempts(async (_, address) =>
      await this.http.unary(call, { address, timeoutMs: this.retrier.attemptMs(deadline, mayRepeat), signal: deadline.signal }) as T, deadline, mayRepeat);
  }
}
