// Error messages that say what to do.

import type { SetpointError } from "@setpoint-dev/client/json";
import { capital } from "../lib/format";

/** What follows from an error, for the user. */
export function advice(e: SetpointError): string {
  switch (e.code) {
    case "UNAVAILABLE":
    case "DEADLINE_EXCEEDED":
      if (e.reason) return "The page tries again by itself."; // the service answered
      return "Is the service running, and this machine online? The page tries again by itself.";
    case "UNAUTHENTICATED":
      return "Sign in again.";
    case "PERMISSION_DENIED":
      return "The service's policy file does not let you read this. Ask its maintainer for the verb «read».";
    case "NOT_FOUND":
      return "It may have been deleted, or never had a recommendation.";
    case "RESOURCE_EXHAUSTED":
      return "You, or others in your name, ask more often than the service allows. The page waits and tries again.";
    case "UNKNOWN":
    case "INTERNAL":
      return "The service's log says more; look there for the time of this error.";
  }
  return "";
}

/** Errors of programs have no capital and no full stop; a refusal may begin with a name, which is kept, and a page of a proxy is left out. */
export function spoken({ code, problem }: SetpointError): string {
  const text = problem.replace(/:?\s*<(!doctype|html)[^]*/i, "");
  return text && `${code === "PERMISSION_DENIED" ? text : capital(text)}${/[.!?…]$/.test(text) ? "" : "."}`;
}

export function Problem(props: { error: SetpointError; what: string; retry?: () => void }) {
  const { error } = props;
  return (
    <div class="problem" role="alert">
      <div>
        <strong>{props.what}</strong> {spoken(error)} <span class="muted">{advice(error)}</span>
      </div>
      {props.retry && (
        <button class="button" onClick={props.retry}>
          Try again
        </button>
      )}
    </div>
  );
}
