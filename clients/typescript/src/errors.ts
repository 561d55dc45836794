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
  /** The message without the code. */
  readonly problem: string;
  readonly reason: string | undefined;
  readonly violations: readonly Violation[];
  readonly retryDelayMs: number | undefined;

  constructor(code: Code, message: string, details: ErrorDetails = {}) {
    super(`${code}: ${message}`);
    this.name = "SetpointError";
    this.code = code;
    this.problem = message;
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

/** fromStatus makes an error of a google.rpc.Status, with the details that its JSON has, beside those found already. A detail that can't be read is left out. */
export function fromStatus(code: number, message: string, details: readonly unknown[], found: ErrorDetails = {}): SetpointError {
  for (const detail of details) {
    if (isObject(detail)) {
      readDetail(detail, found);
    }
  }
  return new SetpointError(codeOf(code), message, found);
}

function readDetail(detail: Record<string, unknown>, into: ErrorDetails): void {
  const { "@type": type, domain, reason, retryDelay, fieldViolations } = detail;
  switch (String(type).replace(/^.*\//, "")) {
    case "google.rpc.ErrorInfo":
      if (domain === errorDomain && typeof reason === "string") {
        into.reason = reason;
      }
      return;
    case "google.rpc.RetryInfo": {
      const seconds = /^(-?\d+(?:\.\d+)?)s$/.exec(String(retryDelay));
      if (seconds) {
        into.retryDelayMs = Math.max(0, Number(seconds[1]) * 1000);
      }
      return;
    }
    case "google.rpc.BadRequest":
      into.violations = (Array.isArray(fieldViolations) ? fieldViolations as unknown[] : []).filter(isObject)
        .map(({ field, description }) => ({ field: String(field ?? ""), description: String(description ?? "") }));
  }
}

/** isObject tells a JSON object from all else. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** invalid is the error of the service for what is wrong with a request. */
export function invalid(violations: Violation[]): SetpointError {
  const [first] = violations, more = violations.length > 1 ? ` (and ${violations.length - 1} more)` : "";
  const where = first!.field === "" ? "the request" : `${first!.field}:`;
  return new SetpointError("INVALID_ARGUMENT", `invalid request: ${where} ${first!.description}${more}`, { reason: "INVALID_REQUEST", violations: violations.slice(0, 100) });
}

/** bearer is the header of a token, which is waited for until the signal comes. */
export async function bearer(token: () => string | Promise<string>, signal: AbortSignal): Promise<string> {
  let value: string;
  signal.throwIfAborted();
  const gone = new Promise<never>((_, leave) => signal.addEventListener("abort", () => leave(signal.reason)));
  try {
    value = await Promise.race([new Promise<string>((come) => come(token())), gone]);
  } catch (error) {
    signal.throwIfAborted();
    throw new SetpointError("UNAUTHENTICATED", `bearer token: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== "string" || value === "") {
    throw new SetpointError("UNAUTHENTICATED", "bearer token: there is none");
  }
  if (!/^[ -~]*$/.test(value)) { // whoever finds it later quotes it
    throw new SetpointError("UNAUTHENTICATED", "bearer token: it has a line break, or another character that no header may have");
  }
  return `Bearer ${value}`;
}

/** closedError is what calls of a closed client fail with. */
export function closedError(): SetpointError {
  return new SetpointError("CANCELLED", "the client is closed");
}

/** failure is what an attempt failed with that ends with a signal, for its reason if that is an error of the call. */
export function failure(error: unknown, signal: AbortSignal, closed: AbortSignal): SetpointError {
  if (error instanceof SetpointError) {
    return error;
  }
  if (closed.aborted) {
    return closedError();
  }
  if (signal.aborted) {
    return signal.reason instanceof SetpointError ? signal.reason : new SetpointError("CANCELLED", "the caller gave up");
  }
  return new SetpointError("UNAVAILABLE", text(error));
}

export function text(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return error instanceof Error ? error.message + cause : String(error);
}

/** asError is what a call failed with, as an error of it. */
export function asError(problem: unknown): SetpointError {
  return problem instanceof SetpointError ? problem : new SetpointError("UNKNOWN", String(problem));
}
