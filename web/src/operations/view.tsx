// The state of the service itself.

import { useEffect, useRef, useState } from "preact/hooks";
import { asError, type SetpointError, type CallerJson as Caller, type InstanceJson as Instance, type ListCallersResponseJson, type ListInstancesResponseJson, type StoreStateJson as StoreState } from "@setpoint-dev/client/json";
import { get, silent, unanswered } from "../api/client";
import { Problem } from "../components/problem";
import { Ago, At, useNow } from "../components/time";
import { bytes, compact, duration, integer, millis, seconds } from "../lib/format";
import { Trend } from "./trend";

const every = 5000;

/** What was read of one address, and the error of the last try. */
interface Read<T> {
  value: T | undefined;
  error: SetpointError | undefined;
}

/** Reads an address again and again while it is shown; waits longer where it is refused. */
export function usePolled<T>(path: string, took?: (value: T) => void): Read<T> {
  const [read, set] = useState<Read<T>>({ value: undefined, error: undefined });
  const then = useRef(took);
  then.current = took;
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const poll = async () => {
      let wait = every;
      const slow = setTimeout(() => set((r) => ({ value: r.value, error: unanswered() })), silent);
      try {
        const value = await get<T>(path, abort.signal);
        then.current?.(value);
        set({ value, error: undefined });
      } catch (e) {
        if (abort.signal.aborted) return;
        const error = asError(e);
        set((r) => ({ value: r.value, error }));
        // Who may not read it is told once.
        if (error.code === "PERMISSION_DENIED" || error.code === "UNAUTHENTICATED") return;
        if (error.code !== "UNAVAILABLE" && error.code !== "DEADLINE_EXCEEDED") wait = 60_000;
      } finally {
        clearTimeout(slow);
      }
      timer = setTimeout(poll, wait);
    };
    void poll();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path]);
  return read;
}

/** Values over the time that the view is open, for trends: by name, oldest first. */
function useTrends(): { add: (name: string, value: number) => void; of: (name: string) => readonly number[] } {
  const all = useRef(new Map<string, number[]>());
  return {
    add: (name, value) => {
      const values = all.current.get(name) ?? [];
      values.push(value);
      if (values.length > 120) values.shift();
      all.current.set(name, values);
    },
    of: (name) => all.current.get(name) ?? [],
  };
}

export function OperationsView() {
  const now = useNow(1000);
  const trends = useTrends();
  const instances = usePolled<ListInstancesResponseJson>("/v1/instances", (v) => {
    let calls = 0;
    let refused = 0;
    for (const i of v.instances ?? []) {
      trends.add(`calls ${i.id}`, number(i.callsPerSecond));
      calls += number(i.callsPerSecond);
      refused += number(i.refusedPerSecond);
    }
    trends.add("calls", calls);
    trends.add("refused", refused);
  });
  const store = usePolled<StoreState>("/v1/store", (v) => trends.add("store", (seconds(v.latency) ?? 0) * 1000));
  const callers = usePolled<ListCallersResponseJson>("/v1/callers");
  const me = usePolled<Caller>("/v1/caller");
  const list = instances.value?.instances ?? [];
  const sum = (f: (i: Instance) => number | undefined) => list.reduce((n, i) => n + (f(i) ?? 0), 0);
  const versions = [...new Set(list.map((i) => i.version ?? ""))];
  const slowest = Math.max(0, ...list.map((i) => (seconds(i.latencyP99) ?? 0) * 1000));
  const serving = list.filter((i) => i.state === "SERVING").length;
  return (
    <div class="page operations">
      <h1>Operations</h1>
      {instances.error && instances.error.code !== "PERMISSION_DENIED" && <Problem error={instances.error} what={instances.value ? "Not up to date." : "The instances can't be read."} />}
      {instances.error?.code === "PERMISSION_DENIED" && (
        <p class="card muted">
          Instances and the store are shown to callers with the right <code>operate</code>, which the service's policy file does not give you. What you use
          yourself is below.
        </p>
      )}
      {instances.value && (
        <div class="figures">
          <Figure label={list.length === 1 ? "instance serves" : "instances serve"} value={serving === list.length ? integer(serving) : `${integer(serving)} of ${integer(list.length)}`} alarm={serving < list.length} />
          <Figure label="calls a second" value={compact(sum((i) => number(i.callsPerSecond)))} trend={trends.of("calls")} />
          <Figure label="refused a second" value={compact(sum((i) => number(i.refusedPerSecond)))} trend={trends.of("refused")} alarm={sum((i) => number(i.refusedPerSecond)) > 0} />
          <Figure label="slowest 1 %, of any instance" value={slowest > 0 ? milliseconds(slowest) : "–"} />
          <Figure label="streams open" value={integer(sum((i) => i.streams))} />
          <Figure label={versions.length > 1 ? "versions at once" : "version"} value={versions.length > 1 ? String(versions.length) : versions[0] || "unknown"} alarm={versions.length > 1} />
        </div>
      )}
      {instances.value && <Instances list={list} now={now} trends={trends} mixed={versions.length > 1} />}
      <div class="columns even">
        <StoreCard read={store} now={now} trend={trends.of("store")} />
        <CallerCard read={me} now={now} />
      </div>
      <Callers read={callers} />
    </div>
  );
}

const milliseconds = (ms: number): string =>
  ms >= 1000 ? `${compact(ms / 1000)} s` : ms >= 0.1 ? `${compact(ms)} ms` : `${compact(ms * 1000)} µs`;

function Figure(props: { label: string; value: string; alarm?: boolean; trend?: readonly number[] }) {
  return (
    <div class={props.alarm ? "figure alarm" : "figure"}>
      <strong>{props.value}</strong>
      <span>{props.label}</span>
      {props.trend && <Trend values={props.trend} tone={props.alarm ? "failing" : "c1"} />}
    </div>
  );
}

const stateWords: Record<string, { text: string; kind: string; mark: string }> = {
  SERVING: { text: "Serving", kind: "up", mark: "✓" },
  DRAINING: { text: "Draining", kind: "held", mark: "‖" },
  STORE_AWAY: { text: "Store away", kind: "failing", mark: "✕" },
};

/** A part of a bound, as a bar; left: what is not used of it yet. */
export function Bar(props: { value: number; most: number; limit?: number; label: string; left?: boolean }) {
  const { value, most, limit } = props;
  const used = props.left ? most - value : value;
  return (
    <span class="bar-cell">
      <span class="meter" role="meter" aria-valuenow={value} aria-valuemin={0} aria-valuemax={most} aria-label={props.label}>
        <span class={used > 0.85 * (limit ?? most) ? "fill high" : "fill"} style={{ width: `${most > 0 ? Math.min(100, (value / most) * 100) : 0}%` }} />
      </span>
      <span class="numbers">{integer(value)}<span class="faint"> of {integer(limit ?? most)}</span></span>
    </span>
  );
}

function Instances(props: { list: readonly Instance[]; now: number; trends: { of: (name: string) => readonly number[] }; mixed: boolean }) {
  const { list, now, trends, mixed } = props;
  return (
    <section class="card">
      <header><h2>Instances</h2></header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Instances">
        <table class="data">
          <thead>
            <tr>
              <th scope="col">Instance</th><th scope="col">State</th><th scope="col">Version</th><th scope="col">Up for</th>
              <th scope="col" class="n">Calls / s</th><th scope="col"><span class="visually-hidden">Trend</span></th><th scope="col" class="n">Refused / s</th>
              <th scope="col">In flight</th><th scope="col" class="n">Streams</th><th scope="col" class="n">Median</th><th scope="col" class="n">99 %</th><th scope="col" class="n">Memory</th>
            </tr>
          </thead>
          <tbody>
            {list.map((i) => {
              const state = stateWords[i.state ?? ""] ?? { text: i.state ?? "", kind: "calm", mark: "·" };
              const p50 = seconds(i.latencyP50);
              const p99 = seconds(i.latencyP99);
              return (
                <tr key={i.id}>
                  <th scope="row" class="mono" title={i.id}>{(i.id ?? "").slice(0, 8)}{i.self && <> <span class="tag">answers you</span></>}</th>
                  <td><span class={`chip ${state.kind}`}><i aria-hidden="true">{state.mark}</i>{state.text}</span>{i.shedding && <span class="chip limited"><i aria-hidden="true">≈</i>Sheds load</span>}</td>
                  <td class={mixed ? "mono strong" : "mono"}>{i.version}</td>
                  <td title={i.startTime}>{duration(Math.max(0, now - millis(i.startTime)))}</td>
                  <td class="n">{compact(number(i.callsPerSecond))}</td>
                  <td><Trend values={trends.of(`calls ${i.id}`)} tone="c1" /></td>
                  <td class={number(i.refusedPerSecond) > 0 ? "n alarm" : "n"}>{compact(number(i.refusedPerSecond))}</td>
                  <td><Bar value={i.inFlight ?? 0} most={i.maxInFlight ?? 0} limit={i.concurrencyLimit} label="calls in flight" /></td>
                  <td class="n">{integer(i.streams ?? 0)}</td>
                  <td class="n">{p50 === undefined ? "–" : milliseconds(p50 * 1000)}</td>
                  <td class="n">{p99 === undefined ? "–" : milliseconds(p99 * 1000)}</td>
                  <td class="n">{bytes(Number(i.memoryBytes ?? 0))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function StoreCard(props: { read: Read<StoreState>; now: number; trend: readonly number[] }) {
  const { value: s, error } = props.read;
  if (error?.code === "PERMISSION_DENIED") return null;
  return (
    <section class="card">
      <header>
        <h2>Store</h2>
        {s && (s.reachable
          ? <span class="chip up"><i aria-hidden="true">✓</i>Answers</span>
          : <span class="chip failing"><i aria-hidden="true">✕</i>Can't be reached</span>)}
      </header>
      {error && <Problem error={error} what="The store's state can't be read." />}
      {s && (
        <dl class="facts">
          <div><dt>Kind</dt><dd>{s.kind === "redis" ? "Redis" : s.kind === "memory" ? "memory of this process" : s.kind}</dd></div>
          <div><dt>Targets</dt><dd>{s.targets === undefined || s.targets === null ? "unknown" : integer(Number(s.targets))}</dd></div>
          <div><dt>Their histories</dt><dd>{s.targetBytes === undefined || s.targetBytes === null ? "unknown" : bytes(Number(s.targetBytes))}</dd></div>
          <div><dt>Answers within</dt><dd class="with-trend"><Trend values={props.trend} tone="c3" />{s.reachable ? milliseconds((seconds(s.latency) ?? 0) * 1000) : "–"}</dd></div>
          <div><dt>Counted</dt><dd><Ago time={millis(s.countedTime)} now={props.now} /></dd></div>
        </dl>
      )}
      {s?.problem && <p class="small">The last error: <code>{s.problem}</code></p>}
      {s?.kind === "memory" && <p class="muted small">Histories end with the process, and no other instance sees them. For more than one instance, or to keep them, use Redis.</p>}
    </section>
  );
}

const methods: Record<string, string> = { certificate: "client certificate", token: "token", oidc: "single sign-on", none: "nothing" };

function CallerCard(props: { read: Read<Caller>; now: number }) {
  const { value: c, error } = props.read;
  return (
    <section class="card">
      <header><h2>You</h2></header>
      {error && <Problem error={error} what="Who you are can't be read." />}
      {c && (
        <>
          <dl class="facts">
            <div><dt>Name</dt><dd>{c.name || "authentication is off"}</dd></div>
            {c.name && <div><dt>Known by</dt><dd>{methods[c.method ?? ""] ?? c.method}</dd></div>}
            {c.groups && c.groups.length > 0 && <div><dt>Groups</dt><dd>{c.groups.join(", ")}</dd></div>}
            {c.expireTime && <div><dt>Until</dt><dd><At time={millis(c.expireTime)} /></dd></div>}
          </dl>
          {c.permissions && c.permissions.length > 0 && (
            <>
              <h3>You may</h3>
              <ul class="grants">
                {c.permissions.map((p, i) => (
                  <li key={i}>
                    <strong>{(p.verbs ?? []).join(", ")}</strong>
                    <span class="muted"> in {(p.namespaces ?? []).every((n) => n === "*") ? "all namespaces" : (p.namespaces ?? []).join(", ")} of {(p.clusters ?? []).every((n) => n === "*") ? "all clusters" : (p.clusters ?? []).join(", ")}</span>
                  </li>
                ))}
                {c.permissionsTruncated && <li class="muted">and more</li>}
              </ul>
            </>
          )}
        </>
      )}
    </section>
  );
}

function Callers(props: { read: Read<ListCallersResponseJson> }) {
  const { value, error } = props.read;
  const list = value?.callers ?? [];
  return (
    <section class="card">
      <header>
        <h2>Callers</h2>
        {value && <span class="muted small">{list.length < (value.total ?? 0) ? `${integer(list.length)} of ${integer(value.total ?? 0)}, the busiest` : ""} {value.instanceId ? `on the instance ${value.instanceId.slice(0, 8)}` : ""}</span>}
      </header>
      {error && <Problem error={error} what="The callers can't be read." />}
      {value && list.length === 0 && <p class="muted">Nobody has called lately.</p>}
      {list.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Callers">
          <table class="data">
            <thead>
              <tr><th scope="col">Caller</th><th scope="col">In flight</th><th scope="col">Streams</th><th scope="col" class="n">Requests a second, at most</th><th scope="col">Left of the burst</th></tr>
            </thead>
            <tbody>
              {list.map((c) => (
                <tr key={c.name}>
                  <th scope="row">{c.name || <span class="muted">all callers: authentication is off</span>}</th>
                  <td>{has(c.maxInFlight) ? <Bar value={c.inFlight ?? 0} most={c.maxInFlight!} label="in flight" /> : <>{integer(c.inFlight ?? 0)} <span class="faint">no own limit</span></>}</td>
                  <td>{has(c.maxStreams) ? <Bar value={c.streams ?? 0} most={c.maxStreams!} label="streams" /> : integer(c.streams ?? 0)}</td>
                  <td class="n">{has(c.maxRate) ? compact(number(c.maxRate)) : <span class="faint">any number</span>}</td>
                  <td>{has(c.burst) ? <Bar value={Math.floor(number(c.burstLeft))} most={c.burst!} label="left of the burst" left /> : <span class="faint">–</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** A double of the API's JSON, which has words for what is no number. */
const number = (n: number | string | undefined | null): number => Number(n ?? 0);
const has = (n: number | string | undefined | null): boolean => n !== undefined && n !== null;
