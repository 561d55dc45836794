import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { adjustments, plain } from "../lib/adjustments";
import { At } from "./time";

/** The stages that changed a decision, at most so many of them, each a chip with its sentence on hover. */
export function StageChips(props: { decision: Decision | undefined; most: number; but?: string }) {
  const all = props.decision ? adjustments(props.decision).filter((a) => a.stage !== props.but) : [];
  const rest = all.slice(props.most);
  return (
    <>
      {all.slice(0, props.most).map((a, i) => <span key={i} class={`chip ${a.tone}`} title={a.text}><i aria-hidden="true">◆</i>{a.stage}</span>)}
      {rest.length > 0 && <span class="chip calm" title={rest.map((a) => a.stage).join(", ")}>+{rest.length}</span>}
    </>
  );
}

/** "plain 8": the count without stages and overrides, where it is another one. */
export function Plain(props: { decision: Decision | undefined }) {
  const text = plain(props.decision);
  return text ? <span class="plain" title="Replicas without stages and overrides, from the same history">{text}</span> : null;
}

/** What stages and overrides changed, with until when. */
export function Adjustments(props: { decision: Decision }) {
  const all = adjustments(props.decision);
  if (all.length === 0) return null;
  return (
    <ul class="adjustments" aria-label="What stages and overrides changed">
      {all.map((a, i) => (
        <li key={i}>
          <span class={`chip ${a.tone}`}>{a.stage}</span>
          <span>{a.text}{a.until > 0 && <span class="faint"> until <At time={a.until} /></span>}</span>
        </li>
      ))}
    </ul>
  );
}
