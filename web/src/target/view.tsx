// One target: its state, the reason, and when that could change.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chips } from "../components/chips";
import { Problem } from "../components/problem";
import { Replicas } from "../components/replicas";
import { Ago, At, useNow } from "../components/time";
import type { Decision, DecisionBasis, Spec, Target, TargetSpec } from "../api/types";
import { count, duration, integer, localClock, millis, utc } from "../lib/format";
import { basisOf } from "../lib/decisions";
import { reading, type Reading } from "../lib/metrics";
import { parseName } from "../lib/names";
import { outlook, type Outlook } from "../lib/next";
import { Flapping, flappingTurns, Pending, reversals, stateBits } from "../lib/state";
import { story, sums } from "../lib/story";
import { playgroundPath } from "../playground/link";
import { base, navigate, usePlace } from "../router";
import { MetricChart, ReplicaChart, type Span } from "./charts";
import { SpecCard } from "./spec";
import { useTarget } from "./store";

const spans: readonly { id: string; label: string; seconds: number }[] = [
  { id: "15m", label: "15 min", seconds: 900 },
  { id: "1h", label: "1 h", seconds: 3600 },
  { id: "6h", label: "6 h", seconds: 21600 },
  { id: "all", label: "All", seconds: Infinity },
];

export function TargetView(props: { name: string }) {
  const { name } = props;
  const [state, reload] = useTarget(name);
  const place = usePlace();
  const now = useNow(5000);
  const { cluster, namespace, target: short } = parseName(name);
  useEffect(() => {
    document.title = `${short} · Setpoint`;
  }, [short]);
  const { target, decisions, spec, error } = state;
  const spanId = place.query.get("span") ?? "1h";
  const chosenId = place.query.get("decision") ?? "";
  const chosen = decisions.find((d) => d.recommendationId === chosenId);
  const latest = decisions.at(-1) ?? target?.lastDecision;
  const go = (change: Record<string, string>) => {
    const query = new URLSearchParams(location.search);
    for (const [k, v] of Object.entries(change)) {
      if (v) query.set(k, v);
      else query.delete(k);
    }
    const text = query.toString();
    navigate(location.pathname + (text ? `?${text}` : ""), "replace");
  };
  const choose = (d: Decision) => go({ decision: d.recommendationId ?? "" });

  const current = target?.status?.desiredReplicas ?? latest?.desiredReplicas ?? 0;
  const ahead = useMemo(
    () => (target ? outlook(target.history ?? {}, spec?.spec, spec?.options, target.status?.currentReplicas ?? current, now, basisOf(decisions)) : undefined),
    [target, spec, now, current, decisions],
  );
  const span = useMemo<Span>(() => {
    const s = now / 1000;
    const length = spans.find((x) => x.id === spanId)?.seconds ?? 3600;
    const first = decisions.length ? millis(decisions[0]!.time) / 1000 : s - 900;
    const from = Math.max(s - length, Math.min(first, s - 300));
    const release = ahead?.down.holds ? (ahead.down.steps.at(-1)?.time ?? 0) / 1000 : 0;
    const room = Math.max((s - from) * 0.06, Math.min(release - s + 20, (s - from) * 0.35));
    return { from, now: s, to: s + room };
  }, [spanId, decisions, now, ahead]);

  if (error && !target) {
    if (error.status === 404) return <Unknown name={name} />;
    return (
      <div class="page">
        <Problem error={error} what="The target can't be read." retry={reload} />
      </div>
    );
  }
  if (!target) return <div class="loading" role="status" aria-label="Loading" />;
  const status = target.status ?? {};
  const bits = stateBits(status.conditions ?? [], status.currentMetrics ?? [], target.lastDecision?.error ?? "") | (target.lastDecision?.outcome === "PENDING" ? Pending : 0);
  const turns = reversals(decisions.filter((d) => millis(d.time) > now - 3_600_000 && d.outcome !== "FAILED" && d.outcome !== "DROPPED").map((d) => d.desiredReplicas ?? 0));
  const metrics = Math.max(...decisions.slice(-50).map((d) => d.currentMetrics?.length ?? 0), status.currentMetrics?.length ?? 0);
  const told = chosen ?? latest;
  return (
    <div class="page target">
      {error && <Problem error={error} what="Not up to date." retry={reload} />}
      <nav class="crumbs" aria-label="Where">
        <a href={base}>Fleet</a>
        <span aria-hidden="true">/</span>
        <a href={`${base}?q=${encodeURIComponent(cluster)}`}>{cluster}</a>
        <span aria-hidden="true">/</span>
        <a href={`${base}?q=${encodeURIComponent(`${namespace} ${cluster}`)}`}>{namespace}</a>
      </nav>
      <header class="target-head">
        <div class="target-title">
          <h1>{short}</h1>
          <div class="chips"><Chips bits={turns >= flappingTurns ? bits | Flapping : bits} /></div>
          <p class="muted">
            {target.scaleTargetRef?.kind ? `${target.scaleTargetRef.kind} ${target.scaleTargetRef.name ?? ""} · ` : ""}
            last asked <Ago time={millis(target.updateTime)} now={now} /> · last changed <Ago time={millis(status.lastScaleTime)} now={now} />
          </p>
        </div>
        <div class="big" aria-label="Replicas">
          <Replicas from={status.currentReplicas ?? 0} to={status.desiredReplicas ?? 0} />
          <span class="muted">
            replicas{ahead?.max !== undefined ? `, ${ahead.min} to ${ahead.max} allowed` : ""}
          </span>
        </div>
        <div class="actions">
          <a class="button" href={tryPath(short, spec, decisions)}>Try another spec</a>
        </div>
      </header>

      <div class="columns">
        <div class="main-column">
          <section class="card chart-card">
            <header>
              <h2>Replicas</h2>
              <Legend held={ahead?.down.holds ?? false} />
              <div class="segments" role="group" aria-label="Time shown">
                {spans.map((s) => (
                  <button key={s.id} aria-pressed={s.id === spanId} onClick={() => go({ span: s.id === "1h" ? "" : s.id })}>{s.label}</button>
                ))}
              </div>
            </header>
            <ReplicaChart span={span} decisions={decisions} outlook={ahead} current={current} chosen={chosen} choose={choose} />
          </section>
          {Array.from({ length: Math.min(metrics, 4) }, (_, i) => (
            <MetricChart key={i} index={i} span={span} decisions={decisions} spec={spec} choose={choose} />
          ))}
          {metrics > 4 && <p class="muted">{count(metrics - 4, "more metric")} are in the decisions' readings.</p>}
          <DecisionList decisions={decisions} chosen={chosen} choose={choose} now={now} />
        </div>
        <aside class="side-column">
          {told && <StoryCard decision={told} chosen={chosen !== undefined} spec={spec} now={now} back={() => go({ decision: "" })} />}
          {ahead && <NextCard outlook={ahead} target={target} now={now} />}
          <SpecCard spec={spec} name={name} />
        </aside>
      </div>
    </div>
  );
}

/** The playground with this target's spec, and the load that its decisions recorded. */
function tryPath(title: string, stored: TargetSpec | null | undefined, decisions: readonly Decision[]): string {
  const load: [number, number][] = [];
  const readings: Reading[] = [];
  let replicas: number | undefined;
  for (const d of decisions.slice(-500)) {
    const m = d.currentMetrics?.[0];
    const r = m ? reading(m) : undefined;
    if (!r || r.kind === "none" || !Number.isFinite(r.number)) continue;
    // An average is per replica; the load is the total.
    const total = r.kind === "total" ? r.number : r.number * (d.currentReplicas ?? 0);
    load.push([millis(d.time), Math.round(total * 1000) / 1000]);
    readings.push(r);
    replicas ??= d.currentReplicas;
  }
  const recorded = "This is the load of the target's last decisions, as its first metric tells it, and the spec twice: change one of the two.";
  if (stored?.spec) return playgroundPath({ title, lesson: recorded, spec: stored.spec, load, replicas });
  const spec = guessed(readings, basisOf(decisions));
  return playgroundPath({ title, lesson: spec && `${recorded} The service keeps no spec of it: bounds are those of the last decision, and the metric's target is a guess, the median of what was read.`, spec, load, replicas });
}

/** A spec of which only readings and bounds are known: it wants what usually was. */
function guessed(readings: readonly Reading[], basis: DecisionBasis): Spec | undefined {
  const last = readings.at(-1);
  if (!last) return undefined;
  const same = readings.filter((r) => r.type === last.type && r.kind === last.kind).map((r) => r.number).sort((a, b) => a - b);
  const middle = same[same.length >> 1]!;
  const median = Math.max(1, Math.round(middle));
  const quantity = middle >= 10 ? String(median) : `${Math.max(1, Math.round(middle * 1000))}m`;
  const target = last.kind === "utilization" ? { type: "Utilization", averageUtilization: median } : last.kind === "total" ? { type: "Value", value: quantity } : { type: "AverageValue", averageValue: quantity };
  const metric = last.type === "Resource" ? { type: "Resource", resource: { name: last.name, target } }
    : last.type === "Pods" ? { type: "Pods", pods: { metric: { name: last.name }, target } }
    : { type: "External", external: { metric: { name: last.name }, target } };
  return { minReplicas: basis.minReplicas ?? 1, maxReplicas: basis.maxReplicas ?? 100, metrics: [metric] };
}

function Legend(props: { held: boolean }) {
  return (
    <div class="legend" aria-hidden="true">
      <span><i class="l-count" />count</span>
      <span><i class="l-proposal" />proposals</span>
      <span><i class="l-window" />window</span>
      {props.held && <span><i class="l-future" />if load stays</span>}
      <span class="l-up">▲ up</span>
      <span class="l-down">▼ down</span>
    </div>
  );
}

function StoryCard(props: { decision: Decision; chosen: boolean; spec: TargetSpec | null | undefined; now: number; back: () => void }) {
  const { decision: d, chosen, spec, now } = props;
  const s = story(d);
  const numbers = sums(d, spec?.spec);
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (chosen && matchMedia("(max-width: 960px)").matches) head.current?.scrollIntoView({ block: "nearest" });
  }, [d.recommendationId, chosen]);
  return (
    <section class={`card story tone-${s.tone}`} aria-live="polite">
      <header>
        <span class="eyebrow">{chosen ? "The decision you chose" : "Now"}</span>
        {chosen && <button class="button quiet" onClick={props.back}>Back to now</button>}
      </header>
      <h2 ref={head}>{s.head}</h2>
      <ul class="because">
        {s.because.map((b) => <li key={b.text} class={b.tone}>{b.text}</li>)}
      </ul>
      <p class="muted">
        Decided for <At time={millis(d.time)} /> (<Ago time={millis(d.time)} now={now} />). {s.outcome}
      </p>
      {numbers.length > 0 && (
        <dl class="sums">
          {numbers.map((n, i) => (
            <div key={i}>
              <dt>{n.name}</dt>
              <dd>
                <strong>{n.reading}</strong>
                {n.target && <span class="muted"> of {n.target}</span>}
                {n.ratio && <span class="sum">{n.ratio}</span>}
                {n.proposal && <span class="sum">{n.proposal}</span>}
              </dd>
            </div>
          ))}
        </dl>
      )}
      <details class="conditions" open={chosen}>
        <summary>Conditions</summary>
        <table>
          <tbody>
            {(d.conditions ?? []).map((c) => (
              <tr key={c.type}>
                <th scope="row">
                  {c.type}
                  <span class={`status ${c.status.toLowerCase()}`}>{c.status}</span>
                </th>
                <td>
                  <code>{c.reason}</code>
                  <span>{c.message}</span>
                  <span class="faint">since <At time={millis(c.lastTransitionTime)} /></span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {d.recommendationId && <p class="faint mono id">{d.recommendationId}{d.requestId ? ` · request ${d.requestId}` : ""}</p>}
      </details>
    </section>
  );
}

/** When the count could next change, and what holds it until then. */
function NextCard(props: { outlook: Outlook; target: Target; now: number }) {
  const { outlook: o, target, now } = props;
  const current = target.status?.currentReplicas ?? 0;
  const first = o.down.steps[0];
  const pending = target.history?.pending;
  const evaluation = "with the next evaluation";
  const up = o.rateUp.disabled ? (
    <>Never: scale-ups are disabled.</>
  ) : o.max !== undefined && current >= o.max ? (
    <>Not above the maximum of {o.max}.</>
  ) : o.up.holds && o.up.steps[0] ? (
    <>Held until <Clock time={o.up.steps[0].time} now={now} />, when a lower recommendation leaves the window of {o.up.seconds} s.</>
  ) : (
    <>
      Can rise {evaluation}, to at most <strong>{integer(Math.min(o.rateUp.limit, o.max ?? Infinity))}</strong>.
    </>
  );
  const down = o.rateDown.disabled ? (
    <>Never: scale-downs are disabled.</>
  ) : o.min !== undefined && current <= o.min ? (
    <>Not below the minimum of {o.min}.</>
  ) : o.down.holds && first ? (
    <>
      The metrics ask for <strong>{integer(o.down.proposed)}</strong>, but {count(current, "replica")} or more were recommended in the last{" "}
      {duration(o.down.seconds * 1000)}. Held until <Clock time={first.time} now={now} />.
    </>
  ) : o.down.proposed < current && o.down.recommendations.length > 0 ? (
    <>
      Can fall {evaluation}: the metrics ask for <strong>{integer(o.down.proposed)}</strong>, and nothing higher is left in the window
      {o.rateDown.limit > o.down.proposed ? <>; policies allow <strong>{integer(o.rateDown.limit)}</strong> at once</> : ""}.
    </>
  ) : (
    <>
      Can fall once the metrics ask for less{o.down.seconds > 0 ? <>, after {o.down.seconds} s without a higher recommendation</> : ""}
      {Math.max(o.rateDown.limit, o.min ?? 0) > 0 ? <>; to no less than <strong>{integer(Math.max(o.rateDown.limit, o.min ?? 0))}</strong></> : ""}.
    </>
  );
  return (
    <section class="card next">
      <header><span class="eyebrow">When it could next change</span></header>
      {pending && (
        <p class="pending-note">
          A change to {pending.desiredReplicas} is not yet reported as applied (since <Ago time={millis(pending.time)} now={now} />).
        </p>
      )}
      <dl>
        <div><dt><span class="up-mark" aria-hidden="true">▲</span>Up</dt><dd>{up}</dd></div>
        <div><dt><span class="down-mark" aria-hidden="true">▼</span>Down</dt><dd>{down}</dd></div>
      </dl>
      {o.down.holds && o.down.steps.length > 0 && (
        <>
          <h3>If the metrics keep asking for {o.down.proposed}</h3>
          <ol class="releases">
            {o.down.steps.slice(0, 6).map((s) => (
              <li key={s.time}>
                <Clock time={s.time} now={now} />
                <strong>{integer(Math.max(s.count, o.min ?? 0))}</strong>
              </li>
            ))}
            {o.down.steps.length > 6 && <li class="faint">{count(o.down.steps.length - 6, "more step")}</li>}
          </ol>
        </>
      )}
      {[...o.rateUp.policies.map((p) => ({ ...p, way: "up" })), ...o.rateDown.policies.map((p) => ({ ...p, way: "down" }))].some((p) => p.release !== undefined) && (
        <>
          <h3>Changes that policies still count</h3>
          <ul class="releases">
            {[...o.rateUp.policies.map((p) => ({ ...p, way: "up" })), ...o.rateDown.policies.map((p) => ({ ...p, way: "down" }))]
              .filter((p) => p.release !== undefined)
              .map((p) => (
                <li key={p.way + p.text}>
                  <span>{p.way}, {p.text}: allows {p.limit}</span>
                  <span class="faint">until {localClock(p.release!)}</span>
                </li>
              ))}
          </ul>
        </>
      )}
      <p class="faint small">
        {o.known
          ? "By the stored spec and the history that the service keeps."
          : `Callers send the spec with each question: bounds and windows are those of the last decisions, policies are taken to be the controller's defaults.`}
      </p>
    </section>
  );
}

function Clock(props: { time: number; now: number }) {
  const left = props.time - props.now;
  return (
    <time dateTime={new Date(props.time).toISOString()} title={utc(props.time)}>
      {localClock(props.time)} <span class="muted">({left > 0 ? `in ${duration(left)}` : "now"})</span>
    </time>
  );
}

function DecisionList(props: { decisions: readonly Decision[]; chosen: Decision | undefined; choose: (d: Decision) => void; now: number }) {
  const { decisions, chosen, choose, now } = props;
  const [all, setAll] = useState(false);
  const [limit, setLimit] = useState(20);
  const shown = decisions.filter((d) => all || d.currentReplicas !== d.desiredReplicas || d.outcome === "FAILED").reverse();
  const rows = shown.slice(0, limit);
  const list = useRef<HTMLDivElement>(null);
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    const buttons = [...(list.current?.querySelectorAll<HTMLButtonElement>("button.decision") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (at < 0) return;
    e.preventDefault();
    buttons[at + step]?.focus();
  };
  return (
    <section class="card decisions">
      <header>
        <h2>Decisions</h2>
        <div class="segments" role="group" aria-label="Which decisions">
          <button aria-pressed={!all} onClick={() => setAll(false)}>Changes</button>
          <button aria-pressed={all} onClick={() => setAll(true)}>All</button>
        </div>
      </header>
      <div ref={list} class="decision-list" onKeyDown={onKey}>
        {rows.map((d) => {
          const s = story(d);
          return (
            <button
              key={d.recommendationId}
              class={`decision tone-${s.tone}`}
              aria-pressed={d === chosen}
              onClick={() => choose(d)}
            >
              <span class="d-mark" aria-hidden="true">{s.tone === "up" ? "▲" : s.tone === "down" ? "▼" : s.tone === "alarm" ? "✕" : "·"}</span>
              <span class="d-head">{s.head.replace(/ \(.*\)$/, "")}</span>
              <span class="d-why">{s.because[0]?.text}</span>
              <span class="d-outcome">{d.outcome === "APPLIED" ? "applied" : d.outcome === "FAILED" ? "failed" : d.outcome === "PENDING" ? "pending" : d.outcome === "DROPPED" ? "not applied" : ""}</span>
              <span class="d-time"><Ago time={millis(d.time)} now={now} /></span>
            </button>
          );
        })}
        {rows.length === 0 && <p class="muted">{all ? "The log is empty." : "No decision of the log changed the count."}</p>}
      </div>
      {shown.length > rows.length && <button class="button" onClick={() => setLimit(limit + 100)}>Show more of {shown.length - rows.length}</button>}
    </section>
  );
}

function Unknown(props: { name: string }) {
  return (
    <div class="empty">
      <h1>Nothing is known of this target</h1>
      <p class="mono">{props.name}</p>
      <p>It was deleted, its history expired, or no caller has requested a recommendation yet. It appears with the first request.</p>
      <p><a href={base}>All targets</a></p>
    </div>
  );
}
