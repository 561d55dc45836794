import { integer } from "../lib/format";

/** "3", or "3 → 5" with an arrow that tells the direction; "?" where the count is not known. */
export function Replicas(props: { from: number | undefined; to: number | undefined }) {
  const { from, to } = props;
  if (from === undefined) return <span class="count faint" title="The count is not known.">?</span>;
  if (to === undefined || from === to) return <span class="count">{integer(from)}</span>;
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
