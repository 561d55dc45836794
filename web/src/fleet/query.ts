// The list's state in the URL: search, filters, sort.

import { states } from "../lib/state";

export type Column = "name" | "state" | "replicas" | "metric" | "changed" | "updated";
export const columns: readonly Column[] = ["name", "state", "replicas", "metric", "changed", "updated"];

export interface FleetQuery {
  text: string;
  /** Bits of states, any of which is enough; 0: all targets. */
  filter: number;
  sort: Column;
  descending: boolean;
}

export function parseQuery(q: URLSearchParams): FleetQuery {
  let filter = 0;
  for (const id of (q.get("state") ?? "").split(",")) filter |= states.find((s) => s.id === id)?.bit ?? 0;
  const raw = q.get("sort") ?? "";
  const descending = raw.startsWith("-");
  const sort = columns.find((c) => c === raw.replace(/^-/, "")) ?? "name";
  return { text: (q.get("q") ?? "").slice(0, 200), filter, sort, descending: raw !== "" && descending };
}

/** The query's text, without what is as by itself. */
export function formatQuery(q: FleetQuery): string {
  const out = new URLSearchParams();
  if (q.text) out.set("q", q.text);
  const ids = states.filter((s) => q.filter & s.bit).map((s) => s.id);
  if (ids.length) out.set("state", ids.join(","));
  if (q.sort !== "name" || q.descending) out.set("sort", (q.descending ? "-" : "") + q.sort);
  const text = out.toString().replace(/%2C/g, ",");
  return text ? `?${text}` : "";
}

/** A test of a text against the search: every word has to be in it. */
export function matcher(text: string): (searched: string) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (searched) => words.every((w) => searched.includes(w));
}
