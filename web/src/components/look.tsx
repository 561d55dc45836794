import type { Look } from "../lib/fleet";

/** A state as a chip: a mark, a word, and its sentence on hover. */
export function LookChip(props: { look: Look }) {
  const { mark, label, tone, help } = props.look;
  return <span class={`chip ${tone}`} title={help}><i aria-hidden="true">{mark}</i>{label}</span>;
}
