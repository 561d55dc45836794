// One target: its state, the reason, and when that could change.

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, serviceNow } from "../api/client";
import type { Link } from "../api/watch";
import { Plain, StageChips } from "../components/adjustments";
import { Chips } from "../components/chips";
import { Crumbs } from "../components/crumbs";
import { Links } from "../components/links";
import { Problem } from "../components/problem";
import { Replicas } from "../components/replicas";
import { Ago, useNow } from "../components/time";
import { OverridesCard } from "../overrides/card";
import type { DecisionJson as Decision, FleetJson as Fleet, TargetJson as Target } from "@setpoint-dev/client/json";
import { count, duration, integer, millis, seconds } from "../lib/format";
import { type Bounds, boundsOver, needsRecording, type RecordedBounds } from "../lib/bounds";
import { overriding } from "../lib/adjustments";
import { basisOf, counts, lacking, lastChange, usually } from "../lib/decisions";
import { parseName, shadowSuffix } from "../lib/names";
import { Overridden, paceOf, targetBits } from "../lib/state";
import { Engine } from "../playground/engine";
import { recordedOf } from "../playground/recorded";
import { base, changeQuery, fleetPath, navigate, usePlace } from "../router";
import { MetricChart, ReplicaChart } from "./charts";
import { DecisionList } from "./decisions";
import { NextCard } from "./next";
import { comparison, Legend, select, spanOf, Spans, usual } from "./spans";
import { SpecCard } from "./spec";
import { targets } from "../targets/store";
import { useTarget } from "./store";
import { StoryCard } from "./story";
import { tryPath } from "./try";

export function TargetView(props: { name: string }) {
  const { name } = props;
  const [state, reload] = useTarget(name);
  const place = usePlace();
  const now = useNow(5000);
  const { target: short } = parseName(name);
  const { value: target, decisions, error } = state;
  const spanId = place.query.get("span") ?? usual;
  const compared = place.query.get("compare") === "day";
  const chosenId = place.query.get("decision") ?? "";
  const chosen = decisions.find((d) => d.recommendationId === chosenId);
  const latest = decisions.at(-1) ?? target?.lastDecision;
  const choose = (d: Decision) => changeQuery({ decision: d.recommendationId ?? "" });

  const asked = askedOf(target, state.read, decisions);
  const outlook = target?.outlook && !target.outlook.problem && !asked.missed ? target.outlook : undefined;
  const scheduled = !asked.missed ? target?.outlook?.bounds ?? none : none;
  const chart = useMemo(() => {
    const s = now / 1000;
    const first = decisions.length ? millis(decisions[0]!.time) / 1000 : s;
    if (spanId === "ahead" && scheduled.length > 0) {
      const length = millis(scheduled.at(-1)!.time) / 1000 - s;
      return { span: { from: s - length * 0.15, now: s, to: s + length * 1.05 }, known: s - first, length: 0 };
    }
    const ahead = outlook?.changes?.length ? millis(outlook.changes.at(-1)!.time) / 1000 - s + 20 : 0;
    return { ...spanOf(spanId, s, first, ahead), known: s - first };
  }, [spanId, decisions, now, outlook, scheduled]);
  const limits = useBounds(name, target ? decisions : none); // without a record there is no recording

  if (error && !target) {
    if (error.code === "NOT_FOUND") return <Unknown name={name} link={state.link} decisions={decisions} now={now} chosen={chosen} choose={choose} />;
    return (
      <div class="page">
        <Problem error={error} what="The target can't be read." retry={reload} />
      </div>
    );
  }
  if (!target) return <div class="loading" role="status" aria-label="Loading" />;
  const status = target.status ?? {};
  const bits = targetBits(target, serviceNow(), state.read);
  const metrics = Math.max(...decisions.slice(-50).map((d) => d.currentMetrics?.length ?? 0), status.currentMetrics?.length ?? 0);
  // The record explains its last decision; a newer one may have come by the stream.
  const explains = (d: Decision | undefined) => (d && d.recommendationId === target.lastDecision?.recommendationId ? target.explanation : undefined);
  const bounds = boundsOf(target, decisions);
  const known = latest && counts(latest);
  const told = chosen ?? latest;
  const shadow = name.endsWith(shadowSuffix);
  return (
    <div class="page target">
      {error && <Problem error={error} what="Not up to date." retry={reload} />}
      <Crumbs name={name} link={state.link} />
      <header class="target-head">
        <div class="target-title">
          <h1>{short}</h1>
          <div class="chips"><Chips bits={bits} /><StageChips decision={latest} most={3} but={bits & Overridden ? "Override" : undefined} /></div>
          <p class="muted">
            {target.scaleTargetRef?.kind ? `${target.scaleTargetRef.kind} ${target.scaleTargetRef.name ?? ""} · ` : ""}
            last asked <Ago time={asked.time} now={now} />
            {asked.usually > 0 && !asked.missed && <> (usually every {duration(asked.usually)})</>} · last changed <Ago time={lastChange(status.lastScaleTime, decisions)} now={now} />
              <Links name={name} />
          </p>
          {target.targetSpec?.fleet && (
            <p role="status">Now this is a fleet: <a href={fleetPath(name)}>its count and its members</a>. What is shown here is from before.</p>
          )}
          {asked.missed && (
            <p class="not-asked" role="status">
              Nobody has asked for {duration(state.read - asked.time)}; usually somebody asks every {duration(asked.usually)}. Nothing scales it meanwhile: see whether its agent runs.
            </p>
          )}
        </div>
        <div class="big" aria-label="Replicas">
          {known ? <Replicas from={known.from} to={known.to} /> : <span class="count">?</span>}
          <Plain decision={latest} />
          <span class="muted">
            {known ? "replicas" : "the count is unknown"}{bounds.max !== undefined ? `, ${integer(bounds.min ?? 0)} to ${integer(bounds.max)} allowed` : ""}
          </span>
        </div>
        <div class="actions">
          <a class="button" href={tryPath(short, target, decisions, asked.usually)}>{target.specInUse ?? target.targetSpec ? "Try another spec" : "Try a spec"}</a>
        </div>
      </header>

      <div class="columns">
        <div class="main-column">
          <section class="card chart-card">
            <header>
              <h2>{shadow ? "Replicas of the workload" : "Replicas"}</h2>
              <Legend decisions={decisions} ahead={Boolean(outlook?.changes?.length)} scheduled={scheduled.length > 0} compared={comparison(compared, chart.span, chart.known)} />
              <Lack decision={latest} proposal={explains(latest)?.proposal?.replicas ?? latest?.basis?.proposal} />
              <Spans id={spanId} known={chart.known} compared={compared}>
                {scheduled.length > 0 && <button aria-pressed={spanId === "ahead"} title="Up to the second instant at which schedules start or end" onClick={() => changeQuery({ span: "ahead" })}>Ahead</button>}
              </Spans>
            </header>
            {shadow && <p class="faint small covers">A shadow changes nothing: this is the count that the workload had.</p>}
            {chart.length > chart.known + 60 && (
              <p class="faint small covers">
                {duration(chart.known * 1000)} {Number.isFinite(chart.length) ? `of the last ${duration(chart.length * 1000)} ` : ""}are kept.
              </p>
            )}
            <ReplicaChart
              span={chart.span} until={asked.missed ? asked.time / 1000 : undefined} decisions={decisions} recommendations={target.history?.recommendations ?? none} outlook={outlook} limits={limits} ahead={scheduled} window={windowOf(target, decisions)}
              chosen={chosen} choose={choose} compared={compared} select={select}
            />
          </section>
          {Array.from({ length: Math.min(metrics, 4) }, (_, i) => (
            <MetricChart key={i} index={i} span={chart.span} decisions={decisions} spec={target.specInUse} explanation={explains(latest)} choose={choose} select={select} />
          ))}
          {metrics > 4 && <p class="muted">{count(metrics - 4, "more metric")} are in the decisions' readings.</p>}
          <DecisionList target={name} decisions={decisions} chosen={chosen} choose={choose} now={now} />
        </div>
        <aside class="side-column">
          {told && <StoryCard target={name} decision={told} chosen={chosen !== undefined} explanation={explains(told)} spec={target.specInUse} now={now} back={() => changeQuery({ decision: "" })} />}
          <OverridesCard target={name} known={{ replicas: countNow(latest), ...bounds }} told={overriding(latest)} changed={reload} />
          <NextCard target={target} asked={asked} now={now} />
          <SpecCard target={target} name={name} />
        </aside>
      </div>
    </div>
  );
}

/** The count that a hold keeps; undefined: it is about to change, or unknown. */
function countNow(d: Decision | undefined): number | undefined {
  const known = d && counts(d);
  return known && (known.from === known.to || d.outcome === "APPLIED") ? known.to : undefined;
}

const none: never[] = [];

export interface Asked {
  /** When it was asked for last, ms of Unix time. */
  time: number;
  /** How often it usually is, ms; 0: unknown. */
  usually: number;
  /** It is no longer asked for. */
  missed: boolean;
}

/** Whether anybody still asked for a target when it was read, ms of the service's clock. */
function askedOf(target: Target | undefined, read: number, decisions: readonly Decision[]): Asked {
  const { asked, patience } = paceOf(target ?? {});
  return { time: asked * 1000, usually: usually((seconds(target?.interval) ?? 0) * 1000, decisions), missed: read / 1000 > asked + patience };
}

/** The bounds of the last decision, as far as they are known. */
function boundsOf(target: Target, decisions: readonly Decision[]): { min?: number; max?: number } {
  const b = target.explanation?.bounds;
  if (b?.maxReplicas) return { min: b.minReplicas ?? 0, max: b.maxReplicas };
  const { minReplicas: min, maxReplicas: max } = basisOf(decisions);
  return { min, max };
}

/** The bounds that were in force at each instant: of the decisions, and of the recording where these leave a question. */
function useBounds(name: string, decisions: readonly Decision[]): Bounds[] {
  const [recorded, setRecorded] = useState<RecordedBounds>();
  const needed = useMemo(() => needsRecording(decisions), [decisions]);
  useEffect(() => {
    if (!needed) return;
    const engine = new Engine();
    const left = new AbortController();
    void recordedOf(name, engine, (path) => get(path, left.signal)).then((r) => {
      engine.stop();
      if (!left.signal.aborted) setRecorded(r);
    });
    return () => {
      left.abort();
      engine.stop();
    };
  }, [name, needed]);
  return useMemo(() => boundsOver(decisions, recorded), [decisions, recorded]);
}

/** The stabilization window of scale-downs, s. */
function windowOf(target: Target, decisions: readonly Decision[]): number | undefined {
  const down = target.explanation?.stabilization?.windows?.find((w) => w.direction === "Down")?.windowSeconds;
  return down === undefined ? basisOf(decisions).scaleDownWindowSeconds : Number(down);
}

/** How much a target at its maximum lacks. */
function Lack(props: { decision: Decision | undefined; proposal: number | undefined }) {
  const { decision, proposal } = props;
  if (!decision?.states?.includes("AT_MAXIMUM") || proposal === undefined) return null;
  return <span class="chip atmax"><i aria-hidden="true">⊤</i>asks for {integer(proposal)}, lacks {integer(lacking(proposal, decision.desiredReplicas ?? 0))}</span>;
}

/** A name without a record: a fleet, whose view is another one; a member of a fleet, which has decisions only; or nothing. */
function Unknown(props: { name: string; link: Link; decisions: readonly Decision[]; now: number; chosen: Decision | undefined; choose: (d: Decision) => void }) {
  const { name, decisions, now, chosen, choose } = props;
  const [of, setOf] = useState<string>();
  useEffect(() => {
    const abort = new AbortController();
    setOf(undefined);
    void targets.fleet(name).then((known) => known ?? get<Fleet>(`/v1/${name}/fleet`, abort.signal).then(() => name, () => "")).then((fleet) => {
      if (abort.signal.aborted) return;
      if (fleet === name) navigate(fleetPath(name) + location.search, "replace");
      else setOf(fleet);
    });
    return () => abort.abort();
  }, [name]);
  if (of === undefined) return <div class="loading" role="status" aria-label="Loading" />;
  if (decisions.length === 0) {
    return (
      <div class="empty">
        <h1>Nothing is known of this target</h1>
        <p class="mono">{name}</p>
        <p>It was deleted, its history expired, or no caller has requested a recommendation yet. It appears with the first request.</p>
        <p><a href={base}>All targets</a></p>
      </div>
    );
  }
  return (
    <div class="page target">
      <Crumbs name={name} link={props.link} />
      <h1>{parseName(name).target}</h1>
      <p>The service has no history of this target, only decisions. A member of a fleet has none of its own: {of ? <a href={fleetPath(of)}>its fleet</a> : "its fleet"} decides for it.</p>
      <div class="columns">
        <div class="main-column"><DecisionList target={name} decisions={decisions} chosen={chosen} choose={choose} now={now} /></div>
        <aside class="side-column">
          <StoryCard target={name} decision={chosen ?? decisions.at(-1)!} chosen={chosen !== undefined} explanation={undefined} spec={undefined} now={now} back={() => changeQuery({ decision: "" })} />
        </aside>
      </div>
    </div>
  );
}
