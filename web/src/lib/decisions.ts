// Decisions of one target, from the log and from the stream.

import type { Decision } from "../api/types";
import { millis } from "./format";

/** Decisions that are kept at once. */
export const most = 5000;

/** Puts decisions in their places: by time, each once, as it was told of last. */
export function merge(known: readonly Decision[], more: readonly Decision[]): Decision[] {
  const byId = new Map<string, Decision>();
  for (const d of [...known, ...more]) byId.set(d.recommendationId || `${d.time} ${d.desiredReplicas}`, d);
  return [...byId.values()].sort((a, b) => millis(a.time) - millis(b.time)).slice(-most);
}
