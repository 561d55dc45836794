import type { Link } from "../api/watch";
import { integer } from "../lib/format";

const words: Readonly<Record<Link, string>> = { connecting: "Connecting…", live: "Live", lost: "Reconnecting…", polled: "Every 15 s", refused: "Refused" };

/** Whether decisions arrive as they are made; loaded: how many rows of a list are read so far, which is not whole yet. */
export function LiveMark(props: { link: Link; loaded?: number; missed?: number }) {
  const { link, loaded, missed } = props;
  const title =
    link === "live"
      ? `Decisions arrive as they are made.${missed ? ` ${integer(missed)} went by too fast and were read again from the list.` : ""}`
      : "What is shown is as of the last moment the service was reached.";
  return (
    <span class={`live is-${link}`} title={title} role="status">
      <i aria-hidden="true" />
      {loaded ? `Loading ${integer(loaded)}…` : words[link]}
    </span>
  );
}
