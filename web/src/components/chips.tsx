import { AtMax, AtMin, Failing, Flapping, Held, Limited, Pending } from "../lib/state";

const kinds: readonly { bit: number; kind: string; mark: string; text: string }[] = [
  { bit: Failing, kind: "failing", mark: "✕", text: "Failing" },
  { bit: AtMax, kind: "atmax", mark: "⊤", text: "At max" },
  { bit: Limited, kind: "limited", mark: "≈", text: "Limited" },
  { bit: Held, kind: "held", mark: "‖", text: "Held" },
  { bit: Flapping, kind: "flapping", mark: "⇅", text: "Flapping" },
  { bit: Pending, kind: "calm", mark: "…", text: "Pending" },
  { bit: AtMin, kind: "calm", mark: "⊥", text: "At min" },
];

/** The states of a target, most urgent first. */
export function Chips(props: { bits: number; most?: number }) {
  const on = kinds.filter((k) => props.bits & k.bit);
  if (on.length === 0) return <span class="chip ok"><i aria-hidden="true">✓</i>Steady</span>;
  const shown = on.slice(0, props.most ?? on.length);
  return (
    <>
      {shown.map((k) => (
        <span key={k.kind + k.mark} class={`chip ${k.kind}`}>
          <i aria-hidden="true">{k.mark}</i>
          {k.text}
        </span>
      ))}
      {on.length > shown.length && <span class="chip calm" title={on.slice(shown.length).map((k) => k.text).join(", ")}>+{on.length - shown.length}</span>}
    </>
  );
}
