// Series of a run, as they are drawn.

import type { Run } from "./engine";

/** So many ranges follow a noisy series: lines of each value are a hedge. */
const ranges = 400;

/** The least and the highest value of each range, at all its points. */
export function envelope(values: readonly (number | null)[]): [(number | null)[], (number | null)[]] {
  const size = Math.max(1, Math.ceil(values.length / ranges));
  const low: (number | null)[] = [], high: (number | null)[] = [];
  for (let i = 0; i < values.length; i += size) {
    const known = values.slice(i, i + size).filter((v): v is number => v !== null);
    const n = Math.min(size, values.length - i);
    low.push(...new Array<number | null>(n).fill(known.length ? Math.min(...known) : null));
    high.push(...new Array<number | null>(n).fill(known.length ? Math.max(...known) : null));
  }
  return [low, high];
}

/** The step of the point that is nearest to an instant: the one that the legend tells. */
export function nearest(run: Pick<Run, "at" | "stride">, at: number): number {
  let best = 0;
  run.at.forEach((t, i) => {
    if (Math.abs(t - at) < Math.abs(run.at[best]! - at)) best = i;
  });
  return best * run.stride;
}
