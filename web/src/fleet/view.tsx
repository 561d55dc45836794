// A fleet: a workload in several clusters. Its count, its members with their shares, and why.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { FleetJson as Fleet, HorizontalPodAutoscalerStatusJson as Status } from "@setpoint-dev/client/json";
import { get } from "../api/client";
import { Crumbs } from "../components/crumbs";
import { LookChip } from "../components/look";
import { Problem } from "../components/problem";
import { Ago, At, useNow } from "../components/time";
import { OverridesCard } from "../overrides/card";
import { overriding } from "../lib/adjustments";
import { boundsOver } from "../lib/bounds";
import { boundsInForce, drained, members, sentence, troubles, type Member } from "../lib/fleet";
import { count, duration, integer, millis, seconds } from "../lib/format";
import { reading } from "../lib/metrics";
import { parseName } from "../lib/names";
import { plainText } from "../lib/text";
import { base, changeQuery, targetPath, usePlace } from "../router";
import { ReplicaChart } from "../target/charts";
import { DecisionList } from "../target/decisions";
import { comparison, Legend, select, spanOf, Spans, usual } from "../target/spans";
import { useLive } from "../target/store";
import { StoryCard } from "../target/story";
import { targets } from "../targets/store";

const none: never[] = [];
const noDecision = () => undefined;

export function FleetView(props: { name: string }) {
  const { name } = props;
  const [{ value: fleet, read, decisions, link, error }, reload] = useLive(name, (signal) => get<Fleet>(`/v1/${name}/fleet`, signal).then((f) => (targets.knows(name, f), f)), noDecision);
  const place = usePlace();
  const now = useNow(5000);
  const { target: short } = parseName(name);
  const spanId = place.query.get("span") ?? usual;
  const compared = place.query.get("compare") === "day";
  const chosen = decisions.find((d) => d.recommendationId && d.recommendationId === place.query.get("decision"));
  const chart = useMemo(() => {
    const s = now / 1000;
    const first = decisions.length ? millis(decisions[0]!.time) / 1000 : s;
    return { span: spanOf(spanId, s, first, 0).span, known: s - first };
  }, [spanId, decisions, now]);
  const limits = useMemo(() => boundsOver(decisions, undefined), [decisions]);
  if (error && !fleet) {
    if (error.code === "NOT_FOUND") return <NoFleet name={name} />;
    return (
      <div class="page">
        <Problem error={error} what="The fleet can't be read." retry={reload} />
      </div>
    );
  }
  if (!fleet) return <div class="loading" role="status" aria-label="Loading" />;
  const all = members(fleet);
  const wrong = troubles(fleet, read);
  const decided = millis(fleet.decisionTime);
  const known = !Number.isNaN(decided);
  const told = chosen ?? decisions.at(-1);
  const bounds = { min: fleet.minReplicas ?? 0, max: fleet.maxReplicas };
  const allowed = boundsInForce(fleet, decisions.at(-1));
  return (
    <div class="page target fleet">
      {error && <Problem error={error} what="Not up to date." retry={reload} />}
      <Crumbs name={name} link={link} />
      <header class="target-head">
        <div class="target-title">
          <h1>{short} <span class="tag">fleet</span></h1>
          <div class="chips">
            {wrong.map((l) => <LookChip key={l.label} look={l} />)}
            {wrong.length === 0 && known && <span class="chip ok"><i aria-hidden="true">✓</i>Nothing is the matter</span>}
          </div>
          <p class="muted">{count(all.length, "member")} scaled as one · last decided {known ? <Ago time={decided} now={now} /> : "never"}</p>
        </div>
        <div class="big" aria-label="Replicas">
          <span class="count">{known ? integer(fleet.desiredReplicas ?? 0) : "?"}</span>
          <span class="muted">{known ? "replicas of all members" : "not decided yet"}{allowed.text}</span>
          {allowed.why && <span class="muted small">{allowed.why}</span>}
        </div>
      </header>
      <Figures fleet={fleet} known={known} />
      <MemberTable fleet={fleet} all={all} now={now} />
      <div class="columns">
        <div class="main-column">
          <section class="card chart-card">
            <header>
              <h2>Replicas of all members</h2>
              <Legend decisions={decisions} ahead={false} scheduled={false} compared={comparison(compared, chart.span, chart.known)} />
              <Spans id={spanId} known={chart.known} compared={compared} />
            </header>
            <ReplicaChart
              span={chart.span} decisions={decisions} recommendations={none} outlook={undefined} limits={limits} ahead={none} window={undefined}
              chosen={chosen} choose={(d) => changeQuery({ decision: d.recommendationId ?? "" })} compared={compared} select={select}
            />
          </section>
          <DecisionList target={name} decisions={decisions} chosen={chosen} choose={(d) => changeQuery({ decision: d.recommendationId ?? "" })} now={now} />
        </div>
        <aside class="side-column">
          {told && <StoryCard target={name} decision={told} chosen={chosen !== undefined} explanation={undefined} spec={undefined} now={now} back={() => changeQuery({ decision: "" })} />}
          <OverridesCard target={name} known={{ replicas: known ? fleet.desiredReplicas ?? 0 : undefined, ...bounds }} told={overriding(decisions.at(-1))} changed={reload} />
          <StatusCard status={fleet.status} />
          <SpecCard fleet={fleet} />
        </aside>
      </div>
    </div>
  );
}

/** The counts of the sum; what was never decided is no number. */
function Figures(props: { fleet: Fleet; known: boolean }) {
  const { fleet, known } = props;
  const figure = (label: string, n: number | undefined, help: string, alarm = false) => (
    <div class={alarm && n ? "figure alarm" : "figure"} title={help}>
      <strong>{known ? integer(n ?? 0) : "?"}</strong>
      <span>{label}</span>
    </div>
  );
  return (
    <div class="figures" role="group" aria-label="Counts of the fleet">
      {figure("desired", fleet.desiredReplicas, "The count as last decided for all members together.")}
      {figure("shared out", fleet.shareTotal, "The sum of the shares: what is desired, what surviveOne adds, and what members keep for a while that return, or wait for others to become ready.")}
      {figure("unplaced", fleet.unplacedReplicas, "Replicas that no member could take.", true)}
      {fleet.spec?.surviveOne && figure("missing without the largest member", fleet.missingReplicas, "How many replicas too few would remain without it.", true)}
    </div>
  );
}

/** A number, or that it is not known. */
const number = (n: number | undefined) => (n === undefined ? <span class="faint" title="Not known">–</span> : integer(n));

function MemberTable(props: { fleet: Fleet; all: readonly Member[]; now: number }) {
  const { fleet, all, now } = props;
  const most = Math.max(1, ...all.map((m) => Math.max(m.share ?? 0, m.has ?? 0)));
  const head = ["Member", "State", "Share", "Has", "Capacity", "Weight and bounds", "Last call"];
  let at = 0;
  const cell = (children: ComponentChildren) => <td role="cell" data-label={head[++at]}><div>{children}</div></td>;
  return (
    <section class="card">
      <header>
        <h2>Members</h2>
        <span class="muted small">{sentence(fleet)}</span>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Members">
        <table class="data members" role="table">
          <thead>
            <tr role="row">{head.map((h) => <th key={h} scope="col" role="columnheader">{h}</th>)}</tr>
          </thead>
          <tbody>
            {all.map((m) => {
              at = 0;
              return (
                <tr key={m.name} role="row">
                  <th scope="row" role="rowheader">
                    <a href={targetPath(m.name)} title={m.name}>{m.cluster}</a>
                    <span class="where">{m.namespace} · {m.target}</span>
                  </th>
                  {cell(<><LookChip look={m.look} />{m.drained && <LookChip look={drained} />}{m.error && <span class="where told">{m.error}</span>}</>)}
                  {cell(<span class="bar-cell"><Bar member={m} most={most} /><strong>{m.share === undefined ? <span class="faint" title="It has no share yet.">none yet</span> : integer(m.share)}</strong></span>)}
                  {cell(m.has === undefined ? number(undefined) : <>
                    {integer(m.has)}
                    <span class="where">{m.runs === undefined ? "" : `${integer(m.runs)} run`}{m.applied === false ? ", not yet as told" : ""}</span>
                  </>)}
                  {cell(m.capacity === undefined ? number(undefined) : <>at most {integer(m.capacity)}<span class="where">pods find no place</span></>)}
                  {cell(<>{number(m.weight)}<span class="where">{m.bounds}</span>{m.own && <span class="where">{m.own} by its own spec or overrides</span>}</>)}
                  {cell(Number.isNaN(m.called) ? "never" : <Ago time={m.called} now={now} />)}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** A share beside those of others, with a mark where the member is. The numbers stand beside it. */
function Bar(props: { member: Member; most: number }) {
  const { member: m, most } = props;
  const part = (n: number) => `${(n / most) * 100}%`;
  return (
    <span class="share" aria-hidden="true" title="The share; the line: what it has">
      <span class={`fill ${m.look.tone}`} style={{ width: part(m.share ?? 0) }} />
      {m.has !== undefined && <span class="has" style={{ left: part(m.has) }} />}
    </span>
  );
}

/** The status of the sum, in the service's words. */
function StatusCard(props: { status: Status | undefined }) {
  const { conditions = [], currentMetrics = [] } = props.status ?? {};
  const readings = currentMetrics.map(reading).filter((r) => r.type);
  return (
    <section class="card conditions">
      <header><h2>Why</h2></header>
      {conditions.length === 0 && <p class="muted">Nothing is known yet: the fleet has not decided.</p>}
      <table>
        <tbody>
          {conditions.map((c) => (
            <tr key={c.type}>
              <th scope="row">{c.type}<span class="status">{c.status}</span></th>
              <td>
                <code>{c.reason}</code>
                <span>{plainText(c.message, 2000)}</span>
                <span class="faint">since <At time={millis(c.lastTransitionTime)} /></span>
              </td>
            </tr>
          ))}
          {readings.map((r, i) => (
            <tr key={i}>
              <th scope="row">{r.name || `metric ${i + 1}`}</th>
              <td>{r.text}<span class="faint">over all members</span></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** What the fleet is, and what becomes of its members. */
function SpecCard(props: { fleet: Fleet }) {
  const spec = props.fleet.spec ?? {};
  const lines: [string, string][] = [];
  const say = (key: string, value: string | undefined) => value && lines.push([key, value]);
  const after = (d: unknown) => (seconds(d) === undefined ? undefined : duration(seconds(d)! * 1000));
  say("stale after", after(spec.staleAfter));
  say("lost after", after(spec.lostAfter));
  say("a lost member's share", spec.onLost);
  say("survives one", spec.surviveOne ? "yes" : undefined);
  say("moves at most", spec.maxMoves ? integer(spec.maxMoves) : undefined);
  for (const [metric, scope] of Object.entries(spec.scopes ?? {})) say(plainText(metric, 253), scope);
  return (
    <section class="card spec">
      <header><h2>The fleet's spec</h2></header>
      <dl>
        {lines.map(([key, value]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p class="faint small">What is left out is the default. <code>setpoint specs get {props.fleet.name}</code> has all.</p>
    </section>
  );
}

function NoFleet(props: { name: string }) {
  return (
    <div class="empty">
      <h1>This is no fleet</h1>
      <p class="mono">{props.name}</p>
      <p>No spec with members is stored under this name.</p>
      <p><a href={targetPath(props.name)}>The target of this name</a> · <a href={base}>All targets</a></p>
    </div>
  );
}
