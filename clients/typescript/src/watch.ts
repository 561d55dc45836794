import { closedError, SetpointError } from "./errors.js";
import { after, Deadline, ending, silent, Told } from "./retry.js";
import type { Retrier } from "./retry.js";

/** Settings of a watch. */
export interface WatchOptions {
  /** Ends the watch with CANCELLED. */
  signal?: AbortSignal;
  /** Is called with the error of each stream that ends and is followed by another. */
  interrupted?: (error: SetpointError) => void;
}

/** For how long a watch may hear nothing. An older service gives a sign of life every 15 s: two may be lost. */
const silenceMs = 45_000;

/** For how long a watch waits at most because it was told to. A call's own time bounds that; a watch has none, and must not be silent for days because of one wrong answer. */
const longestDelayMs = 5 * 60_000;

/** How many decisions a watch asks for in a response, the maximum: together they are far less work for the service than one by one. */
const together = 1000;

/** What a watch reads and writes of a WatchDecisionsRequest, as a message or as JSON. */
interface Request {
  resumeToken?: string;
  startTime?: unknown;
  maxDecisions?: number;
}

/** What it reads and writes of a response. */
interface Response {
  resumeToken?: string;
  missedUncounted?: boolean;
  decisions?: readonly unknown[];
}

/** Watch is one use of a client's watchDecisions. */
export class Watch<Q extends Request, R extends Response> {
  private readonly request: Q;
  /** There was a response, and the request has its token. */
  private begun = false;
  /** The next response begins anew. */
  private missed = false;
  /** Takes a response with several decisions apart, where the caller gets them one by one. */
  private readonly apart: ((response: R, before: string) => Iterable<R>) | undefined;

  constructor(
    request: Q, private readonly open: (request: Q, attempt: { address: number; signal: AbortSignal }) => AsyncIterable<R>,
    private readonly retrier: Retrier, private readonly options: WatchOptions, apart?: (response: R, before: string) => Iterable<R>,
  ) {
    this.request = copied(request, request.maxDecisions ? {} : { maxDecisions: together });
    this.apart = request.maxDecisions ? undefined : apart;
  }

  async *run(): AsyncGenerator<R> {
    const { maxDelayMs } = this.retrier.policy;
    const deadline = new Deadline(0, this.options.signal);
    let used = new Set<number>();
    let told = new Told(); // since the last response
    for (let failures = 0; ;) { // one after the other
      const address = this.retrier.pick(used);
      const began = performance.now();
      let answered = false;
      let error: SetpointError;
      try {
        for await (const response of this.stream(address)) {
          answered = true;
          yield response;
        }
        error = new SetpointError("UNAVAILABLE", "the server ended the stream");
      } catch (problem) {
        if (!(problem instanceof SetpointError)) {
          throw problem;
        }
        error = problem;
      }
      const over = deadline.ended();
      if (over) {
        throw over;
      }
      // A service that answers and breaks at once is not asked ever faster.
      if (answered) {
        used = new Set([address]);
        told = new Told();
        if (performance.now() - began > maxDelayMs) {
          failures = 0;
        }
      }
      failures++;
      error = told.by(error);
      const least = this.again(error, answered, failures);
      if (least === undefined) {
        throw error;
      }
      this.options.interrupted?.(error);
      // The budget is for calls: watches that come back must not take it from them.
      if (!await this.retrier.sleep(this.retrier.delayMs(failures, Math.min(least, longestDelayMs)), this.options.signal)) {
        throw deadline.ended() ?? closedError();
      }
    }
  }

  /** stream opens a stream and hands out what comes until it ends. */
  private async *stream(address: number): AsyncGenerator<R> {
    const { signal } = this.options;
    const { ending: one, close } = ending(signal);
    let tooLong = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const expect = (ms: number) => {
      timer = after(ms, () => {
        tooLong = true;
        one.abort();
      });
    };
    try {
      // A connection may take the request and be silent. A service that is well answers at once.
      const { attemptTimeoutMs } = this.retrier.policy;
      expect(attemptTimeoutMs > 0 ? attemptTimeoutMs : silenceMs);
      for await (const response of this.open(this.request, { address, signal: one.signal })) {
        clearTimeout(timer); // the caller may take its time
        this.begun = true;
        const before = this.request.resumeToken ?? "";
        this.request.resumeToken = response.resumeToken ?? "";
        if (this.missed) {
          response.missedUncounted = true;
          this.missed = false;
        }
        for (const each of this.apart && response.decisions?.length ? this.apart(response, before) : [response]) {
          if (signal?.aborted) { // its time may have run out meanwhile: the token counts, so the decisions do
            break; // the error comes next
          }
          yield each;
        }
        expect(silenceMs);
      }
    } catch (error) {
      if (tooLong) {
        throw new SetpointError("UNAVAILABLE", silent);
      }
      throw error;
    } finally {
      clearTimeout(timer);
      close();
      one.abort();
    }
  }

  /** again returns how long to wait at least before another stream; undefined: there is none. */
  private again(error: SetpointError, answered: boolean, failures: number): number | undefined {
    if (!this.begun) {
      return this.retrier.mayRepeat(failures, error);
    }
    if (error.code === "INVALID_ARGUMENT" && this.request.resumeToken && error.violations.some((v) => v.field === "resumeToken")) {
      // What was since the start of the watch would come twice.
      this.request.resumeToken = "";
      delete this.request.startTime;
      this.missed = true;
      return 0;
    }
    if (error.code === "UNAUTHENTICATED" && answered) {
      return 0; // the credentials may have been renewed
    }
    if (error.code === "RESOURCE_EXHAUSTED" && error.reason === "LIMIT_EXCEEDED") {
      // Instances have as many watchers as they may have, those of a killed one among them.
      return Math.max(error.retryDelayMs ?? 0, this.retrier.policy.maxDelayMs);
    }
    return this.retrier.mayRepeat(0, error);
  }
}

/** copied returns a shallow copy of a message with other values for some of its fields. */
export function copied<T extends object>(message: T, fields: object): T {
  return Object.assign(Object.create(Object.getPrototypeOf(message) as object) as T, message, fields);
}
