import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { integer } from "../lib/format";

/** How many of a long list are shown, and the button for more. What is searched begins anew. */
export function useMore(all: number, step: number, searched: string): [number, VNode | false] {
  const [pages, setPages] = useState(1);
  useEffect(() => setPages(1), [searched]);
  const shown = Math.min(all, pages * step);
  return [shown, shown < all && <button class="button" onClick={() => setPages(pages + 1)}>Show {integer(Math.min(step, all - shown))} more</button>];
}
