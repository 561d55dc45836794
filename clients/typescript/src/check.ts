import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { quoted } from "./client.js";
import { RecommendRequestSchema } from "./gen/setpoint/v1/recommendation_service_pb.js";
import type { RecommendRequest, RecommendResponse } from "./gen/setpoint/v1/recommendation_service_pb.js";
import { made } from "./made.js";

/** How far the instant of an answer may be from the caller's clock where Asked says nothing else. */
const maxClockSkewMs = 10 * 60_000;
/** How much the clocks of a service's instances may differ. */
const instancesDifferMs = 1000;
/** Bounds of what stages and overrides changed; texts in bytes. */
const maxAdjustments = 32, maxAdjustmentText = 256, maxWord = 1024;

/** An answer that can't be one to what was asked. Hold the count: do not apply the answer, nor report it. */
export class AnswerError extends Error {
  /** field is the path of the first field that is wrong, as in JSON; "": there is no answer. */
  constructor(readonly field: string, readonly problem: string) {
    super(field === "" ? problem : `${field}: ${problem}`);
    this.name = "AnswerError";
  }
}

/** What an answer is held against. */
export interface Asked {
  /** What was sent. */
  request: MessageInitShape<typeof RecommendRequestSchema>;
  /** The caller's clock, in milliseconds since 1970. Default: the system's. */
  now?: number;
  /** How far the answer's instant may be from now, or from the request's evaluationTime, in milliseconds. Default: ten minutes. */
  maxSkewMs?: number;
  /** The last answer for this target that was taken. */
  previous?: RecommendResponse;
  /** Nothing will be applied, so that the answer of a caller who may only have dry runs will do. */
  unrecorded?: boolean;
}

/**
 * Throws an AnswerError where the answer can't be one to the request: current replicas are those
 * that were sent; desired ones are those, or from minReplicas to maxReplicas, and so is the count
 * without stages; a member of a fleet gets a share, or none if it is drained, and nobody else does; there are at most 32 adjustments with short texts; it names no other request; action is what the two say, and a change has a recommendation of its own; its instant
 * is near, and not before that of the answer before unless it names the request; and there is a status with the same counts.
 * A field that is lost on the way reads as zero: so does a count. Call it before an answer is
 * applied or reported. The Go client also checks what else a status may hold, for who stores it.
 */
export function checkAnswer(asked: Asked, answer: RecommendResponse | undefined): asserts answer is RecommendResponse {
  if (!answer) {
    throw new AnswerError("", "there is no answer");
  }
  const c = new Checker(asked, answer);
  c.question();
  c.fleet();
  c.counts();
  c.adjustments();
  c.action();
  c.instant();
  c.status();
}

function wrong(field: string, problem: string): never {
  throw new AnswerError(field, problem);
}

class Checker {
  private readonly request: RecommendRequest;

  constructor(private readonly asked: Asked, private readonly answer: RecommendResponse) {
    if (asked?.request === undefined) {
      throw new TypeError("setpoint: the first argument must be what was asked, { request }");
    }
    this.request = made(RecommendRequestSchema, asked.request);
  }

  private bounds(): [number, number] {
    return [this.answer.fleet?.drained ? 0 : this.request.spec?.minReplicas ?? 1, this.request.spec?.maxReplicas ?? 0];
  }

  question(): void {
    const got = this.answer.requestId ?? "", want = this.request.requestId;
    if (got !== "" && want !== "" && got !== want) {
      wrong("requestId", "that of another request");
    }
  }

  /** fleet checks that a member's answer is its share: a service that knows no fleets decides for it alone. */
  fleet(): void {
    const member = this.request.fleet !== "", { fleet } = this.answer;
    if (member && !fleet) {
      wrong("fleet", "is missing, although the target is a member of one: it was decided alone, perhaps by a service that does not know fleets");
    }
    if (!member && fleet) {
      wrong("fleet", "there is one, although none was asked about");
    }
    if (fleet?.holds && this.changes()) {
      wrong("fleet.holds", "true, but the count changes");
    }
  }

  counts(): void {
    const { currentReplicas: current, desiredReplicas: desired } = this.answer;
    const { scale } = this.request;
    if (!scale || this.request.scaleError) {
      // Nobody knows the current count: it is the last one that the service knew.
      if (current < 0 || desired !== current) {
        wrong("desiredReplicas", `${desired} of ${current}, although the scale could not be read`);
      }
      return;
    }
    if (current !== scale.specReplicas && !this.observed()) {
      wrong("currentReplicas", `${current}, but ${scale.specReplicas} were sent`);
    }
    const [least, most] = this.bounds();
    if (desired !== current && (desired < least || desired > most)) {
      wrong("desiredReplicas", `${desired}, neither from ${least} to ${most} nor the current ${current}`);
    }
  }

  /** adjustments checks what stages and overrides changed, and the count without them. */
  adjustments(): void {
    const { plainDesiredReplicas: plain, currentReplicas: current, adjustments } = this.answer;
    const [least, most] = this.bounds();
    const known = this.request.scale && !this.request.scaleError && !this.answer.fleet;
    if (plain !== undefined && (plain < 0 || (known && plain !== current && (plain < least || plain > most)))) {
      wrong("plainDesiredReplicas", `${plain}, neither from ${least} to ${most} nor the current ${current}`);
    }
    if (adjustments.length > maxAdjustments) {
      wrong("adjustments", `${adjustments.length} of them`);
    }
    adjustments.forEach((a, i) => {
      const long = [a.stage, a.message].some((text) => bytes(text) > maxAdjustmentText) || [a.rule, a.metric].some((text) => bytes(text) > maxWord);
      if (a.stage === "" || long) {
        wrong(`adjustments[${i}]`, "no stage, or texts that are too long");
      }
      if ((a.before ?? 0) < 0 || (a.after ?? 0) < 0) {
        wrong(`adjustments[${i}]`, `from ${a.before ?? 0} to ${a.after ?? 0} replicas`);
      }
    });
  }

  /** observed tells whether the answer may go by the replicas that are observed, as two old versions of the controller do. */
  private observed(): boolean {
    const { scale } = this.request;
    if (scale?.statusReplicas === undefined || this.answer.currentReplicas !== scale.statusReplicas) {
      return false;
    }
    switch (this.request.options?.profile ?? "") {
      case "cooldown":
      case "design-2015":
        return true;
      case "":
        return !this.changes();
      default:
        return false;
    }
  }

  private changes(): boolean {
    return this.answer.desiredReplicas !== this.answer.currentReplicas;
  }

  action(): void {
    const { currentReplicas: current, desiredReplicas: desired, action, recommendationId: id } = this.answer;
    const want = desired > current ? "SCALE_UP" : desired < current ? "SCALE_DOWN" : "NONE";
    if (action !== want) {
      wrong("action", `${quoted(action)}, but the counts say ${quoted(want)}`);
    }
    if (this.changes() && id === "" && !this.asked.unrecorded && !this.request.dryRun && !this.answer.fleet) {
      wrong("recommendationId", "is missing, although the count changes");
    }
    if (id !== "" && id === this.asked.previous?.recommendationId) {
      wrong("recommendationId", "that of the answer before");
    }
  }

  instant(): void {
    const field = "evaluationTime";
    const at = this.answer.evaluationTime;
    if (!at) {
      return wrong(field, "is missing");
    }
    if (!isInstant(at)) {
      wrong(field, "no instant");
    }
    const near = this.near();
    const limit = this.asked.maxSkewMs ?? maxClockSkewMs;
    if (Math.abs(milliseconds(at) - near) > limit) {
      wrong(field, `more than ${limit / 1000} s from now: an old answer, or a clock is wrong`);
    }
    const before = this.asked.previous?.evaluationTime;
    // An answer that names the request is none of before: the service's clock was set back.
    const named = (this.answer.requestId ?? "") !== "" && this.answer.requestId === this.request.requestId;
    if (before && !named && milliseconds(at) < milliseconds(before) - instancesDifferMs) {
      wrong(field, "before that of the answer before");
    }
  }

  status(): void {
    const { status, currentReplicas, desiredReplicas, error } = this.answer;
    if (!status) {
      return wrong("status", "is missing");
    }
    if (status.currentReplicas !== currentReplicas) {
      wrong("status.currentReplicas", `${status.currentReplicas}, but currentReplicas is ${currentReplicas}`);
    }
    // What came to no count keeps the one of before, and says why it came to none.
    const kept = !this.changes() && error !== "" && this.wasDesired(status.desiredReplicas);
    if (status.desiredReplicas !== desiredReplicas && !kept) {
      wrong("status.desiredReplicas", `${status.desiredReplicas}, but desiredReplicas is ${desiredReplicas}`);
    }
  }

  /** wasDesired tells whether a count may be what an evaluation before came to. */
  wasDesired(n: number): boolean {
    const most = Math.max(this.bounds()[1], this.answer.currentReplicas, this.request.previousStatus?.desiredReplicas ?? 0,
      this.asked.previous?.status?.desiredReplicas ?? 0);
    return n >= 0 && n <= most;
  }

  /** near is the instant that the answer is about. */
  near(): number {
    const chosen = this.request.evaluationTime;
    return chosen ? milliseconds(chosen) : this.asked.now ?? Date.now();
  }
}

/** isInstant tells whether a time is one: from the year 1 to 9999. */
function isInstant(t: Timestamp): boolean {
  return t.seconds >= -62135596800n && t.seconds <= 253402300799n && t.nanos >= 0 && t.nanos < 1e9;
}

const bytes = (text: string): number => new TextEncoder().encode(text).length;

function milliseconds(t: Timestamp): number {
  return Number(t.seconds) * 1000 + t.nanos / 1e6;
}
