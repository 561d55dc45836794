import { integer } from "../lib/format";

/** "3", or "3 → 5" with an arrow that tells the direction. */
export function Replicas(props: { from: number; to: number }) {
  const { from, to } = props;
  if (from === to) return <span class="count">{integer(from)}</span>;
  const up = to > from;
  return (
    <span class="count">
      {integer(from)}
      <span class={up ? "to up" : "to down"}>
        <span aria-hidden="true">{up ? "↗" : "↘"}</span>
        <span class="visually-hidden">{up ? "scales up to" : "scales down to"}</span>
        {integer(to)}
      </span>
    </span>
  );
}
