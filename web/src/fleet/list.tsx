// The fleets that are stored, as far as the caller may read them.

import { useEffect, useState } from "preact/hooks";
import { asError, type ListTargetSpecsResponseJson, type SetpointError, type TargetSpecJson as TargetSpec } from "@setpoint-dev/client/json";
import { get } from "../api/client";
import { Problem } from "../components/problem";
import { count, integer } from "../lib/format";
import { parseName } from "../lib/names";
import { fleetPath } from "../router";
import { matcher } from "../targets/query";

/** Specs that are read at most: they are all read, to find the fleets among them. */
const most = 10_000;

interface Read {
  /** undefined: not read yet. */
  fleets: readonly TargetSpec[] | undefined;
  more: boolean;
  error: SetpointError | undefined;
}

function useFleets(): [Read, () => void] {
  const [read, set] = useState<Read>({ fleets: undefined, more: false, error: undefined });
  const [turn, again] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    void (async () => {
      try {
        const fleets: TargetSpec[] = [];
        let token = "";
        let seen = 0;
        do {
          const query = new URLSearchParams({ pageSize: "1000", ...(token && { pageToken: token }) });
          const page = await get<ListTargetSpecsResponseJson>(`/v1/clusters/-/namespaces/-/targetSpecs?${query}`, abort.signal);
          seen += page.targetSpecs?.length ?? 0;
          fleets.push(...(page.targetSpecs ?? []).filter((s) => s.fleet));
          token = page.nextPageToken ?? "";
        } while (token && seen < most);
        set({ fleets, more: token !== "", error: undefined });
      } catch (e) {
        if (!abort.signal.aborted) set((r) => ({ ...r, error: asError(e) }));
      }
    })();
    return () => abort.abort();
  }, [turn]);
  return [read, () => again(turn + 1)];
}

export function ListedFleets(props: { text: string }) {
  const [{ fleets, more, error }, reload] = useFleets();
  const found = matcher(props.text);
  const shown = (fleets ?? []).filter((f) => found([f.name, ...(f.fleet?.members ?? []).map((m) => m.target)].join(" ").toLowerCase()));
  return (
    <section class="listed-fleets" id="listed-fleets" aria-label="Fleets">
      {error && <Problem error={error} what={fleets ? "Not up to date." : "The fleets can't be read."} retry={reload} />}
      <p class="muted small" role="status">
        {fleets ? `${count(shown.length, "fleet")}${props.text && shown.length < fleets.length ? ` of ${integer(fleets.length)}` : ""}${more ? `, among the first ${integer(most)} stored specs` : ""}.` : error ? "" : "Loading…"}
      </p>
      {shown.length > 0 && (
        <ul class="overrides">
          {shown.map((f) => <One key={f.name} spec={f} />)}
        </ul>
      )}
    </section>
  );
}

function One(props: { spec: TargetSpec }) {
  const { name = "", spec, fleet } = props.spec;
  const { cluster, namespace, target } = parseName(name);
  const members = fleet?.members ?? [];
  const away = members.filter((m) => m.drained).length;
  return (
    <li class="override">
      <div class="o-head">
        <a href={fleetPath(name)} title={name}>{target}</a>
        <span class="muted small">{namespace} · {cluster}</span>
      </div>
      <span class="small">
        {count(members.length, "member")}{away ? `, ${integer(away)} drained` : ""} · {integer(spec?.minReplicas ?? 1)} to {integer(spec?.maxReplicas ?? 0)} replicas of all
      </span>
    </li>
  );
}
