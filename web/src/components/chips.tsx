import { Changed, states } from "../lib/state";

/** The states of a target, most urgent first. */
export function Chips(props: { bits: number; most?: number }) {
  const on = states.filter((s) => props.bits & s.bit & ~Changed);
  if (on.length === 0) return <span class="chip ok"><i aria-hidden="true">✓</i>Steady</span>;
  const shown = on.slice(0, props.most ?? on.length);
  return (
    <>
      {shown.map((s) => (
        <span key={s.id} class={`chip ${s.tone}`} title={s.help}>
          <i aria-hidden="true">{s.mark}</i>
          {s.chip}
        </span>
      ))}
      {on.length > shown.length && <span class="chip calm" title={on.slice(shown.length).map((s) => s.chip).join(", ")}>+{on.length - shown.length}</span>}
    </>
  );
}
