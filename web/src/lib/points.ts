// Points of charts.

import type { Decision } from "../api/types";
import { millis } from "./format";

/** The columns, as uPlot has them, of several series with instants of their own, s. */
export function columns(series: readonly (readonly [number, number][])[]): [number[], ...(number | null)[][]] {
  const times = [...new Set(series.flatMap((s) => s.map((p) => p[0])))].sort((a, b) => a - b);
  const place = new Map(times.map((t, i) => [t, i]));
  return [
    times,
    ...series.map((s) => {
      const column: (number | null)[] = new Array(times.length).fill(null);
      for (const [t, v] of s) column[place.get(t)!] = v;
      return column;
    }),
  ];
}

/** The decision that is nearest to an instant, s; changes pull more than others. */
export function nearest(decisions: readonly Decision[], x: number): Decision | undefined {
  let best: Decision | undefined;
  let least = Infinity;
  for (const d of decisions) {
    const distance = Math.abs(millis(d.time) / 1000 - x) * (d.desiredReplicas !== d.currentReplicas ? 0.4 : 1);
    if (distance < least) [best, least] = [d, distance];
  }
  return best;
}
