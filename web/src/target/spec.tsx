// The spec in use, and the stored one where callers send another.

import type { HorizontalPodAutoscalerSpecJson as Spec, HPAScalingRulesJson as ScalingRules, RecommendOptionsJson as Options, StagesJson as Stages, TargetJson as Target } from "@setpoint-dev/client/json";
import { At } from "../components/time";
import { Copyable } from "../components/copy";
import { duration, integer, millis, seconds } from "../lib/format";
import { wanted } from "../lib/metrics";
import { shadowLine } from "../lib/shadows";

/** What the API writes for a stage's field that was left out. */
const isLeftOut = (value: unknown): boolean => value === "" || value === false || value === 0 || (Array.isArray(value) && value.length === 0);

/** A duration in words, anything else as it is. */
const length = <T,>(value: T): T | string => (seconds(value) === undefined ? value : duration(seconds(value)! * 1000));

/** A spec and its options as lines, as they were written: what is left out is the profile's default. */
export function lines(spec: Spec, options: Options | undefined, stages?: Stages): [key: string, value: string][] {
  const out: [string, string][] = [];
  const say = (key: string, value: unknown) => value !== undefined && value !== null && value !== "" && out.push([key, typeof value === "number" ? integer(value) : String(value)]);
  say("minReplicas", spec.minReplicas);
  say("maxReplicas", spec.maxReplicas);
  for (const m of spec.metrics ?? []) {
    const w = wanted(m);
    say(`${w.type} ${w.name}`, w.text);
  }
  const rules = (way: string, r: ScalingRules | undefined) => {
    say(`${way} window`, r?.stabilizationWindowSeconds === undefined ? undefined : duration(r.stabilizationWindowSeconds * 1000));
    const each = (r?.policies ?? []).map((p) => `${integer(p.value ?? 0)}${p.type === "Percent" ? " %" : ""} per ${duration((p.periodSeconds ?? 0) * 1000)}`);
    say(each.length > 1 ? `${way} policies` : `${way} policy`, each.join(", "));
    say(`${way} selects`, r?.selectPolicy);
    say(`${way} tolerance`, r?.tolerance);
  };
  rules("scaleUp", spec.behavior?.scaleUp);
  rules("scaleDown", spec.behavior?.scaleDown);
  for (const [key, value] of Object.entries(options ?? {})) say(key, length(value));
  for (const s of stages?.schedules ?? []) {
    const bounds = [s.minReplicas === undefined ? "" : `at least ${integer(s.minReplicas)}`, s.maxReplicas === undefined ? "" : `at most ${integer(s.maxReplicas)}`].filter(Boolean).join(", ");
    say(`schedule ${s.name ?? ""}`, `${s.suspended ? "suspended: " : ""}${bounds}, from ${s.cron || s.at} ${s.duration ? `for ${length(s.duration)}` : `to ${s.endCron ?? ""}`} (${s.timeZone ?? ""})`);
  }
  // The others as they were written.
  for (const [key, value] of Object.entries(stages ?? {})) {
    if (key !== "schedules" && !isLeftOut(value)) say(key, typeof value === "object" ? JSON.stringify(value, (_, v: unknown) => (isLeftOut(v) ? undefined : length(v))).slice(0, 400) : value);
  }
  return out;
}

function Lines(props: { spec: Spec; options: Options | undefined; stages: Stages | undefined }) {
  const { spec, options, stages } = props;
  return (
    <>
      <dl>
        {lines(spec, options, stages).map(([key, value]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p class="faint small">What is left out is the default.</p>
      <details>
        <summary>As JSON</summary>
        <Copyable text={JSON.stringify(options || stages ? { spec, options, stages } : spec, null, 2)} label="The spec as JSON" />
      </details>
    </>
  );
}

export function SpecCard(props: { target: Target; name: string }) {
  const { specInUse: used, targetSpec: stored } = props.target;
  const differs = used?.spec && stored?.spec && stored.hash !== used.hash;
  const since = differs && millis(stored.updateTime) > millis(props.target.lastDecision?.time);
  const kept = stored?.spec && <span class="faint small">stored <At time={millis(stored.updateTime)} />{stored.updatedBy ? ` by ${stored.updatedBy}` : ""}</span>;
  return (
    <section class="card spec">
      <header>
        <h2>Spec in use</h2>
        {differs || !stored ? used?.sinceTime && <span class="faint small">since <At time={millis(used.sinceTime)} /></span> : kept}
      </header>
      {differs && <p class="differs">{since ? "Another spec is stored since the last decision. The next poll uses it." : "Callers send another spec than the stored one. Decisions follow what they send."}</p>}
      {used?.spec ? <Lines spec={used.spec} options={used.options} stages={used.stages} /> : <p>Unknown until the next decision of this service. One of an older version does not keep it.</p>}
      {stored?.spec && (differs || !used?.spec) && (
        <details class="stored">
          <summary>The stored spec</summary>
          {kept}
          <Lines spec={stored.spec} options={stored.options} stages={stored.stages} />
          <Copyable text={`setpoint specs get ${props.name}`} label="A command to copy" />
        </details>
      )}
      {props.target.shadows?.map((s) => (
        <p class="small" key={s.name}>
          Shadow <b>{s.name}</b>: {shadowLine(s)}
        </p>
      ))}
    </section>
  );
}
