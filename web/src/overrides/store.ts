// The overrides that act on a target, or all that the caller may read.

import { useEffect, useRef, useState } from "preact/hooks";
import { asError, type ListOverridesResponseJson, type OverrideJson as Override, type SetpointError } from "@setpoint-dev/client/json";
import { client, get } from "../api/client";
import { inTurn } from "../lib/turns";

/** How often the list is read again, ms: others make overrides, too. */
const every = 15_000;
/** Overrides that are read at most; a cluster has 1,000. */
const most = 5000;

export interface Listed {
  /** undefined: not read yet. */
  all: readonly Override[] | undefined;
  /** There are more than are read. */
  more: boolean;
  error: SetpointError | undefined;
}

/** resource is a target, of which those are listed that act on it; empty: all. */
export function useOverrides(resource: string): [Listed, () => void] {
  const none: Listed = { all: undefined, more: false, error: undefined };
  const [listed, set] = useState(none);
  const reload = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    const begin = inTurn();
    const read = async () => {
      const newest = begin();
      try {
        let all: Override[] = [];
        let token = "";
        do {
          const query = new URLSearchParams({ pageSize: "1000", ...(resource && { resource }), ...(token && { pageToken: token }) });
          const cluster = resource ? resource.split("/")[1]! : "-";
          const page = await get<ListOverridesResponseJson>(`/v1/clusters/${cluster}/overrides?${query}`, abort.signal);
          all = all.concat(page.overrides ?? []);
          token = page.nextPageToken ?? "";
        } while (token && all.length < most);
        if (!abort.signal.aborted && newest()) set({ all, more: token !== "", error: undefined });
      } catch (e) {
        if (!abort.signal.aborted && newest()) set((s) => ({ ...s, error: asError(e) }));
      }
    };
    reload.current = () => void read();
    void read();
    const timer = setInterval(() => document.hidden || void read(), every);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [resource]);
  return [listed, () => reload.current()];
}

export const create = (parent: string, id: string, override: Override): Promise<Override> =>
  client().post<Override>(`/v1/${parent}/overrides?${new URLSearchParams({ overrideId: id })}`, override);

export const end = (name: string): Promise<unknown> => client().delete(`/v1/${name}`);

/** A name for an override, which makes a repeated call harmless. */
export function newId(): string {
  return `ui-${[...crypto.getRandomValues(new Uint8Array(6))].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}
