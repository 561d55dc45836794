// Decisions as they are made, as long as a view is open.

import { asError, type SetpointError, type WatchedDecisionJson } from "@setpoint-dev/client/json";
import { client } from "./client";

/** "polled": the service has no streams; lists are read again now and then. "refused": the caller may not read them. */
export type Link = "connecting" | "live" | "lost" | "polled" | "refused";

export interface Watcher {
  /** Decisions that came together, in order. */
  decisions(batch: readonly WatchedDecisionJson[]): void;
  /** The connection's state; why it was lost. */
  link(state: Link, error?: SetpointError): void;
  /** The service no longer knows the position: what was missed, if it is known how many, has to be read again. */
  missed(count: number): void;
}

const pollEvery = 15_000;
const longestWait = 30_000;
/** How long responses are handled in one go, ms; reading them takes about as long again. Together half a frame. */
const atOnce = 4;

const wait = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, signal.aborted ? 0 : ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });

/** Watches decisions until the signal. The client resumes lost streams; what it gives up is tried again later. */
export async function watch(parent: string, start: Date | undefined, watcher: Watcher, signal: AbortSignal): Promise<void> {
  watcher.link("connecting");
  let startTime = start?.toISOString();
  for (let tries = 0; !signal.aborted; tries++) {
    let polled = false;
    let worked = 0;
    try {
      for await (const m of client().watchDecisions({ parent, startTime }, { signal, interrupted: (e) => watcher.link("lost", e) })) {
        const began = performance.now();
        watcher.link("live");
        tries = 0;
        startTime = undefined;
        if (m.missedDecisions || m.missedUncounted) watcher.missed(m.missedDecisions || 1);
        if (m.decisions?.length) watcher.decisions(m.decisions);
        else if (m.decision) watcher.decisions([{ target: m.target, decision: m.decision }]);
        worked += performance.now() - began;
        if (worked > atOnce) {
          worked = 0;
          await wait(0, signal); // the browser draws, and answers clicks
        }
        if (signal.aborted) return;
      }
    } catch (e) {
      if (signal.aborted) return;
      const error = asError(e);
      // Who may not read, or has to sign in first, is not served by asking again.
      if (error.code === "PERMISSION_DENIED" || error.code === "UNAUTHENTICATED") return watcher.link("refused", error);
      polled = error.code === "UNIMPLEMENTED";
      watcher.link(polled ? "polled" : "lost", error);
    }
    await wait(polled ? pollEvery : Math.min(longestWait, 1000 * 2 ** tries), signal);
    if (!signal.aborted && (polled || !startTime)) watcher.missed(0);
  }
}
