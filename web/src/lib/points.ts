// Points of charts.

import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { changes } from "./decisions";
import { millis } from "./format";

/** An instant, s, and the value from then on; null: there is none. */
export type Point = readonly [number, number | null];

/** The columns, as uPlot has them, of several series with instants of their own: undefined where a series has none, null from where it is interrupted. */
export function columns(series: readonly (readonly Point[])[]): [number[], ...(number | null | undefined)[][]] {
  const times = [...new Set(series.flatMap((s) => s.map((p) => p[0])))].sort((a, b) => a - b);
  return [
    times,
    ...series.map((s) => {
      const values = new Map(s);
      let gap = false;
      return times.map((t) => {
        const v = values.get(t);
        if (v !== undefined) gap = v === null;
        return gap ? null : v;
      });
    }),
  ];
}

/** The decision that is nearest to an instant, s; one that changes the count, if it is as near as a marker is wide. */
export function nearest(decisions: readonly Decision[], x: number, marker = 0): Decision | undefined {
  let best: Decision | undefined;
  let least = Infinity;
  for (const d of decisions) {
    const distance = Math.abs(millis(d.time) / 1000 - x);
    const judged = changes(d) && distance <= marker ? distance - marker : distance;
    if (judged < least) [best, least] = [d, judged];
  }
  return best;
}

/** Steps from one instant to another: each holds until the next, also the last one before. */
export function between(of: readonly Point[], from: number, to: number): Point[] {
  const before = of.filter((q) => q[0] < from).at(-1);
  const shown: Point[] = before ? [[from, before[1]]] : [];
  for (const q of of) if (q[0] >= from && q[0] <= to) shown.push(q);
  if (shown.length > 0) shown.push([to, shown.at(-1)![1]]);
  return shown;
}

/** Seconds of a day. */
export const day = 86_400;

/** The steps of the day before, at the same time of day; clocks that were changed meanwhile are none. */
export const dayBefore = (of: readonly Point[], from: number, to: number): Point[] => between(of, from - day, to - day).map(([t, n]) => [t + day, n]);

/** The places of values that no line leads to or from: those beside them are missing. */
export function alone(values: ArrayLike<number | null | undefined>): number[] {
  const known = Array.from(values).flatMap((v, i) => (v === undefined ? [] : [i])); // undefined: of other series only
  const missing = (k: number) => known[k] === undefined || values[known[k]!] === null;
  return known.filter((i, k) => values[i] !== null && missing(k - 1) && missing(k + 1));
}
