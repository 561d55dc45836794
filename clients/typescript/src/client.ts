import { create } from "@bufbuild/protobuf";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { unpacked } from "./details.js";
import { asError, fromStatus, SetpointError } from "./errors.js";
import {
  BatchRecommendRequestSchema, RecommendationService, RecommendRequestSchema, ReportObservationRequestSchema, ReportScaleRequestSchema,
} from "./gen/setpoint/v1/recommendation_service_pb.js";
import type {
  BatchRecommendResult, Recommendation, RecommendRequest, RecommendResponse, ReportObservationResponse, ReportScaleResponse,
} from "./gen/setpoint/v1/recommendation_service_pb.js";
import { FleetService } from "./gen/setpoint/v1/fleet_service_pb.js";
import type { Fleet } from "./gen/setpoint/v1/fleet_service_pb.js";
import { OverrideService } from "./gen/setpoint/v1/override_service_pb.js";
import type { Override } from "./gen/setpoint/v1/override_service_pb.js";
import { SimulateRequestSchema, SimulationService } from "./gen/setpoint/v1/simulation_service_pb.js";
import type { SimulateRequest, SimulateResponse } from "./gen/setpoint/v1/simulation_service_pb.js";
import { TargetService, WatchDecisionsRequestSchema, WatchDecisionsResponseSchema } from "./gen/setpoint/v1/target_service_pb.js";
import type { Decision, Target, TargetSpec, WatchDecisionsResponse } from "./gen/setpoint/v1/target_service_pb.js";
import { made } from "./made.js";
import { after, Deadline, ending, Retrier, Told } from "./retry.js";
import type { CallOptions, Retry } from "./retry.js";
import { refuseNaN, refuseUnknown } from "./options.js";
import type { Names } from "./options.js";
import type { Transport } from "./transport.js";
import { copied, Watch } from "./watch.js";
import type { WatchOptions } from "./watch.js";

/** Settings of every client. */
export interface ClientOptions {
  /** The time of a call, all attempts together, in milliseconds; 0: unbounded. Default: 10000. */
  timeoutMs?: number;
  /** When calls are tried again. What is absent has its default. */
  retry?: Partial<Retry>;
  /** How many requests go into one call of batchRecommend at most. Default: 1000. */
  maxBatch?: number;
  /** How many bytes go into one call at most, as the service takes them. Default: 16 MiB. */
  maxRequestBytes?: number;
}

export const clientOptions: Names<ClientOptions> = { timeoutMs: true, retry: true, maxBatch: true, maxRequestBytes: true };

const callOptions: Names<CallOptions> = { timeoutMs: true, signal: true };
const watchOptions: Names<WatchOptions> = { signal: true, interrupted: true };

/** One outcome of a batch: an answer, or why there is none. */
export type Result = { response: RecommendResponse; error?: undefined } | { response?: undefined; error: SetpointError };

type AnyMethod = DescMethodUnary<DescMessage, DescMessage>;

/** Methods of which a second attempt does no harm: they change nothing, have a request id, or are idempotent. */
const repeatable = new Set<AnyMethod>([
  RecommendationService.method.recommend, RecommendationService.method.batchRecommend, RecommendationService.method.reportScale,
  RecommendationService.method.reportObservation, RecommendationService.method.getRecommendation,
  TargetService.method.getTarget, TargetService.method.listTargets, TargetService.method.deleteTarget,
  TargetService.method.listDecisions, TargetService.method.getRecording, TargetService.method.getTargetSpec, TargetService.method.listTargetSpecs,
  FleetService.method.getFleet, OverrideService.method.listOverrides, OverrideService.method.deleteOverride,
]);

/** Methods that delete: after an attempt that failed NOT_FOUND says that it had deleted it. */
const deleting = new Set<AnyMethod>([TargetService.method.deleteTarget, OverrideService.method.deleteOverride]);

/**
 * Client calls a service. One is enough for a program.
 *
 * Calls are spread over all addresses. One that fails for a reason that may pass is tried again,
 * at another address where there is one, with the same request id: so it counts once, whatever
 * became of the first attempt.
 *
 * A caller holds the count on any error, waits for a period after it has applied and reported an
 * answer, and does not ask on the ticks of a clock (setInterval): the policies of a behavior count
 * what changed within their period, and a round a moment too early is held back by the last one.
 */
export class Client {
  private readonly timeoutMs: number;
  private readonly maxBatch: number;
  private readonly maxRequestBytes: number;
  private readonly retrier: Retrier;

  constructor(private readonly transport: Transport, options: ClientOptions = {}) {
    this.timeoutMs = options.timeoutMs ?? 10_000;
    this.maxBatch = options.maxBatch ?? 1000;
    this.maxRequestBytes = options.maxRequestBytes ?? 16 << 20;
    this.retrier = new Retrier(options.retry, transport.addresses, transport.closed);
    refuseNaN({ timeoutMs: this.timeoutMs });
    if (!(this.maxBatch >= 1) || !(this.maxRequestBytes >= 1)) {
      throw new RangeError("maxBatch and maxRequestBytes must be at least 1");
    }
  }

  /**
   * Asks for the replica count of one target. A request without requestId is sent with a random
   * one; the object given stays as it is. Call checkAnswer before the answer is applied.
   */
  async recommend(request: MessageInitShape<typeof RecommendRequestSchema>, options?: CallOptions): Promise<RecommendResponse> {
    return this.call(RecommendationService.method.recommend, identified(made(RecommendRequestSchema, request)), options);
  }

  /**
   * Asks for many targets. The results are as many as the requests and in their order; a bad
   * request fails alone. More than a service takes at once go in several calls, one after the
   * other: timeoutMs bounds all of them, the client's own each. Requests that failed for a reason
   * that may pass are sent again, together, unless a later one for their target was answered
   * meanwhile.
   */
  async batchRecommend(requests: readonly MessageInitShape<typeof RecommendRequestSchema>[], options: CallOptions = {}): Promise<Result[]> {
    const all: RecommendRequest[] = [], sizes: number[] = [];
    const refused: [number, Result][] = []; // those that are no requests
    for (const [i, request] of requests.entries()) {
      try {
        const one = identified(made(RecommendRequestSchema, request));
        sizes.push(this.transport.size(RecommendRequestSchema, one));
        all.push(one);
      } catch (error) {
        refused.push([i, { error: asError(error) }]);
      }
    }
    const results: Result[] = [];
    const shared = options.timeoutMs === undefined ? undefined : deadlineOf(options, 0);
    for (let first = 0; first < all.length;) {
      const n = this.fitting(sizes.slice(first, first + this.maxBatch));
      results.push(...await this.recommendAll(all.slice(first, first + n), shared ?? deadlineOf(options, this.timeoutMs)));
      first += n;
    }
    for (const [i, result] of refused) {
      results.splice(i, 0, result);
    }
    return results;
  }

  /** Tells what became of a recommendation that changed the count: outcome "APPLIED" or "FAILED". */
  async reportScale(request: MessageInitShape<typeof ReportScaleRequestSchema>, options?: CallOptions): Promise<ReportScaleResponse> {
    return this.call(RecommendationService.method.reportScale, made(ReportScaleRequestSchema, request), options);
  }

  /** Stores what was observed of a target with a stored spec, for those who poll. */
  async reportObservation(request: MessageInitShape<typeof ReportObservationRequestSchema>, options?: CallOptions): Promise<ReportObservationResponse> {
    return this.call(RecommendationService.method.reportObservation, made(ReportObservationRequestSchema, request), options);
  }

  /** Returns the recommendation for a target with a stored spec. */
  async getRecommendation(
    request: MessageInitShape<typeof RecommendationService.method.getRecommendation.input>, options?: CallOptions,
  ): Promise<Recommendation> {
    const { method } = RecommendationService;
    return present((await this.call(method.getRecommendation, made(method.getRecommendation.input, request), options)).recommendation);
  }

  /** Returns what is kept of a target. */
  async getTarget(name: string, options?: CallOptions): Promise<Target> {
    const { method } = TargetService;
    return present((await this.call(method.getTarget, made(method.getTarget.input, { name }), options)).target);
  }

  /**
   * Lists the targets of clusters/{cluster}/namespaces/{namespace}, "-" standing for all of
   * either, sorted by name and without their history. Pages are asked for as they are needed.
   */
  listTargets(parent: string, options?: CallOptions): AsyncGenerator<Target> {
    const { method } = TargetService;
    return pages((pageToken) => this.call(method.listTargets, made(method.listTargets.input, { parent, pageToken }), options), (page) => page.targets);
  }

  /** Lists the last decisions about a target, the newest first. */
  listDecisions(target: string, options?: CallOptions): AsyncGenerator<Decision> {
    const { method } = TargetService;
    return pages((pageToken) => this.call(method.listDecisions, made(method.listDecisions.input, { parent: target, pageToken }), options), (page) => page.decisions);
  }

  /**
   * Returns decisions as they are made, until the caller leaves the loop or the signal comes. A
   * response without a decision is a sign of life; missedDecisions and missedUncounted say that
   * decisions before it were missed.
   *
   * Unless the request has maxDecisions, the service is asked for several decisions in a response,
   * and each comes as a response of its own. Only the last of these has the token after all of
   * them; those before it have the token before all, so that nothing is lost by who begins there.
   * With a maxDecisions of 1 each decision has its own token; above 1 responses come as they are.
   *
   * When the stream breaks, the service stops, or it says nothing for 45 s, the watch goes on where
   * it was, at another address if there is one: nothing is lost and nothing comes twice, as far as
   * the service still holds what was between. Where a service does not take the token of another
   * one, the watch begins anew, and the first response has missedUncounted. It ends with the first
   * error that will not pass.
   */
  watchDecisions(request: MessageInitShape<typeof WatchDecisionsRequestSchema>, options: WatchOptions = {}): AsyncGenerator<WatchDecisionsResponse> {
    refuseUnknown(options, watchOptions);
    const { method } = TargetService;
    return new Watch(made(WatchDecisionsRequestSchema, request), (request, attempt) => this.transport.stream(method.watchDecisions, request, attempt), this.retrier, options, apart).run();
  }

  /**
   * Runs a spec, or several, against a load, and returns each evaluation as it is made, and the
   * figures of each spec after its last one. It ends when the caller leaves the loop.
   *
   * A simulation may take a minute: timeoutMs bounds all of it, and the client's own does not.
   * Until the first response it is tried again as other calls are. A stream that breaks later is
   * an error: what came would come again.
   */
  simulate(request: MessageInitShape<typeof SimulateRequestSchema>, options: CallOptions = {}): AsyncGenerator<SimulateResponse> {
    return this.simulated(made(SimulateRequestSchema, request), deadlineOf(options, 0));
  }

  private async *simulated(request: SimulateRequest, deadline: Deadline): AsyncGenerator<SimulateResponse> {
    const first = async (_: number, address: number) => {
      const { ending: one, close: forget } = ending(deadline.signal);
      const timer = after(deadline.leftMs(), () => one.abort());
      const close = () => {
        clearTimeout(timer);
        forget();
        one.abort();
      };
      try {
        const responses = this.transport.stream(SimulationService.method.simulate, request, { address, signal: one.signal })[Symbol.asyncIterator]();
        return { next: await responses.next(), responses, close };
      } catch (problem) {
        close();
        throw problem;
      }
    };
    try {
      let { next, responses, close } = await this.retrier.attempts(first, deadline, true);
      try {
        for (; !next.done; next = await responses.next()) {
          yield next.value;
        }
      } finally {
        close();
        await responses.return?.();
      }
    } catch (problem) {
      throw deadline.ended() ?? asError(problem);
    }
  }

  /**
   * Forgets a target, or only the incarnation that targetUid and clusterUid name. NOT_FOUND says
   * that there was none; it is taken for success when an earlier attempt of this call failed, for
   * that may have deleted it.
   */
  async deleteTarget(name: string, incarnation: { targetUid?: string; clusterUid?: string } = {}, options?: CallOptions): Promise<void> {
    const { method } = TargetService;
    await this.call(method.deleteTarget, made(method.deleteTarget.input, { name, ...incarnation }), options);
  }

  /** Stores a spec. It is sent once: of an error it is not known whether the spec was stored. */
  async setTargetSpec(name: string, targetSpec: MessageInitShape<typeof TargetService.method.setTargetSpec.input>["targetSpec"], options?: CallOptions): Promise<TargetSpec> {
    const { method } = TargetService;
    return present((await this.call(method.setTargetSpec, made(method.setTargetSpec.input, { name, ...(targetSpec && { targetSpec }) }), options)).targetSpec);
  }

  /** Returns the stored spec of a target. */
  async getTargetSpec(name: string, options?: CallOptions): Promise<TargetSpec> {
    const { method } = TargetService;
    return present((await this.call(method.getTargetSpec, made(method.getTargetSpec.input, { name }), options)).targetSpec);
  }

  /**
   * Lists the stored specs of clusters/{cluster}/namespaces/{namespace}, "-" standing for all of either, by the names of
   * their targets; with fleetsOnly those of fleets. Pages are asked for as they are needed.
   */
  listTargetSpecs(parent: string, fleetsOnly = false, options?: CallOptions): AsyncGenerator<TargetSpec> {
    const { method } = TargetService;
    return pages((pageToken) => this.call(method.listTargetSpecs, made(method.listTargetSpecs.input, { parent, fleetsOnly, pageToken }), options), (page) => page.targetSpecs);
  }

  /**
   * Deletes the stored spec of a target, with an etag only that version. It is sent once: of an error it is not known
   * whether the spec was deleted.
   */
  async deleteTargetSpec(name: string, etag = "", options?: CallOptions): Promise<void> {
    const { method } = TargetService;
    await this.call(method.deleteTargetSpec, made(method.deleteTargetSpec.input, { name, etag }), options);
  }

  /**
   * Makes a shadow of the stored spec with that etag the spec, which becomes the shadow of that name; with a condition,
   * such as "different < 2 % over 7 days", only if that held. It is sent once: of an error it is not known whether the
   * shadow was promoted. getTarget has how shadows differ, and getTargetSpec the etag.
   */
  async promoteShadow(name: string, shadow: string, etag: string, condition = "", options?: CallOptions): Promise<TargetSpec> {
    const { method } = TargetService;
    return present((await this.call(method.promoteShadow, made(method.promoteShadow.input, { name, shadow, etag, condition }), options)).targetSpec);
  }

  /** Returns the state of a fleet, which is a stored spec with members: its count, the shares, and what is known of each member. */
  async getFleet(name: string, options?: CallOptions): Promise<Fleet> {
    const { method } = FleetService;
    return present((await this.call(method.getFleet, made(method.getFleet.input, { name }), options)).fleet);
  }

  /**
   * Creates an override of a target, a namespace or a cluster, and returns it with its name. With an
   * overrideId, the last part of that, it is tried again as other calls are, as the service returns the
   * one that there is; without one it is sent once, for each attempt would create another one.
   */
  async createOverride(parent: string, override: MessageInitShape<typeof OverrideService.method.createOverride.input>["override"], overrideId = "", options: CallOptions = {}): Promise<Override> {
    const { method } = OverrideService;
    const request = made(method.createOverride.input, { parent, overrideId, ...(override && { override }) });
    return present((await this.answer(method.createOverride, request, deadlineOf(options, this.timeoutMs), overrideId !== "")).override);
  }

  /**
   * Lists the overrides of clusters/{cluster}, "-" standing for all clusters: those in force and those that
   * begin later. With resource only those that act on that target, namespace or cluster.
   */
  listOverrides(cluster: string, resource = "", options?: CallOptions): AsyncGenerator<Override> {
    const { method } = OverrideService;
    return pages((pageToken) => this.call(method.listOverrides, made(method.listOverrides.input, { parent: cluster, resource, pageToken }), options), (page) => page.overrides);
  }

  /**
   * Deletes an override: it ends at once. NOT_FOUND says that there was none; it is taken for success when
   * an earlier attempt of this call failed, for that may have deleted it.
   */
  async deleteOverride(name: string, options?: CallOptions): Promise<void> {
    const { method } = OverrideService;
    await this.call(method.deleteOverride, made(method.deleteOverride.input, { name }), options);
  }

  /** Closes all connections. Calls that are running fail. */
  close(): void {
    this.transport.close();
  }

  /**
   * Makes a call of any method of the service, with the retries that the method allows.
   */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    return this.answer(method, request, deadlineOf(options, this.timeoutMs));
  }

  private answer<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, deadline: Deadline, mayRepeat = repeatable.has(method as AnyMethod),
  ): Promise<MessageShape<O>> {
    return this.retrier.attempts(async (attempt, address) => {
      try {
        return await this.transport.unary(method, request, { address, timeoutMs: this.retrier.attemptMs(deadline, mayRepeat), signal: deadline.signal });
      } catch (problem) {
        if (attempt > 1 && deleting.has(method as AnyMethod) && asError(problem).code === "NOT_FOUND") {
          return create(method.output);
        }
        throw problem;
      }
    }, deadline, mayRepeat);
  }

  /** fitting returns how many requests of those sizes fit into one call, at least one. */
  private fitting(sizes: readonly number[]): number {
    const around = 8; // a request in a batch, at most
    let sum = 0;
    for (const [i, size] of sizes.entries()) {
      sum += size + around;
      if (i > 0 && sum > this.maxRequestBytes) {
        return i;
      }
    }
    return sizes.length;
  }

  private async recommendAll(requests: RecommendRequest[], deadline: Deadline): Promise<Result[]> {
    const results = new Array<Result>(requests.length);
    const told = requests.map(() => new Told());
    let left = requests.map((_, i) => i); // those to be sent, in order
    for (let attempt = 1; ; attempt++) {
      const answered = await this.recommendOnce(requests, results, left, deadline);
      for (const i of left) {
        const error = results[i]?.error;
        if (error) {
          results[i] = { error: told[i]!.by(error) };
        }
      }
      if (!answered) {
        return results;
      }
      let least = 0;
      [left, least] = this.unsettled(attempt, requests, results, deadline);
      if (left.length === 0 || !await this.retrier.wait(attempt, least, deadline)) {
        return results;
      }
    }
  }

  /** recommendOnce sends those requests, and reports whether they were answered. If not, the call was retried as such. */
  private async recommendOnce(requests: RecommendRequest[], results: Result[], send: number[], deadline: Deadline): Promise<boolean> {
    let answers: BatchRecommendResult[];
    try {
      const batch = made(BatchRecommendRequestSchema, { requests: send.map((i) => requests[i]!) });
      answers = (await this.answer(RecommendationService.method.batchRecommend, batch, deadline)).results;
      if (answers.length !== send.length) {
        throw new SetpointError("INTERNAL", `${answers.length} results came for ${send.length} requests`);
      }
    } catch (error) {
      for (const i of send) {
        results[i] = { error: error as SetpointError };
      }
      return false;
    }
    send.forEach((i, n) => {
      results[i] = resultOf(answers[n]!);
    });
    refuseShared(requests, results, send);
    for (const i of send) {
      const got = results[i]?.response?.requestId ?? "", want = requests[i]!.requestId;
      if (got !== "" && got !== want) {
        results[i] = { error: new SetpointError("INTERNAL", `the answer to request ${quoted(got)} came for request ${quoted(want)}`) };
      }
    }
    return true;
  }

  /** unsettled returns the requests to be sent again, in order, and how long to wait before that at least. */
  private unsettled(attempt: number, requests: RecommendRequest[], results: Result[], deadline: Deadline): [number[], number] {
    const answered = new Map<string, number>(); // the last answer of each target
    results.forEach((result, i) => {
      if (result.response) {
        answered.set(requests[i]!.target, i);
      }
    });
    const again: number[] = [];
    let least = 0;
    results.forEach((result, i) => {
      const last = answered.get(requests[i]!.target);
      if (!result.error || (last !== undefined && last > i) || deadline.ended()) {
        return;
      }
      const wait = this.retrier.mayRepeat(attempt, result.error);
      if (wait !== undefined) {
        again.push(i);
        least = Math.max(least, wait);
      }
    });
    return [again, least];
  }
}

/** pages returns the items of a list's pages, each asked for as it is needed. */
async function* pages<P extends { nextPageToken: string }, T>(ask: (pageToken: string) => Promise<P>, items: (page: P) => T[]): AsyncGenerator<T> {
  for (let pageToken = ""; ;) {
    const page = await ask(pageToken);
    yield* items(page);
    if ((pageToken = page.nextPageToken) === "") {
      return;
    }
  }
}

/** identified returns the request, or a copy with an id. A dry run records nothing and needs none. */
function identified(request: RecommendRequest): RecommendRequest {
  if (request.requestId !== "" || request.dryRun) {
    return request;
  }
  return copied(request, { requestId: newRequestId() }); // what lies deeper, pods for example, may be thousands
}

/** newRequestId returns a random UUID. It must be unique, and may be guessed. */
function newRequestId(): string {
  const bytes = new Uint8Array(16);
  // Node 18 has no global crypto.
  if (globalThis.crypto) {
    globalThis.crypto.getRandomValues(bytes);
  } else {
    bytes.forEach((_, i) => {
      bytes[i] = Math.floor(Math.random() * 256);
    });
  }
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

function resultOf(one: BatchRecommendResult): Result {
  switch (one.result.case) {
    case "response":
      return { response: one.result.value };
    case "error": {
      const { code, message, details } = one.result.value;
      return { error: fromStatus(code, message, details.map(unpacked)) };
    }
    default:
      return { error: new SetpointError("INTERNAL", "the service gave neither an answer nor an error") };
  }
}

/** refuseShared refuses recommendations that came for several targets: at most one of them is right, and nobody knows which. */
function refuseShared(requests: RecommendRequest[], results: Result[], sent: number[]): void {
  const first = new Map<string, string>(); // target by recommendation
  const shared = new Set<string>();
  for (const i of sent) {
    const id = results[i]?.response?.recommendationId ?? "";
    if (id === "") {
      continue;
    }
    const target = first.get(id);
    if (target === undefined) {
      first.set(id, requests[i]!.target);
    } else if (target !== requests[i]!.target) {
      shared.add(id);
    }
  }
  for (const i of sent) {
    const id = results[i]?.response?.recommendationId ?? "";
    if (shared.has(id)) {
      results[i] = { error: new SetpointError("INTERNAL", `recommendation ${quoted(id)} came for several targets`) };
    }
  }
}

/** quoted bounds what came from elsewhere. */
export function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}

function present<T>(value: T | undefined): T {
  if (value === undefined) {
    throw new SetpointError("INTERNAL", "the answer is empty");
  }
  return value;
}

function deadlineOf(options: CallOptions, timeoutMs: number): Deadline {
  refuseUnknown(options, callOptions);
  return new Deadline(options.timeoutMs ?? timeoutMs, options.signal);
}

/** apart returns a response for each decision. before is the token that is valid until the last of them. */
function* apart(response: WatchDecisionsResponse, before: string): Generator<WatchDecisionsResponse> {
  const last = response.decisions.length - 1;
  for (const [i, { target, decision }] of response.decisions.entries()) {
    yield create(WatchDecisionsResponseSchema, {
      target, ...(decision && { decision }), resumeToken: i === last ? response.resumeToken : before,
      ...(i === 0 && { missedDecisions: response.missedDecisions, missedUncounted: response.missedUncounted }),
    });
  }
}
