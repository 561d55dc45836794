// One target, or one fleet: its record and its decisions, live.

import { useEffect, useRef, useState } from "preact/hooks";
import { asError, SetpointError, type DecisionJson as Decision, type ListDecisionsResponseJson, type TargetJson as Target } from "@setpoint-dev/client/json";
import { get, serviceNow, silent, unanswered } from "../api/client";
import { watch, type Link } from "../api/watch";
import { merge, most } from "../lib/decisions";
import { inTurn } from "../lib/turns";
import { targets } from "../targets/store";

export interface Live<T> {
  value: T | undefined;
  /** When that was read last, ms of the service's clock: what happened since, also that nothing did, is not known. */
  read: number;
  /** Oldest first. */
  decisions: readonly Decision[];
  link: Link;
  error: SetpointError | undefined;
}

export const useTarget = (name: string): [Live<Target>, () => void] => useLive(name, async (signal) => {
  if (await targets.isMember(name, signal)) throw new SetpointError("NOT_FOUND", "A member of a fleet has no record.");
  return get<Target>(`/v1/${name}`, signal);
}, (t) => t.lastDecision);

/** What is asked for, read again after each burst of the decisions of that name, and periodically; last: its last decision. */
export function useLive<T>(name: string, ask: (signal: AbortSignal) => Promise<T>, last: (value: T) => Decision | undefined): [Live<T>, () => void] {
  const empty: Live<T> = { value: undefined, read: 0, decisions: [], link: "connecting", error: undefined };
  const [state, set] = useState(empty);
  const reload = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // What has decisions and no record is a member of a fleet: it is asked for again once more is decided.
    let [missing, logged] = [false, false];
    const fail = (e: unknown) => {
      missing = asError(e).code === "NOT_FOUND";
      if (!signal.aborted) set((s) => ({ ...s, error: asError(e) }));
    };
    let asking = 0; // since when no answer has come, 0: all have
    const begin = inTurn();
    const read = () => {
      asking ||= Date.now();
      const newest = begin();
      return ask(signal).finally(() => (asking = 0)).then((value) => newest() && take(value), (e) => newest() && fail(e));
    };
    let unread: SetpointError | undefined; // why the log could not be read
    // The log is best effort, and the last decision is in the record before it is in the log.
    const take = (value: T) => {
      missing = false;
      const [decision, read] = [last(value), serviceNow()];
      set((s) => ({ ...s, value, read, decisions: decision ? merge(s.decisions, [decision]) : s.decisions, error: unread }));
    };
    const readDecisions = async (wanted = most) => {
      let token = "";
      let got: Decision[] = [];
      try {
        do {
          const query = new URLSearchParams({ pageSize: String(Math.min(1000, wanted)) });
          if (token) query.set("pageToken", token);
          const page = await get<ListDecisionsResponseJson>(`/v1/${name}/decisions?${query}`, signal);
          got = got.concat(page.decisions ?? []);
          token = page.nextPageToken ?? "";
        } while (token && got.length < wanted);
        logged = got.length > 0;
        const before = unread;
        unread = undefined;
        set((s) => ({ ...s, decisions: merge(got, s.decisions), error: s.error === before ? undefined : s.error }));
      } catch (e) {
        if (asError(e).code !== "NOT_FOUND") fail((unread = asError(e))); // without a decision there is no log
      }
    };
    const all = () => {
      void read();
      void readDecisions();
    };
    reload.current = all;
    all();
    // Only the record has the history: it is read again after each burst of decisions.
    const later = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void read();
      }, 300);
    };
    // It is also read periodically, because the log may omit repeated decisions.
    const poll = setInterval(() => {
      if (asking && Date.now() - asking >= silent) fail(unanswered());
      if (!missing || !logged) later();
      if (unread) void readDecisions();
    }, 15_000);
    let linked: Link = "connecting";
    void watch(name, undefined, {
      decisions: (batch) => {
        const more = batch.flatMap((m) => m.decision ?? []);
        set((s) => ({ ...s, decisions: merge(s.decisions, more) }));
        later();
      },
      link: (link) => {
        if (link === linked) return;
        linked = link;
        if (link === "live") void readDecisions(20); // those between the log's answer and the stream's begin
        set((s) => ({ ...s, link }));
      },
      missed: () => {
        missing = false;
        void readDecisions();
      },
    }, signal);
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearInterval(poll);
    };
  }, [name]);
  return [state, () => reload.current()];
}
