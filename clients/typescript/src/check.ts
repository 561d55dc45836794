import { create, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { quoted } from "./client.js";
import {
  HorizontalPodAutoscalerConditionSchema, HorizontalPodAutoscalerStatusSchema, MetricStatusSchema,
} from "./gen/setpoint/v1/autoscaling_pb.js";
import type { HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus } from "./gen/setpoint/v1/autoscaling_pb.js";
import { RecommendRequestSchema, ReportScaleRequestSchema } from "./gen/setpoint/v1/recommendation_service_pb.js";
import type {
  Event, RecommendRequest, RecommendResponse, ReportScaleResponse,
} from "./gen/setpoint/v1/recommendation_service_pb.js";
import { made } from "./made.js";

/** Bounds of what an answer says. Texts are in bytes. */
const maxConditions = 8, maxMetrics = 1000, maxWord = 1024, maxText = 32 << 10;
/** How far the instant of an answer may be from the caller's clock where Asked says nothing else. */
const maxClockSkewMs = 10 * 60_000;
/** How much the clocks of a service's instances may differ. */
const instancesDifferMs = 1000;

/** An answer that can't be one to what was asked. Hold the count: do not apply the answer, nor report it. */
export class AnswerError extends Error {
  /**
   * field is the path of the first field that is wrong, as in JSON; "": there is no answer.
   * anotherCaller: the answer to a report is genuine, but shows the counts of a later evaluation:
   * another caller asked about the target in between. The report was received; only its status is
   * of no use. checkAnswer never sets it.
   */
  constructor(readonly field: string, readonly problem: string, readonly anotherCaller = false) {
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
 * that were sent; desired ones are those, or from minReplicas to maxReplicas; it names no other
 * request; action is what the two say, and a change has a recommendation of its own; its instant
 * is near and not before that of the answer before; and there is a status that says the same,
 * within what a HorizontalPodAutoscaler may hold. A field that is lost on the way reads as zero:
 * so does a count. Call it before an answer is applied, reported, or written down.
 */
export function checkAnswer(asked: Asked, answer: RecommendResponse | undefined): asserts answer is RecommendResponse {
  if (!answer) {
    throw new AnswerError("", "there is no answer");
  }
  const c = new Checker(asked, answer);
  c.question();
  c.counts();
  c.action();
  c.instant();
  c.status();
  c.texts();
}

/**
 * Throws an AnswerError where the answer to a report can't be one: on the recommendation in that
 * answer. One with anotherCaller says that a second caller uses the target.
 */
export function checkReport(
  asked: Asked, answer: RecommendResponse, report: MessageInitShape<typeof ReportScaleRequestSchema>, response: ReportScaleResponse | undefined,
): asserts response is ReportScaleResponse {
  if (!response) {
    throw new AnswerError("", "there is no answer");
  }
  const sent = made(ReportScaleRequestSchema, report);
  if (response.recommendationId !== "" && response.recommendationId !== sent.recommendationId) {
    wrong("recommendationId", `${quoted(response.recommendationId)}, but ${quoted(sent.recommendationId)} was reported on: an answer to another report`);
  }
  const c = new Checker(asked, answer);
  const status = response.status;
  if (!status) {
    return wrong("status", "is missing");
  }
  c.form(status);
  c.says(response.events, response.error);
  const named = response.recommendationId !== "" && status.currentReplicas >= 0 && status.desiredReplicas >= 0;
  const kept = sent.outcome === "FAILED" && c.wasDesired(status.desiredReplicas);
  const counts: [string, number, number, boolean][] = [
    ["status.currentReplicas", status.currentReplicas, answer.currentReplicas, false],
    ["status.desiredReplicas", status.desiredReplicas, answer.desiredReplicas, kept],
  ];
  for (const [field, got, want, fits] of counts) {
    if (got === want || fits) {
      continue;
    }
    if (!named) {
      wrong(field, `${got}, but ${want} were reported on`);
    }
    throw new AnswerError(field, `${got}, but ${want} were reported on: another caller asked about this target since`, true);
  }
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
    return [this.request.spec?.minReplicas ?? 1, this.request.spec?.maxReplicas ?? 0];
  }

  question(): void {
    const got = this.answer.requestId ?? "", want = this.request.requestId;
    if (got !== "" && want !== "" && got !== want) {
      wrong("requestId", "that of another request");
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
    if (this.changes() && id === "" && !this.asked.unrecorded && !this.request.dryRun) {
      wrong("recommendationId", "is missing, although the count changes");
    }
    if (bytes(id) > maxWord) {
      wrong("recommendationId", `${bytes(id)} bytes long`);
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
    if (before && milliseconds(at) < milliseconds(before) - instancesDifferMs) {
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
    const hadConditions = this.request.previousStatus?.conditions.some((had) => had.type === "ScalingActive");
    if (status.conditions.length === 0 && hadConditions) {
      wrong("status.conditions", "there are none, but there were");
    }
    const generation = this.request.generation;
    if (status.observedGeneration !== undefined && generation !== undefined && error === "" && status.observedGeneration !== generation) {
      wrong("status.observedGeneration", `${status.observedGeneration}, but generation ${generation} was asked about`);
    }
    this.form(status);
  }

  /** wasDesired tells whether a count may be what an evaluation before came to. */
  wasDesired(n: number): boolean {
    const most = Math.max(this.bounds()[1], this.answer.currentReplicas, this.request.previousStatus?.desiredReplicas ?? 0,
      this.asked.previous?.status?.desiredReplicas ?? 0);
    return n >= 0 && n <= most;
  }

  /** form checks what a status holds besides counts. */
  form(status: HorizontalPodAutoscalerStatus): void {
    if (status.observedGeneration !== undefined && status.observedGeneration < 0n) {
      wrong("status.observedGeneration", "negative");
    }
    const had = this.request.previousStatus;
    const scaled = this.timeProblem(status.lastScaleTime, had?.lastScaleTime);
    if (scaled !== "") {
      wrong("status.lastScaleTime", scaled);
    }
    this.readings(status.currentMetrics);
    if (status.conditions.length > maxConditions) {
      wrong("status.conditions", `${status.conditions.length} of them`);
    }
    const seen = new Set<string>();
    status.conditions.forEach((condition, i) => {
      const before = had?.conditions.find((c) => c.type === condition.type);
      const problem = conditionProblem(condition, seen) || this.timeProblem(condition.lastTransitionTime, before?.lastTransitionTime);
      if (problem !== "") {
        wrong(`status.conditions[${i}]`, problem);
      }
    });
  }

  /** near is the instant that the answer is about. */
  near(): number {
    const chosen = this.request.evaluationTime;
    return chosen ? milliseconds(chosen) : this.asked.now ?? Date.now();
  }

  /** timeProblem says what is wrong with a time of the past: one to come, unless the caller's own status had it. */
  timeProblem(t: Timestamp | undefined, had: Timestamp | undefined): string {
    if (!t) {
      return "";
    }
    if (!isInstant(t)) {
      return "no instant";
    }
    const toCome = milliseconds(t) - this.near() > (this.asked.maxSkewMs ?? maxClockSkewMs);
    return toCome && !(had && t.seconds === had.seconds && t.nanos === had.nanos) ? "a time in the future" : "";
  }

  /** readings checks that current metrics are of the spec, or of the status before, which a failed evaluation keeps. */
  readings(readings: readonly MetricStatus[]): void {
    const { spec, previousStatus } = this.request;
    const metrics = spec?.metrics ?? [], previous = previousStatus?.currentMetrics ?? [];
    // A report that is sent again may have lost its spec.
    if (readings.length > (spec ? Math.max(metrics.length, previous.length, 1) : maxMetrics)) {
      wrong("status.currentMetrics", `${readings.length} of them, for ${metrics.length} metrics`);
    }
    const known = new Set([...metrics, ...previous].map(nameOfMetric)).add(nameOfMetric({ type: "" })); // the last could not be computed
    if (metrics.length === 0) {
      known.add(nameOfMetric({ type: "Resource", resource: { name: "cpu" } })); // the default
    }
    readings.forEach((metric, i) => {
      if (spec && !known.has(nameOfMetric(metric))) {
        wrong(`status.currentMetrics[${i}]`, `type ${quoted(metric.type)} is of a metric that was not asked for`);
      }
    });
  }

  texts(): void {
    if (!isText(this.answer.reason)) {
      wrong("reason", "no text, or too long");
    }
    this.says(this.answer.events, this.answer.error);
  }

  /** says checks events and an error. */
  says(events: readonly Event[], problem: string): void {
    if (!isText(problem)) {
      wrong("error", "no text, or too long");
    }
    // One a metric, and some about the whole.
    if (events.length > (this.request.spec?.metrics.length ?? 0) + 8) {
      wrong("events", `${events.length} of them`);
    }
    events.forEach((event, i) => {
      if ((event.type !== "Normal" && event.type !== "Warning") || !isWord(event.reason) || !isText(event.message)) {
        wrong(`events[${i}]`, `type ${quoted(event.type)}, reason ${quoted(event.reason)} and ${bytes(event.message)} bytes of message are none of an event's`);
      }
    });
  }
}

/** conditionProblem says what is wrong with a condition; seen are the types before it. */
function conditionProblem(c: HorizontalPodAutoscalerCondition, seen: Set<string>): string {
  if (!["AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"].includes(c.type)) {
    return `type ${quoted(c.type)} is not one of a HorizontalPodAutoscaler's`;
  }
  if (seen.has(c.type)) {
    return `type ${c.type} was there before`;
  }
  seen.add(c.type);
  if (!["True", "False", "Unknown"].includes(c.status)) {
    return `status ${quoted(c.status)} is not one of a condition's`;
  }
  if (!isWord(c.reason)) {
    return `reason ${quoted(c.reason)} is not one word`;
  }
  if (!isText(c.message)) {
    return "message is not valid text, or too long";
  }
  return "";
}

/** What identifies a metric of a spec or a status. */
interface NamedMetric {
  type: string;
  resource?: { name: string } | undefined;
  containerResource?: { name: string; container: string } | undefined;
  object?: { metric?: { name: string } | undefined } | undefined;
  pods?: { metric?: { name: string } | undefined } | undefined;
  external?: { metric?: { name: string } | undefined } | undefined;
}

function nameOfMetric({ type, resource, containerResource, object, pods, external }: NamedMetric): string {
  const container = containerResource ? containerResource.container + containerResource.name : "";
  return JSON.stringify([type, resource?.name ?? "", container, (object?.metric?.name ?? "") + (pods?.metric?.name ?? ""), external?.metric?.name ?? ""]);
}

/** word is what a reason is, as the Kubernetes API has it. */
const word = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;

function bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

function isWord(text: string): boolean {
  return bytes(text) <= maxWord && word.test(text);
}

/** isText tells whether a text can be shown: it may have lines, and nothing that moves a cursor or colors a terminal. */
function isText(text: string): boolean {
  return bytes(text) <= maxText && !/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/.test(text);
}

/** isInstant tells whether a time is one: from the year 1 to 9999. */
function isInstant(t: Timestamp): boolean {
  return t.seconds >= -62135596800n && t.seconds <= 253402300799n && t.nanos >= 0 && t.nanos < 1e9;
}

function milliseconds(t: Timestamp): number {
  return Number(t.seconds) * 1000 + t.nanos / 1e6;
}

/**
 * Returns of an autoscaler's stored status what a first evaluation needs, as previousStatus of a
 * request. Whoever may write a status can write anything into it: what no evaluation would write
 * is left out, and texts are clipped, so that it can neither have requests refused nor come back
 * in an answer that checkAnswer refuses. The status given stays as it is.
 */
export function seed(status: HorizontalPodAutoscalerStatus): HorizontalPodAutoscalerStatus {
  const kept = create(HorizontalPodAutoscalerStatusSchema, {
    currentReplicas: Math.max(0, status.currentReplicas),
    desiredReplicas: Math.max(0, status.desiredReplicas),
  });
  if (status.observedGeneration !== undefined && status.observedGeneration >= 0n) {
    kept.observedGeneration = status.observedGeneration;
  }
  if (status.lastScaleTime && isInstant(status.lastScaleTime)) {
    kept.lastScaleTime = status.lastScaleTime;
  }
  if (status.currentMetrics.length <= 100) {
    const size = status.currentMetrics.reduce((sum, metric) => sum + toBinary(MetricStatusSchema, metric).length, 0);
    if (size <= 16 << 10) {
      kept.currentMetrics = status.currentMetrics;
    }
  }
  const seen = new Set<string>();
  for (const { type, status: state, reason, message, lastTransitionTime } of status.conditions) {
    const clipped = create(HorizontalPodAutoscalerConditionSchema, { type, status: state, reason, message: clip(message) });
    if (lastTransitionTime && isInstant(lastTransitionTime)) {
      clipped.lastTransitionTime = lastTransitionTime;
    }
    if (conditionProblem(clipped, seen) === "") {
      kept.conditions.push(clipped);
    }
  }
  return kept;
}

/** clip bounds a text, between two characters. */
function clip(text: string): string {
  const encoded = new TextEncoder().encode(text);
  if (encoded.length <= maxText) {
    return text;
  }
  let end = maxText;
  while (end > 0 && (encoded[end]! & 0xc0) === 0x80) {
    end--;
  }
  return new TextDecoder().decode(encoded.subarray(0, end));
}
