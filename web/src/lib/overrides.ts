// Overrides: who may make them, what they do, and until when.

import type { CallerJson as Caller, OverrideJson as Override } from "@setpoint-dev/client/json";
import { integer, millis } from "./format";
import { plainText } from "./text";

/** What an override is of: clusters/…, clusters/…/namespaces/… or clusters/…/namespaces/…/targets/…. */
export type Place = string;

/** The place of an override, from its name. */
export const placeOf = (name: string): Place => name.replace(/\/overrides\/[^/]*$/, "");

/** The target itself, its namespace and its cluster. */
export function placesOf(target: string): { target: Place; namespace: Place; cluster: Place } {
  const s = target.split("/");
  return { target, namespace: s.slice(0, 4).join("/"), cluster: s.slice(0, 2).join("/") };
}

/** "target cart", "all of namespace shop", "all of cluster prod". */
export function placeWords(place: Place): string {
  const s = place.split("/");
  const of = plainText(s.at(-1), 253);
  return s.length > 4 ? `target ${of}` : s.length > 2 ? `all of namespace ${of}` : `all of cluster ${of}`;
}

/** Whether a pattern of the policy, in which * stands for any characters, matches. */
function matches(pattern: string, name: string): boolean {
  return new RegExp(`^${pattern.split("*").map((s) => s.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`, "s").test(name);
}

/** Whether a caller has the verb for a place; where not all is known of its rights, the service decides. */
export function mayOverride(caller: Caller | undefined, place: Place): boolean {
  if (!caller) return false;
  const [, cluster = "", , namespace] = place.split("/");
  return caller.permissionsTruncated === true || (caller.permissions ?? []).some((p) =>
    (p.verbs ?? []).includes("override") && (p.clusters ?? []).some((c) => matches(c, cluster)) &&
    (p.namespaces ?? []).some((n) => (namespace === undefined ? n === "*" : matches(n, namespace))));
}

export type Kind = "hold" | "pin" | "floor" | "ceiling" | "noScaleUp" | "noScaleDown";

/** The kinds, with their words and whether they have a number. */
export const kinds: readonly { kind: Kind; label: string; help: string; number?: true }[] = [
  { kind: "hold", label: "Hold", help: "keep the current replicas" },
  { kind: "pin", label: "Pin", help: "these replicas, at once: no window or policy delays it", number: true },
  { kind: "floor", label: "Floor", help: "no fewer replicas than this", number: true },
  { kind: "ceiling", label: "Ceiling", help: "no more replicas than this", number: true },
  { kind: "noScaleUp", label: "No scale-up", help: "add no replicas" },
  { kind: "noScaleDown", label: "No scale-down", help: "remove no replicas" },
];

/** "hold", or "floor 2, ceiling 8", in the words of the service's commands. */
export function what(o: Override): string {
  const numbers = (["pin", "floor", "ceiling"] as const).flatMap((k) => (typeof o[k] === "number" ? `${k} ${integer(o[k])}` : []));
  return [o.hold ? "hold" : "", ...numbers, o.noScaleDown ? "no scale-down" : "", o.noScaleUp ? "no scale-up" : ""].filter(Boolean).join(", ") || "of a newer kind";
}

/** Overrides that have not ended, those in force first, then by their end or begin. */
export function current(all: readonly Override[], now: number): { override: Override; planned: boolean }[] {
  const open = all.flatMap((override) => {
    const [start, end] = [millis(override.startTime), millis(override.expireTime)];
    return end <= now ? [] : [{ override, planned: start > now, at: start > now ? start : end }];
  });
  return open.sort((a, b) => Number(a.planned) - Number(b.planned) || a.at - b.at || (a.override.name ?? "").localeCompare(b.override.name ?? ""));
}

/** What the form has. */
export interface Draft {
  kind: Kind;
  /** As typed. */
  replicas: string;
  reason: string;
  /** Instants, ms of Unix time; NaN: none, or not readable. start is undefined for now. */
  start: number | undefined;
  end: number;
}

export const mostDays = 30;
export const mostReason = 256;

/** What the service takes for no character of one line of text for people (isHidden in server/overrides): all but graphic ones and joiners. */
const hidden = /[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\u200c\u200d]/u;

/** What is wrong with a draft, by field; empty: nothing. The service checks it again. */
export function wrong(d: Draft, now: number): Partial<Record<"replicas" | "reason" | "start" | "end", string>> {
  const out: ReturnType<typeof wrong> = {};
  if (kinds.find((k) => k.kind === d.kind)?.number && !(/^\d{1,10}$/.test(d.replicas.trim()) && Number(d.replicas) <= 2147483647)) out.replicas = "A whole number from 0 to 2147483647.";
  const bad = hidden.exec(d.reason.trim())?.[0].codePointAt(0);
  if (bad !== undefined) out.reason = `It must be one line of text: it has the character U+${bad.toString(16).toUpperCase().padStart(4, "0")}.`;
  else if (!d.reason.trim()) out.reason = "Say why: whoever finds it held will ask.";
  else if ([...d.reason.trim()].length > mostReason) out.reason = `At most ${mostReason} characters.`;
  const start = d.start ?? now;
  if (Number.isNaN(start)) out.start = "Give a date and a time.";
  else if (start > now + 365 * 86400e3) out.start = "At most 365 days from now.";
  if (Number.isNaN(d.end)) out.end = "Give a date and a time.";
  else if (d.end <= now) out.end = "It is over already: choose a later end.";
  else if (d.end <= start) out.end = "It must end after it begins.";
  else if (d.end - start > mostDays * 86400e3) out.end = `At most ${mostDays} days after it begins.`;
  return out;
}

/** An instant as the service writes it: "2026-11-26T14:00:00Z". */
export const instant = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** The override of a draft, for the service. */
export function made(d: Draft): Override {
  const number = kinds.find((k) => k.kind === d.kind)?.number;
  return {
    [d.kind]: number ? Number(d.replicas) : true, reason: d.reason.trim(), expireTime: instant(d.end),
    ...(d.start === undefined ? {} : { startTime: instant(d.start) }),
  };
}

/** What is known of a target that an override is to be for. */
export interface Known {
  replicas?: number;
  min?: number;
  max?: number;
}

/** What the answers will say while it acts, as the service does. */
export function sentence(d: Draft, author: string, target: Known): string {
  const n = Number(d.replicas);
  const limited = target.max !== undefined && n > target.max ? ` (limited to maxReplicas ${target.max})`
    : target.min !== undefined && n < target.min ? ` (limited to minReplicas ${target.min})` : "";
  const held = `held at ${target.replicas ?? "the current count"}`;
  const did: Record<Kind, string> = {
    hold: held, pin: `pinned to ${n}${n === target.replicas ? "" : limited}`, floor: `raised to the floor of ${n}${limited}`, ceiling: `lowered to the ceiling of ${n}${limited}`,
    noScaleUp: `${held} (no scale-up)`, noScaleDown: `${held} (no scale-down)`,
  };
  return `${did[d.kind]} by ${plainText(author, 256) || "somebody"} until ${instant(d.end)}: ${JSON.stringify(plainText(d.reason.trim(), mostReason))}`;
}

/** When that sentence is said. */
export function saidWhen(kind: Kind): string {
  switch (kind) {
    case "hold":
    case "pin":
      return "The answers will say";
    case "floor":
      return "Answers below the floor will say";
    case "ceiling":
      return "Answers above the ceiling will say";
    case "noScaleUp":
      return "Answers that would add replicas will say";
    case "noScaleDown":
      return "Answers that would remove replicas will say";
  }
}

/** Tomorrow at 08:00 on the clock of the reader, ms of Unix time. */
export function tomorrowMorning(now: number): number {
  const d = new Date(now);
  return new Date(d.getFullYear(), d.getMonth(), d.getDate() + 1, 8).getTime();
}

/** An instant as fields for date and time have it, on the reader's clock; and back, NaN where it is none. */
export function toField(ms: number): string {
  const d = new Date(ms);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;
}
export const fromField = (text: string): number => (/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) ? new Date(text).getTime() : NaN);
