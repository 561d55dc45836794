import { fromBinary, fromJson } from "@bufbuild/protobuf";
import type { JsonValue } from "@bufbuild/protobuf";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import type { BadRequest, ErrorInfo, RetryInfo } from "./gen/google/rpc/error_details_pb.js";

/** The names of gRPC's status codes, by number. */
export const codes = [
  "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
  "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
] as const;

/** A gRPC status code, by name. */
export type Code = (typeof codes)[number];

/** One thing that is wrong with a request. */
export interface Violation {
  /** The path of the field as in JSON, for example "spec.maxReplicas". */
  field: string;
  /** What is wrong, in the words of the Kubernetes API server. */
  description: string;
}

/** What SetpointError holds besides its message. */
export interface ErrorDetails {
  /** Which error of its code it is, for example "TARGET_CONTENDED"; absent: the service did not say. */
  reason?: string;
  /** What is wrong with the request. Of very many there are only the first. */
  violations?: Violation[];
  /** How long the service asks to wait before a retry, in milliseconds; absent: it does not say. */
  retryDelayMs?: number;
}

/** A call that failed: the caller holds the count. What could be retried was. */
export class SetpointError extends Error {
  readonly code: Code;
  readonly reason: string | undefined;
  readonly violations: readonly Violation[];
  readonly retryDelayMs: number | undefined;

  constructor(code: Code, message: string, details: ErrorDetails = {}) {
    super(`${code}: ${message}`);
    this.name = "SetpointError";
    this.code = code;
    this.reason = details.reason;
    this.violations = details.violations ?? [];
    this.retryDelayMs = details.retryDelayMs;
  }
}

/** The domain of the service's own ErrorInfo. */
const errorDomain = "setpoint.dev";

/** codeOf returns the name of a number, UNKNOWN of one that gRPC does not have. */
export function codeOf(number: number): Code {
  return codes[number] ?? "UNKNOWN";
}

/** A detail of a google.rpc.Status, as bytes or as JSON. */
export type Detail = { typeUrl: string; value: Uint8Array } | { typeUrl: string; json: JsonValue };

/** fromStatus makes an error of a google.rpc.Status. A detail that can't be read is left out. */
export function fromStatus(code: number, message: string, details: readonly Detail[]): SetpointError {
  const found: ErrorDetails = {};
  for (const detail of details) {
    try {
      readDetail(detail, found);
    } catch {
      // The code alone must do.
    }
  }
  return new SetpointError(codeOf(code), message, found);
}

function readDetail(detail: Detail, into: ErrorDetails): void {
  switch (detail.typeUrl.slice(detail.typeUrl.lastIndexOf("/") + 1)) {
    case "google.rpc.ErrorInfo": {
      const info: ErrorInfo = "json" in detail ? fromJson(ErrorInfoSchema, detail.json, known) : fromBinary(ErrorInfoSchema, detail.value);
      if (info.domain === errorDomain) {
        into.reason = info.reason;
      }
      return;
    }
    case "google.rpc.RetryInfo": {
      const info: RetryInfo = "json" in detail ? fromJson(RetryInfoSchema, detail.json, known) : fromBinary(RetryInfoSchema, detail.value);
      if (info.retryDelay) {
        into.retryDelayMs = Math.max(0, Number(info.retryDelay.seconds) * 1000 + info.retryDelay.nanos / 1e6);
      }
      return;
    }
    case "google.rpc.BadRequest": {
      const bad: BadRequest = "json" in detail ? fromJson(BadRequestSchema, detail.json, known) : fromBinary(BadRequestSchema, detail.value);
      into.violations = bad.fieldViolations.map(({ field, description }) => ({ field, description }));
    }
  }
}

const known = { ignoreUnknownFields: true };
