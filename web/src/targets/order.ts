// Which rows are shown, in which order and in which groups, and the same as a table for a spreadsheet.

import { serviceNow } from "../api/client";
import { lacking } from "../lib/decisions";
import { AtMin, Broken, Changed, Pending, Unknown, states } from "../lib/state";
import { plainText } from "../lib/text";
import { matcher, type Column, type ListQuery } from "./query";
import type { Row } from "./store";

/** What a row lacks; undefined: not known. */
export const lack = (r: Row): number | undefined => (r.wants === undefined || r.desired === undefined ? undefined : lacking(r.wants, r.desired));

const unknownLast = (n: number | undefined): number => (n === undefined || Number.isNaN(n) ? -1 : n);

/** How rows compare, but for names: the bits of states are in the order of their urgency. */
const keys: Record<Exclude<Column, "name">, (r: Row) => number> = {
  state: (r) => (r.bits & ~(Changed | Pending | AtMin | Unknown)) * 1e6 + Math.min(999_999, unknownLast(lack(r)) + 1),
  replicas: (r) => unknownLast(r.desired),
  lack: (r) => unknownLast(lack(r)),
  metric: (r) => unknownLast(r.metricNumber),
  changed: (r) => r.changed,
  updated: (r) => r.updated,
};

/** The rows that a query asks for, in its order; each shadow follows its target. */
export function select(rows: readonly Row[], q: ListQuery): Row[] {
  const matches = matcher(q.text);
  let out = rows.filter((r) => (q.filter === 0 || (r.bits & q.filter) !== 0) && (q.text === "" || matches(r.searched)));
  // Rows are nearly in this order already, which makes it cheap; sorting keeps it where keys are equal.
  const sign = q.descending ? -1 : 1;
  const names = q.sort === "name" ? sign : 1;
  out.sort((a, b) => (a.name < b.name ? -names : a.name > b.name ? names : 0));
  if (q.sort !== "name") {
    const key = keys[q.sort];
    const keyed = out.map((row) => ({ row, key: sign * key(row) }));
    keyed.sort((a, b) => a.key - b.key);
    out = keyed.map((k) => k.row);
  }
  const shadows = new Map(out.filter((r) => r.shadows).map((r) => [r.shadows, r]));
  if (shadows.size === 0) return out;
  const there = new Set(out.map((r) => r.name));
  return out.flatMap((r) => (r.shadows && there.has(r.shadows) ? [] : shadows.has(r.name) ? [r, shadows.get(r.name)!] : [r]));
}

/** The sums of a cluster's or a namespace's rows. Shadows change nothing, and fleets have the replicas of their members: they are not in them. */
export interface Group {
  key: string;
  targets: number;
  replicas: number;
  /** What was decided, and what the metrics ask for where that is known. */
  decided: number;
  wanted: number;
  /** Targets whose count is not known. */
  unknown: number;
  broken: number;
  rows: Row[];
}

/** Rows by cluster, or by namespace of a cluster, in the order of their first rows. */
export function grouped(rows: readonly Row[], by: "cluster" | "namespace"): Group[] {
  const groups = new Map<string, Group>();
  for (const r of rows) {
    const key = by === "cluster" ? r.cluster : `${r.cluster}/${r.namespace}`;
    let g = groups.get(key);
    if (!g) groups.set(key, (g = { key, targets: 0, replicas: 0, decided: 0, wanted: 0, unknown: 0, broken: 0, rows: [] }));
    g.rows.push(r);
    if (r.shadows || r.fleet) continue;
    g.targets++;
    g.replicas += r.current ?? 0;
    g.decided += r.desired ?? 0;
    g.wanted += r.wants ?? r.desired ?? 0;
    if (r.current === undefined) g.unknown++;
    if (r.bits & Broken) g.broken++;
  }
  return [...groups.values()];
}

/** A cell of a spreadsheet: text that a program would take for a formula is quoted, as text, and nothing in it is hidden. */
function cell(value: string | number | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const shown = plainText(value, 4096);
  const text = /^[=+\-@＝＋－＠]/.test(shown) ? `'${shown}` : shown;
  return /[",;]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

const instant = (s: number): string => (s > 0 ? new Date(s * 1000).toISOString() : "");

/** Rows as CSV, with what is not known left empty. */
export function csv(rows: readonly Row[]): string {
  const head = ["cluster", "namespace", "target", "kind", "states", "replicas", "decided", "min", "max", "wanted", "lack", "metric", "value", "target_value", "last_asked", "last_changed", "seconds_since_asked", "reason"];
  const now = serviceNow() / 1000;
  const lines = rows.map((r) =>
    [
      r.cluster, r.namespace, r.target, r.fleet ? "fleet" : r.kind, states.filter((s) => r.bits & s.bit).map((s) => s.id).join(" "), r.current, r.desired, r.min, r.max, r.wants, lack(r),
      r.metricName, r.metric, r.goal, instant(r.updated), instant(r.changed), r.updated > 0 ? Math.max(0, Math.round(now - r.updated)) : undefined, r.whyLong || r.why,
    ].map(cell).join(","),
  );
  return `${[head.join(","), ...lines].join("\r\n")}\r\n`;
}

/** The words of a row's states. */
export const stateWords = (bits: number): string => states.filter((s) => bits & s.bit & ~Changed).map((s) => s.chip).join(", ") || "Steady";
