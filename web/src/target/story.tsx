// Why a decision is what it is.

import { useEffect, useRef } from "preact/hooks";
import type { DecisionJson as Decision, ExplanationJson as Explanation, SpecInUseJson as SpecInUse } from "@setpoint-dev/client/json";
import { Adjustments, Plain } from "../components/adjustments";
import { Ago, At } from "../components/time";
import { count, integer, millis } from "../lib/format";
import { adjustments } from "../lib/adjustments";
import { steps, sum } from "../lib/explained";
import { reading, wanted } from "../lib/metrics";
import { story } from "../lib/story";

interface StoryProps {
  target: string;
  decision: Decision;
  chosen: boolean;
  /** Of this decision; undefined: not kept. */
  explanation: Explanation | undefined;
  spec: SpecInUse | undefined;
  now: number;
  back: () => void;
}

export function StoryCard(props: StoryProps) {
  const { decision: d, chosen, explanation, now } = props;
  const s = story(d, props.target);
  // What adjustments say is told once, with the stage and until when.
  const told = new Set(adjustments(d).map((a) => a.text));
  const adjusted = <Adjustments decision={d} />;
  const first = told.has(s.because[0]?.text ?? "");
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (chosen && matchMedia("(max-width: 960px)").matches) head.current?.scrollIntoView({ block: "nearest" });
  }, [d.recommendationId, chosen]);
  return (
    <section class={`card story tone-${s.tone}`}>
      <header>
        <span class="eyebrow">{chosen ? "The decision you chose" : "Now"}</span>
        {chosen && <button class="button quiet" onClick={props.back}>Back to now</button>}
      </header>
      <div aria-live="polite">{/* What else changes does so with each decision, and as time passes. */}
        <h2 ref={head}>{s.head} <Plain decision={d} /></h2>
        {first && adjusted}
        <ul class="because">
          {s.because.filter((b) => !told.has(b.text)).map((b) => <li key={b.text} class={b.tone}>{b.text}</li>)}
        </ul>
      </div>
      {!first && adjusted}
      <p class="muted">
        Decided for <At time={millis(d.time)} /> (<Ago time={millis(d.time)} now={now} />). {s.outcome[1]}
      </p>
      <Sums {...props} />
      {explanation && <Steps explanation={explanation} />}
      <details class="conditions" open={chosen}>
        <summary>Conditions</summary>
        <table>
          <tbody>
            {(d.conditions ?? []).map((c) => (
              <tr key={c.type}>
                <th scope="row">
                  {c.type}
                  <span class={`status ${(c.status ?? "").toLowerCase()}`}>{c.status}</span>
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

/** What each metric read and asked for; the way there where the decision's trace is known. */
function Sums(props: StoryProps) {
  const { decision: d, explanation, spec } = props;
  const traced = explanation?.metrics ?? [];
  const metrics = traced.length || (d.currentMetrics?.length ?? 0);
  if (metrics === 0) return null;
  // Targets are those of this decision only if it had the same spec.
  const targets = spec && d.specHash === spec.hash ? spec.spec?.metrics : undefined;
  return (
    <dl class="sums">
      {Array.from({ length: metrics }, (_, i) => {
        const m = d.currentMetrics?.[i];
        const got = m ? reading(m) : undefined;
        const s = traced[i] && sum(traced[i]);
        const want = s?.target ?? (targets?.[i] ? wanted(targets[i]).text : "");
        const asks = s ? s.proposal : d.basis?.metricProposals?.[i];
        return (
          <div key={i}>
            <dt>{got?.name || traced[i]?.name || (targets?.[i] && wanted(targets[i]).name) || `metric ${i + 1}`}</dt>
            <dd>
              <strong>{s?.reading ?? got?.text}</strong>
              {want && <span class="muted"> of {want}</span>}
              {s?.lines.map((l) => <span key={l} class="sum">{l}</span>)}
              {s?.error && <span class="sum">{s.error}</span>}
              {asks !== undefined && asks >= 0 && <span class="sum asks">asks for {count(asks, "replica")}</span>}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

/** From what the metrics ask for to what was decided. */
function Steps(props: { explanation: Explanation }) {
  const { explanation: e } = props;
  const all = steps(e);
  return (
    <>
      {all.length > 0 && (
        <dl class="steps" aria-label="How the count came about">
          {all.map((s) => (
            <div key={s.what} class={s.held ? "held" : ""}>
              <dt>{s.what}</dt>
              <dd>
                <strong>{s.count === undefined ? "no limit" : integer(s.count)}</strong>
                {s.how.map((h) => <span key={h} class="muted">{h}</span>)}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {e.warnings?.map((w) => <p key={w} class="muted">{w}</p>)}
    </>
  );
}
