// One target, or one fleet: its record and its decisions, live.

import { useEffect, useRef, useState } from "preact/hooks";
import { asError, type SetpointError, type DecisionJson as Decision, type ListDecisionsResponseJson, type TargetJson as Target } from "@setpoint-dev/client/json";
import { get } from "../api/client";
import { watch, type Link } from "../api/watch";
import { merge, most } from "../lib/decisions";

export interface Live<T> {
  value: T | undefined;
  /** Oldest first. */
  decisions: readonly Decision[];
  link: Link;
  error: SetpointError | undefined;
}

export const useTarget = (name: string): [Live<Target>, () => void] => useLive(name, `/v1/${name}`, (t: Target) => t.lastDecision);

/** What a path has, read again after each burst of the decisions of that name, and periodically; last: its last decision. */
export function useLive<T>(name: string, path: string, last: (value: T) => Decision | undefined): [Live<T>, () => void] {
  const empty: Live<T> = { value: undefined, decisions: [], link: "connecting", error: undefined };
  const [state, set] = useState(empty);
  const reload = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    set(empty);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const fail = (e: unknown) => !signal.aborted && set((s) => ({ ...s, error: asError(e) }));
    const read = () => get<T>(path, signal).then(
      // The log is best effort, and the last decision is in the record before it is in the log.
      (value) =>
        set((s) => {
          const decision = last(value);
          return { ...s, value, decisions: decision ? merge(s.decisions, [decision]) : s.decisions, error: undefined };
        }),
      fail,
    );
    const readDecisions = async () => {
      let token = "";
      let got: Decision[] = [];
      try {
        do {
          const query = new URLSearchParams({ pageSize: "1000" });
          if (token) query.set("pageToken", token);
          const page = await get<ListDecisionsResponseJson>(`/v1/${name}/decisions?${query}`, signal);
          got = got.concat(page.decisions ?? []);
          token = page.nextPageToken ?? "";
        } while (token && got.length < most);
        set((s) => ({ ...s, decisions: merge(got, s.decisions) }));
      } catch (e) {
        if (asError(e).code !== "NOT_FOUND") fail(e); // without a decision there is no log
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
    const poll = setInterval(later, 15_000);
    void watch(name, undefined, {
      decisions: (batch) => {
        const more = batch.flatMap((m) => m.decision ?? []);
        set((s) => ({ ...s, decisions: merge(s.decisions, more) }));
        later();
      },
      link: (link) => set((s) => (s.link === link ? s : { ...s, link })),
      missed: () => void readDecisions(),
    }, signal);
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearInterval(poll);
    };
  }, [name]);
  return [state, () => reload.current()];
}
