// The list's state in the URL: search, filters, order, groups.

import { states } from "../lib/state";

export type Column = "name" | "state" | "replicas" | "lack" | "metric" | "changed" | "updated";
export const columns: readonly Column[] = ["name", "state", "replicas", "lack", "metric", "changed", "updated"];

/** What is most urgent comes first, unless the reader asks for another order. */
const usual = "-state";

/** What each order is called: ascending, and descending. */
const called: Record<Column, [string, string]> = {
  name: ["Name", "Name, from the last"],
  state: ["Least urgent", "Most urgent"],
  replicas: ["Fewest replicas", "Most replicas"],
  lack: ["Smallest lack", "Greatest lack"],
  metric: ["Lowest metric", "Highest metric"],
  changed: ["Longest unchanged", "Last changed"],
  updated: ["Longest not asked", "Last asked"],
};

/** All orders that a link may have, as its sort, with their names: the usual one first. */
export const orders: readonly (readonly [string, string])[] = columns
  .flatMap((c) => [[`-${c}`, called[c][1]], [c, called[c][0]]] as const)
  .sort((a, b) => Number(b[0] === usual) - Number(a[0] === usual));

export type Grouping = "" | "cluster" | "namespace";

export interface ListQuery {
  text: string;
  /** Bits of states, any of which is enough; 0: all targets. */
  filter: number;
  sort: Column;
  descending: boolean;
  group: Grouping;
  /** Whether the overrides are listed. */
  overrides: boolean;
  /** Whether the fleets are. */
  fleets: boolean;
}

export function parseQuery(q: URLSearchParams): ListQuery {
  let filter = 0;
  for (const id of (q.get("state") ?? "").split(",")) filter |= states.find((s) => s.id === id)?.bit ?? 0;
  const asked = q.get("sort") ?? "";
  const column = columns.find((c) => c === asked.replace(/^-/, ""));
  const group = q.get("group");
  return {
    text: (q.get("q") ?? "").slice(0, 200), filter, sort: column ?? "state", descending: column === undefined || asked.startsWith("-"),
    group: group === "cluster" || group === "namespace" ? group : "", overrides: q.has("overrides"), fleets: q.has("fleets"),
  };
}

/** A query's order as a link has it. */
export const order = (q: ListQuery) => (q.descending ? "-" : "") + q.sort;

/** The query's text, without what is as by itself. */
export function formatQuery(q: ListQuery): string {
  const out = new URLSearchParams();
  if (q.text) out.set("q", q.text);
  const ids = states.filter((s) => q.filter & s.bit).map((s) => s.id);
  if (ids.length) out.set("state", ids.join(","));
  const sort = order(q);
  if (sort !== usual) out.set("sort", sort);
  if (q.group) out.set("group", q.group);
  if (q.overrides) out.set("overrides", "");
  if (q.fleets) out.set("fleets", "");
  const text = out.toString().replace(/%2C/g, ",");
  return text ? `?${text}` : "";
}

/** A test of a text against the search: every word has to be in it. */
export function matcher(text: string): (searched: string) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (searched) => words.every((w) => searched.includes(w));
}
