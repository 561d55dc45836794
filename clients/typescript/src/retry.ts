import { asError, SetpointError } from "./errors.js";
import { refuseNaN, refuseUnknown } from "./options.js";

/**
 * When a call is tried again.
 *
 * Tried again are UNAVAILABLE, ABORTED, a call that a proxy cut off, an attempt that ran out of its own time, and
 * RESOURCE_EXHAUSTED where the service says when to come back. The delay before attempt n+1 is
 * random between 0 and min(maxDelayMs, baseDelayMs·2ⁿ⁻¹); where the service says when to come
 * back, that much later. A delay that would outlast the call is not waited for.
 */
export interface Retry {
  /** The attempts of a call at most, the first included; 1: nothing is tried again. Default: 4. */
  maxAttempts: number;
  /** The longest delay before the second attempt. Default: 100. */
  baseDelayMs: number;
  /** The longest delay at all, before what the service asks for. Default: 2000. */
  maxDelayMs: number;
  /** The time of each attempt; 0: unbounded. Default: 4000. */
  attemptTimeoutMs: number;
  /**
   * How many attempts beyond the first ones the client may make at once, over all calls; each
   * call adds budgetRatio of one, up to the reserve. So a service in trouble gets no multiple of
   * its load. Defaults: 100 and 0.2.
   */
  budgetReserve: number;
  budgetRatio: number;
}

export const defaultRetry: Readonly<Retry> = {
  maxAttempts: 4, baseDelayMs: 100, maxDelayMs: 2000, attemptTimeoutMs: 4000, budgetReserve: 100, budgetRatio: 0.2,
};

/** Settings of one call. */
export interface CallOptions {
  /** The time of this call instead of the client's. */
  timeoutMs?: number;
  /** Ends the call with CANCELLED. */
  signal?: AbortSignal;
}

/** What a stream fails with on which nothing comes in time. */
export const silent = "the server gave no sign of life in time on a watch";

/** Told is what the attempts of a call, of a request in a batch, or of a watch were told. */
export class Told {
  /** The error of the last one that did not run out of time. */
  private before: SetpointError | undefined;

  /** by notes the error of an attempt, and returns it as the call's: of an attempt that ran out of time also what an earlier one was told. */
  by(error: SetpointError): SetpointError {
    if (error.code !== "DEADLINE_EXCEEDED" && error.problem !== silent) {
      this.before = error;
    } else if (this.before) {
      const { reason, violations, retryDelayMs } = error;
      return new SetpointError(error.code, `${error.problem}; an earlier attempt: ${this.before.problem}`, {
        violations: [...violations], ...(reason !== undefined && { reason }), ...(retryDelayMs !== undefined && { retryDelayMs }),
      });
    }
    return error;
  }
}

/** The longest time of a timer, which fires at once beyond it: 24 days. */
const longestTimerMs = 2 ** 31 - 1;

/** after calls something when so much time is over, and not before: timers leave fractions out. Infinity: never. */
export function after(ms: number, over: () => void): ReturnType<typeof setTimeout> | undefined {
  return ms === Infinity ? undefined : setTimeout(over, Math.min(Math.ceil(ms) + 1, longestTimerMs));
}

/** What ends with a signal, which has one listener for all of it: of more than ten Node.js warns as of a leak. */
const endings = new WeakMap<AbortSignal, Set<AbortController>>();

function endingsOf(signal: AbortSignal): Set<AbortController> {
  let all = endings.get(signal);
  if (!all) {
    const made = all = new Set<AbortController>();
    endings.set(signal, made);
    signal.addEventListener("abort", () => made.forEach((one) => one.abort()), { once: true });
  }
  return all;
}

/** ending ends with the first of some signals; close forgets them. */
export function ending(...signals: (AbortSignal | undefined)[]): { ending: AbortController; close: () => void } {
  const ending = new AbortController();
  const among = signals.filter((one) => one !== undefined).map(endingsOf);
  among.forEach((all) => all.add(ending));
  if (signals.some((one) => one?.aborted)) {
    ending.abort();
  }
  return { ending, close: () => among.forEach((all) => all.delete(ending)) };
}

/**
 * cutOff matches gRPC's words for a call that ended without an answer, as proxies end those of an instance that is gone: its
 * code then is by the number of the reset, or none.
 */
const cutOff = /RST_STREAM|Stream removed/;

/** Retrier makes the attempts of calls, spread over all addresses. */
export class Retrier {
  readonly policy: Retry;
  private tokens: number;
  private next = Math.floor(Math.random() * 1024);

  /** closed ends delays. */
  constructor(policy: Partial<Retry> = {}, private readonly addresses: number, private readonly closed?: AbortSignal) {
    refuseUnknown(policy, defaultRetry);
    const given = Object.entries(policy).filter(([, value]) => value !== undefined);
    this.policy = { ...defaultRetry, ...Object.fromEntries(given) };
    refuseNaN(this.policy);
    this.tokens = this.policy.budgetReserve;
  }

  /**
   * attempts returns what the first attempt made that did not fail: made is called with the number
   * of the attempt, counted from 1, and its address.
   */
  async attempts<T>(made: (attempt: number, address: number) => Promise<T>, deadline: Deadline, mayRepeat: boolean): Promise<T> {
    const used = new Set<number>();
    const told = new Told();
    this.tokens = Math.min(this.tokens + this.policy.budgetRatio, this.policy.budgetReserve);
    for (let attempt = 1; ; attempt++) {
      const over = deadline.ended();
      if (over) {
        throw told.by(over);
      }
      try {
        return await made(attempt, this.pick(used));
      } catch (problem) {
        const error = told.by(asError(problem));
        const least = mayRepeat && !deadline.ended() ? this.mayRepeat(attempt, error) : undefined;
        if (least === undefined || !await this.wait(attempt, least, deadline)) {
          throw error;
        }
      }
    }
  }

  /** attemptMs is the time of an attempt. */
  attemptMs(deadline: Deadline, mayRepeat: boolean): number {
    const { attemptTimeoutMs } = this.policy;
    return mayRepeat && attemptTimeoutMs > 0 ? Math.min(attemptTimeoutMs, deadline.leftMs()) : deadline.leftMs();
  }

  /** pick returns the next address that the call has not used, the next one if it has used all. */
  pick(used: Set<number>): number {
    let address = this.next++ % this.addresses;
    for (let i = 1; i < this.addresses && used.has(address); i++) {
      address = (address + 1) % this.addresses;
    }
    used.add(address);
    return address;
  }

  /** mayRepeat returns how long to wait at least for another attempt; undefined: there is none. */
  mayRepeat(attempt: number, error: SetpointError): number | undefined {
    if (attempt >= this.policy.maxAttempts) {
      return undefined;
    }
    switch (error.code) {
      case "UNAVAILABLE":
      case "ABORTED":
      case "DEADLINE_EXCEEDED":
        return error.retryDelayMs ?? 0;
      case "RESOURCE_EXHAUSTED":
        return error.retryDelayMs;
      case "CANCELLED":
      case "UNKNOWN":
      case "INTERNAL":
        return error.reason === undefined && cutOff.test(error.problem) ? 0 : undefined;
      default:
        return undefined;
    }
  }

  /** wait waits for the attempt after the one given, if there is time and budget. */
  async wait(attempt: number, leastMs: number, deadline: Deadline): Promise<boolean> {
    const delay = this.delayMs(attempt, leastMs);
    if (deadline.leftMs() <= delay || this.tokens < 1) {
      return false;
    }
    this.tokens--;
    return this.sleep(delay, deadline.signal);
  }

  /** delayMs is a random delay after that attempt, and at least so long. */
  delayMs(attempt: number, leastMs: number): number {
    return leastMs + Math.random() * Math.min(this.policy.baseDelayMs * 2 ** (attempt - 1), this.policy.maxDelayMs);
  }

  /** sleep reports whether the caller is still there afterwards. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    const { ending: { signal: gone }, close } = ending(signal, this.closed);
    return new Promise<boolean>((resolve) => {
      const timer = after(ms, () => resolve(true));
      const leave = () => {
        clearTimeout(timer);
        resolve(false);
      };
      gone.addEventListener("abort", leave);
      if (gone.aborted) {
        leave();
      }
    }).finally(close);
  }
}

/** Deadline is that of a call, all attempts together, and its caller's signal. */
export class Deadline {
  private readonly end: number;

  constructor(timeoutMs: number, readonly signal: AbortSignal | undefined) {
    refuseNaN({ timeoutMs });
    this.end = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
  }

  leftMs(): number {
    return this.end - performance.now();
  }

  /** ended returns why nothing may be tried any more. */
  ended(): SetpointError | undefined {
    if (this.signal?.aborted) {
      return new SetpointError("CANCELLED", "the caller gave up");
    }
    return this.leftMs() > 0 ? undefined : new SetpointError("DEADLINE_EXCEEDED", "the call took too long");
  }
}
