// Decisions as they are made, across reconnections.

import { ApiError, stream } from "./client";
import type { WatchMessage } from "./types";

/** "polled": the service has no streams; lists are read again now and then. */
export type Link = "connecting" | "live" | "lost" | "polled";

export interface Watcher {
  /** What came, in order, with one decision at most in each. */
  messages(batch: WatchMessage[]): void;
  /** The connection's state; why it was lost. */
  link(state: Link, error?: ApiError): void;
  /** The service no longer knows the position: what was missed has to be read again. */
  missed(count: number): void;
}

const firstWait = 500;
const longestWait = 30_000;
const pollEvery = 15_000;
/** The service sends heartbeats; silence longer than this is a dead connection. */
const silence = 60_000;

/** How many decisions a message may have: together they are far less work for the service. */
const together = 1000;

/** How long to wait before the try of that number, from 0: doubled, with jitter. */
export function backoff(tries: number, random: () => number = Math.random): number {
  const wait = Math.min(longestWait, firstWait * 2 ** Math.min(tries, 16));
  return wait / 2 + (wait / 2) * random();
}

/** The path of a watch from a position, or from an instant. */
export function watchPath(parent: string, resumeToken: string, start: Date | undefined): string {
  const query = new URLSearchParams({ maxDecisions: String(together) });
  if (resumeToken) query.set("resumeToken", resumeToken);
  else if (start) query.set("startTime", start.toISOString());
  return `/v1/${parent}/decisions:watch?${query}`;
}

/** Messages with one decision at most in each, of such with several. */
export function apart(batch: WatchMessage[]): WatchMessage[] {
  return batch.flatMap((m) => (m.decisions?.length ? m.decisions : [m]));
}

/** Watches decisions until the signal; resumes after losses. */
export async function watch(parent: string, start: Date | undefined, watcher: Watcher, signal: AbortSignal): Promise<void> {
  let position = "";
  let tries = 0;
  let polled = false;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    let alive = setTimeout(stop, silence);
    let error: ApiError | undefined;
    if (!polled) watcher.link("connecting");
    try {
      await stream<WatchMessage>("GET", watchPath(parent, position, start), undefined, attempt.signal, (batch) => {
        clearTimeout(alive);
        alive = setTimeout(stop, silence);
        watcher.link("live");
        polled = false;
        tries = 0;
        let missed = 0;
        for (const m of batch) {
          if (m.resumeToken) position = m.resumeToken;
          missed += Number(m.missedDecisions ?? 0) || (m.missedUncounted ? 1 : 0);
        }
        if (missed > 0) watcher.missed(missed);
        watcher.messages(apart(batch));
      });
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof ApiError) error = e;
      // A refused position would be refused again.
      if (error && (error.status === 400 || error.code === 3 || error.code === 11)) {
        position = "";
        watcher.missed(1);
      }
    } finally {
      clearTimeout(alive);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    if (error?.status === 501) {
      if (polled) watcher.missed(0);
      polled = true;
      watcher.link("polled");
    } else watcher.link("lost", error);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, polled ? pollEvery : backoff(tries));
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
    tries++;
  }
}
