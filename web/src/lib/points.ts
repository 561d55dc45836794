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

/** Of each instant of the span the safest count that was proposed within the window before it. */
export function safest(asked: readonly (readonly [number, number])[], seconds: number, safer: (...n: number[]) => number, span: { from: number; now: number }): [number, number][] {
  if (asked.length === 0) return [];
  // Where it can change: when a count is proposed, and when that leaves the window.
  const times = [...new Set([...asked.map((p) => p[0]), ...asked.map((p) => p[0] + seconds)])].filter((t) => t >= span.from && t <= span.now).sort((a, b) => a - b);
  const out: [number, number][] = [];
  let first = 0;
  let next = 0;
  for (const t of [...times, span.now]) {
    while (next < asked.length && asked[next]![0] <= t) next++;
    while (first < next - 1 && asked[first]![0] <= t - seconds) first++;
    if (next === 0) continue;
    let n = asked[next - 1]![1];
    for (let i = first; i < next; i++) n = safer(n, asked[i]![1]);
    out.push([t, n]);
  }
  return out;
}
