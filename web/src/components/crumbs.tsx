import type { Link } from "../api/watch";
import { parseName } from "../lib/names";
import { base } from "../router";
import { LiveMark } from "./live";

/** Where a target or a fleet is, and whether its decisions arrive as they are made. */
export function Crumbs(props: { name: string; link: Link }) {
  const { cluster, namespace } = parseName(props.name);
  return (
    <nav class="crumbs" aria-label="Where">
      <a href={base}>Targets</a>
      <span aria-hidden="true">/</span>
      <a href={`${base}?q=${encodeURIComponent(cluster)}`}>{cluster}</a>
      <span aria-hidden="true">/</span>
      <a href={`${base}?q=${encodeURIComponent(`${namespace} ${cluster}`)}`}>{namespace}</a>
      <LiveMark link={props.link} />
    </nav>
  );
}
