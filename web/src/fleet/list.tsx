// The fleets that are stored, as far as the caller may read them.

import { useEffect, useState } from "preact/hooks";
import { asError, type FleetJson as Fleet, type SetpointError, type TargetSpecJson as TargetSpec } from "@setpoint-dev/client/json";
import { storedFleets, mostFleets } from "../api/fleets";
import { get, serviceNow } from "../api/client";
import { LookChip } from "../components/look";
import { useMore } from "../components/more";
import { Problem } from "../components/problem";
import { Ago, useNow } from "../components/time";
import { byState, troubles } from "../lib/fleet";
import { count, integer, millis } from "../lib/format";
import { parseName, searched } from "../lib/names";
import { plainText } from "../lib/text";
import { fleetPath } from "../router";
import { matcher } from "../targets/query";

/** Fleets that are shown at first, and that each click shows more of. Only the states of those are read, a few at once, again and again. */
const perPage = 24;
const atOnce = 4;
const every = 15_000;
/** How often the list itself is read again: others store fleets, too. */
const listEvery = 60_000;

interface Read {
  /** undefined: not read yet. */
  fleets: readonly TargetSpec[] | undefined;
  more: boolean;
  error: SetpointError | undefined;
}

export function useFleets(): [Read, () => void] {
  const [read, set] = useState<Read>({ fleets: undefined, more: false, error: undefined });
  const [turn, again] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = (ms: number) => (timer = setTimeout(() => again(turn + 1), ms));
    storedFleets("clusters/-/namespaces/-", abort.signal).then(
      (all) => {
        set({ ...all, error: undefined });
        later(listEvery);
      },
      (e) => {
        if (abort.signal.aborted) return;
        set((r) => ({ ...r, error: asError(e) }));
        later(every);
      },
    );
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [turn]);
  return [read, () => again(turn + 1)];
}

/** What is known of a fleet; undefined: nothing yet. */
type State = Fleet | SetpointError | undefined;

/** The states of fleets by name. */
function useStates(names: readonly string[]): ReadonlyMap<string, State> {
  const [states, set] = useState<ReadonlyMap<string, State>>(new Map());
  const key = names.join("\n");
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      const left = [...names];
      const reader = async () => {
        for (let name = left.shift(); name !== undefined && !abort.signal.aborted; name = left.shift()) {
          const state = await get<Fleet>(`/v1/${name}/fleet`, abort.signal).catch(asError);
          if (!abort.signal.aborted) set((s) => new Map(s).set(name!, state));
        }
      };
      await Promise.all(Array.from({ length: atOnce }, reader));
      if (!abort.signal.aborted) timer = setTimeout(() => void read(), every);
    };
    if (names.length > 0) void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return states;
}

export function ListedFleets(props: { text: string }) {
  const [{ fleets, more, error }, reload] = useFleets();
  const found = matcher(props.text);
  const shown = (fleets ?? []).filter((f) => found([f.name ?? "", ...(f.fleet?.members ?? []).map((m) => m.target ?? "")].map(searched).join(" ")));
  const [most, button] = useMore(shown.length, perPage, props.text);
  const first = shown.slice(0, most);
  const states = useStates(first.map((f) => f.name ?? ""));
  useNow(5000);
  return (
    <section class="listed-fleets" id="listed-fleets" aria-label="Fleets">
      {error && <Problem error={error} what={fleets ? "Not up to date." : "The fleets can't be read."} retry={reload} />}
      <p class="muted small" role="status">
        {fleets ? `${count(shown.length, "fleet")}${props.text && shown.length < fleets.length ? ` of ${integer(fleets.length)}` : ""}${more ? `, and there are more than ${integer(mostFleets)}` : ""}.` : error ? "" : "Loading…"}
      </p>
      {shown.length > 0 && (
        <ul class="overrides">
          {first.map((f) => <One key={f.name} spec={f} state={states.get(f.name ?? "")} />)}
        </ul>
      )}
      {button}
    </section>
  );
}

function One(props: { spec: TargetSpec; state: State }) {
  const { name = "", spec, fleet } = props.spec;
  const { state } = props;
  const { cluster, namespace, target } = parseName(name);
  const members = fleet?.members ?? [];
  const away = members.filter((m) => m.drained).length;
  return (
    <li class="override">
      <div class="o-head">
        <a href={fleetPath(name)} title={name}>{target}</a>
        <span class="muted small">{namespace} · {cluster}</span>
        {state && !(state instanceof Error) && troubles(state, serviceNow()).map((l) => <LookChip key={l.label} look={l} />)}
      </div>
      <span class="small">
        {count(members.length, "member")}{away ? `, ${integer(away)} drained` : ""} · {integer(spec?.minReplicas ?? 1)} to {integer(spec?.maxReplicas ?? 0)} replicas of all
      </span>
      <p class="small" aria-label="State">
        {state === undefined ? <span class="faint">…</span>
          : state instanceof Error ? <span class="told">Its state can't be read: {plainText(state.problem)}</span>
            : !state.decisionTime ? `Not decided yet: ${byState(state.memberCounts)}.`
              : <><strong>{integer(state.desiredReplicas ?? 0)}</strong> desired, {integer(state.shareTotal ?? 0)} shared out · {byState(state.memberCounts)} · decided <Ago time={millis(state.decisionTime)} now={serviceNow()} /></>}
      </p>
    </li>
  );
}
