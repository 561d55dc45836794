// Error messages that say what to do.

import { ApiError } from "../api/client";

/** What follows from an error, for the user. */
export function advice(e: ApiError): string {
  switch (e.status) {
    case 0:
      return "Is the service running, and this machine online? The page tries again by itself.";
    case 401:
      return "Sign in again.";
    case 403:
      return "The service's policy file does not let you read this. Ask its maintainer for the verb «read».";
    case 404:
      return "It may have been deleted, or never had a recommendation.";
    case 429:
      return "You, or others in your name, ask more often than the service allows. The page waits and tries again.";
    case 503:
      return "The service or its store is not available just now. The page tries again by itself.";
  }
  return e.status >= 500 ? "The service's log says more; look there for the time of this error." : "";
}

export function Problem(props: { error: ApiError; what: string; retry?: () => void }) {
  const { error } = props;
  return (
    <div class="problem" role="alert">
      <div>
        <strong>{props.what}</strong> {error.message} <span class="muted">{advice(error)}</span>
      </div>
      {props.retry && (
        <button class="button" onClick={props.retry}>
          Try again
        </button>
      )}
    </div>
  );
}
