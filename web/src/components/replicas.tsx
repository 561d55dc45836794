import { brief, integer, largest } from "../lib/format";

/** "3", or "3 → 5" with an arrow that tells the direction; "?" where the count is not known. short: large counts are rounded, and told whole by the pointer. */
export function Replicas(props: { from: number | undefined; to: number | undefined; short?: boolean }) {
  const { from, to } = props;
  const shown = props.short ? brief : integer;
  const whole = props.short && Math.max(from ?? 0, to ?? 0) > largest ? integer(from ?? 0) + (to === undefined || to === from ? "" : ` → ${integer(to)}`) : undefined;
  if (from === undefined) return <span class="count faint" title="The count is not known.">?</span>;
  if (to === undefined || from === to) return <span class="count" title={whole}>{shown(from)}</span>;
  const up = to > from;
  return (
    <span class="count" title={whole}>
      {shown(from)}
      <span class={up ? "to up" : "to down"}>
        <span aria-hidden="true">{up ? "↗" : "↘"}</span>
        <span class="visually-hidden">{up ? "scales up to" : "scales down to"}</span>
        {shown(to)}
      </span>
    </span>
  );
}
