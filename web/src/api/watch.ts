// Decisions as they are made, as long as a view is open.

import { asError, type SetpointError, type WatchedDecisionJson } from "@setpoint-dev/client/json";
import { client, silent, unanswered } from "./client";
import { claimStream } from "./slots";

/** "polled": the service has no streams, or none left, or other windows have all that this browser may have; lists are read again now and then. "refused": the caller may not read them. */
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

/** How often it is looked whether a stream still gives signs of life, ms. */
const lookEvery = 1000;

/** An instance has as many watchers as it may have, or as this caller may: a place may be free later. */
const full = (e: SetpointError) => e.code === "RESOURCE_EXHAUSTED" && e.reason === "LIMIT_EXCEEDED";

const wait = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end); // which lives for hours
      resolve();
    };
    const timer = setTimeout(end, signal.aborted ? 0 : ms);
    signal.addEventListener("abort", end);
  });

const hidden = () => document.visibilityState === "hidden";

/** Resolves once the page is hidden, or seen; or with the signal. */
const until = (hides: boolean, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const look = () => {
      if (hidden() !== hides && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });

/**
 * Watches decisions until the signal, from an instant on, ms. The client resumes lost streams; what it gives up is tried again later.
 * A page that nobody sees, in another tab or kept for "back", holds no stream: without TLS a browser has six connections to a
 * service for all its tabs, and the seventh page would wait for one. Seen again, it goes on where it was. Of several windows that are
 * seen at once some poll.
 */
export async function watch(parent: string, start: (() => number) | undefined, watcher: Watcher, signal: AbortSignal): Promise<void> {
  watcher.link("connecting");
  let resumeToken = "";
  for (let tries = 0; !signal.aborted; tries++) {
    const unseen = hidden();
    await until(false, signal);
    if (signal.aborted) return;
    if (unseen && !resumeToken && !start) watcher.missed(0);
    const release = await claimStream();
    if (!release) {
      watcher.link("polled");
      await wait(pollEvery, signal);
      if (!signal.aborted) watcher.missed(0);
      continue;
    }
    const stream = new AbortController();
    signal.addEventListener("abort", () => stream.abort(), { signal: stream.signal }); // AbortSignal.any is not in browsers of 2022
    void until(true, stream.signal).then(() => {
      release(); // at once: the page may be left
      stream.abort();
    });
    // A connection may be gone without a word, as after a sleep. The service says something every 5 s: what is shown as live is no
    // older than other answers may be, and the client, which is for older services, too, waits longer.
    let heard = Date.now();
    const alive = setInterval(() => {
      if (Date.now() - heard < silent) return;
      watcher.link("lost", unanswered());
      stream.abort();
    }, lookEvery);
    let polled = false;
    let worked = 0;
    let read = performance.now();
    // The client asks such a service again and again: meanwhile lists are polled.
    const interrupted = (e: SetpointError) => {
      heard = Infinity; // it may have been told to wait
      watcher.link(full(e) ? "polled" : "lost", e);
      if (full(e) && performance.now() - read >= pollEvery) {
        read = performance.now();
        watcher.missed(0);
      }
    };
    try {
      const position = resumeToken ? { resumeToken } : { startTime: start && new Date(start()).toISOString() };
      for await (const m of client().watchDecisions({ parent, ...position }, { signal: stream.signal, interrupted })) {
        const began = performance.now();
        heard = Date.now();
        watcher.link("live");
        tries = 0;
        start = undefined;
        resumeToken = m.resumeToken || resumeToken;
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
      if (!stream.signal.aborted) {
        const error = asError(e);
        // Who may not read, or has to sign in first, is not served by asking again.
        if (error.code === "PERMISSION_DENIED" || error.code === "UNAUTHENTICATED") return watcher.link("refused", error);
        polled = error.code === "UNIMPLEMENTED" || full(error);
        watcher.link(polled ? "polled" : "lost", error);
        resumeToken = ""; // the client gave it up
      }
    } finally {
      clearInterval(alive);
      release();
    }
    if (stream.signal.aborted) {
      tries = -1;
      continue;
    }
    stream.abort();
    await wait(polled ? pollEvery : Math.min(longestWait, 1000 * 2 ** tries), signal);
    if (!signal.aborted && (polled || !start)) watcher.missed(0);
  }
}
