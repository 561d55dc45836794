// What comes next if the metrics stay, as the service's engine computed it.

import type { OutlookBoundsJson as Ahead, OutlookHoldJson as Hold, OutlookJson as Outlook, TargetJson as Target } from "@setpoint-dev/client/json";
import { Ago } from "../components/time";
import { count, duration, integer, localClock, localTime, millis, seconds, utc } from "../lib/format";
import { boundsText, events } from "./charts";
import type { Asked } from "./view";

/** What to do about a problem, by the condition's reason. */
const advice: Readonly<Record<string, string>> = {
  ScalingDisabled: "Somebody set the count to 0. Set it to 1 or more, and it is scaled again.",
  FailedGetScale: "The caller can't read the workload's scale: look at the agent's rights, and whether the workload exists.",
  InvalidSelector: "Give the workload a selector that its pods match.",
  AmbiguousSelector: "Several autoscalers select the same pods: give each workload pods of its own.",
};

/** What keeps the count, in words; the condition's reason where there are none. */
function held(h: Hold): string {
  const limit = h.limitReplicas === undefined ? "" : ` of ${integer(h.limitReplicas)}`;
  const window = h.windowSeconds ? ` of ${duration(h.windowSeconds * 1000)}` : "";
  switch (h.reason) {
    case "ScaleDownStabilized":
      return `held by a higher recommendation in the window${window}`;
    case "ScaleUpStabilized":
      return `held by a lower recommendation in the window${window}`;
    case "ScaleUpLimit":
    case "ScaleDownLimit":
      return `held by the policies' limit${limit}`;
    case "TooManyReplicas":
      return `held by the maximum${limit}`;
    case "Overridden":
      return "held by an override";
    case "TooFewReplicas":
      return `held by the minimum${limit}`;
  }
  return `held: ${h.reason ?? ""}${limit}${window}`;
}

export function NextCard(props: { target: Target; asked: Asked; now: number }) {
  const { target, asked, now } = props;
  const pending = target.history?.pending;
  const every = seconds(target.outlook?.interval);
  return (
    <section class="card next">
      <header><span class="eyebrow">When it could next change</span></header>
      {pending && (
        <p class="pending-note">
          A change to {integer(pending.desiredReplicas ?? 0)} is not yet reported as applied (since <Ago time={millis(pending.time)} now={now} />).
        </p>
      )}
      <Coming {...props} />
      {!asked.missed && <Scheduled all={target.outlook?.bounds ?? []} now={now} />}
      {target.outlook && !asked.missed && !target.outlook.problem && (
        <p class="faint small">
          By the service's engine, from the history it keeps and the spec in use{every ? `, with a call every ${duration(every * 1000)}` : ""}.
        </p>
      )}
    </section>
  );
}

/** When schedules start and end. */
function Scheduled(props: { all: readonly Ahead[]; now: number }) {
  const shown = events(props.all);
  if (shown.length === 0) return null;
  return (
    <>
      <h3>By the schedules</h3>
      <ol class="releases scheduled">
        {shown.map((b) => (
          <li key={`${b.time} ${b.event}`}>
            <Clock time={millis(b.time)} now={props.now} />
            <span>{boundsText(b)}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function Coming(props: { target: Target; asked: Asked; now: number }) {
  const { target, asked, now } = props;
  const o = target.outlook;
  if (asked.missed) {
    return <p>Nobody asks for this target any more, so <strong>Setpoint changes nothing</strong>. Its agent does not run, gives way to another autoscaler, or is refused. The outlook is unknown until somebody asks again.</p>;
  }
  if (!o) {
    return (
      <p>
        <strong>Unknown.</strong> {target.specInUse ? "The history that it depends on can't be read, or is not known yet." : "The spec in use is unknown until the next decision of this service; one of an older version does not keep it."}
      </p>
    );
  }
  if (o.problem) {
    const why = [...(target.lastDecision?.conditions ?? []), ...(target.status?.conditions ?? [])].find((c) => c.reason === o.problem);
    if (/ /.test(o.problem)) { // a sentence, no condition's reason
      return <p><strong>Unknown:</strong> {o.problem}.</p>;
    }
    return (
      <>
        <p><strong>Nothing can change:</strong> {why?.message || o.problem}</p>
        <p class="small muted">{advice[o.problem] ?? "It can be decided again once this is mended."}</p>
      </>
    );
  }
  return <Ahead outlook={o} now={now} />;
}

function Ahead(props: { outlook: Outlook; now: number }) {
  const { outlook: o, now } = props;
  const current = o.replicas ?? 0;
  const [lowest, highest] = [o.lowestReplicas ?? 0, o.highestReplicas ?? 0];
  const changes = o.changes ?? [];
  return (
    <>
      {o.hold && (
        <p class="hold">
          {o.proposal === undefined ? `${count(current, "replica")}: ` : <>The metrics ask for <strong>{integer(o.proposal)}</strong>, the count is {integer(current)}: </>}
          {held(o.hold)}{o.hold.untilTime && <>, until <Clock time={millis(o.hold.untilTime)} now={now} /> at most</>}.
        </p>
      )}
      <dl>
        <div>
          <dt><span class="up-mark" aria-hidden="true">▲</span>Up</dt>
          <dd>{highest > current ? <>Can rise with the next decision, to at most <strong>{integer(highest)}</strong>.</> : <>Can't rise with the next decision.</>}</dd>
        </div>
        <div>
          <dt><span class="down-mark" aria-hidden="true">▼</span>Down</dt>
          <dd>{lowest < current ? <>Can fall with the next decision, to no less than <strong>{integer(lowest)}</strong>.</> : <>Can't fall with the next decision.</>}</dd>
        </div>
      </dl>
      <h3>If the metrics {o.proposal === undefined ? "stay as they are" : `keep asking for ${integer(o.proposal)}`}</h3>
      <ol class="releases">
        {changes.map((c) => (
          <li key={c.time}>
            <Clock time={millis(c.time)} now={now} />
            <span>
              <strong>{c.doubtful ? "about " : ""}{integer(c.replicas ?? 0)}</strong>
              {c.hold && <span class="faint small"> {held(c.hold)}</span>}
            </span>
          </li>
        ))}
        <li class="faint">
          {o.untilTime
            ? <span>Nothing is known from <Clock time={millis(o.untilTime)} now={now} /> on{o.untilReason ? `: ${o.untilReason}` : ""}.</span>
            : changes.length > 0 ? "Then it stays." : `It stays at ${integer(current)}.`}
        </li>
      </ol>
    </>
  );
}

function Clock(props: { time: number; now: number }) {
  const left = props.time - props.now;
  return (
    <time dateTime={new Date(props.time).toISOString()} title={utc(props.time)}>
      {props.time - props.now > 12 * 3600e3 ? localTime(props.time) : localClock(props.time)} <span class="muted">({left > 0 ? `in ${duration(left)}` : "now"})</span>
    </time>
  );
}
