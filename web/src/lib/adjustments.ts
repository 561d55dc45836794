// What stages and overrides changed of a decision, in words.

import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { integer, millis } from "./format";
import { plainText } from "./text";

export interface Adjustment {
  /** "Zero guard". */
  stage: string;
  /** A chip's tone: one that holds a count, or one that changes what is computed. */
  tone: "held" | "limited";
  text: string;
  /** When it can end, ms of Unix time; 0: unknown. */
  until: number;
}

/** "ZERO_GUARD" as "Zero guard"; stages that this page does not know, too. */
export function stageName(stage: string | undefined): string {
  const words = (stage || "STAGE").toLowerCase().replaceAll("_", " ").slice(0, 32);
  return words[0]!.toUpperCase() + words.slice(1);
}

/** Overrides that begin or end with a decision. */
export const turned = (d: Decision): number => (d.adjustments ?? []).filter((a) => a.stage === "OVERRIDE" && (a.rule === "begins" || a.rule === "ends")).length;

/** What a decision tells of overrides, to be compared with the next one's. */
export const overriding = (d: Decision | undefined): string => JSON.stringify(d?.adjustments?.filter((a) => a.stage === "OVERRIDE") ?? []);

/** What was changed; the override first, which has the last word, then in the order in which stages act. */
export function adjustments(d: Decision): Adjustment[] {
  const all = (d.adjustments ?? []).slice(0, 32);
  const override = all.at(-1)?.stage === "OVERRIDE" ? all.splice(-1) : [];
  return [...override, ...all].map((a) => ({
    stage: stageName(a.stage) + (a.stage === "OVERRIDE" && (a.rule === "begins" || a.rule === "ends") ? ` ${a.rule}` : ""),
    tone: a.stage === "OVERRIDE" || a.stage === "REVERSALS" || a.stage === "ZERO_GUARD" || a.stage === "WINDOW" ? "held" : "limited",
    text: plainText(a.message || a.rule),
    until: a.untilTime ? millis(a.untilTime) : 0,
  }));
}

/** What the forecast said at a decision; undefined: there was none. */
export function forecast(d: Decision): number | undefined {
  const told = /^forecast (\d{1,10}) (?:for|not used)/.exec(d.adjustments?.find((a) => a.stage === "FORECAST")?.message ?? "");
  return told ? Number(told[1]) : undefined;
}

/** The count without stages and overrides, "plain 8"; empty: it is the same, or there are none. */
export function plain(d: Decision | undefined): string {
  const n = d?.plainDesiredReplicas;
  return n === undefined || n === null || n === (d?.desiredReplicas ?? 0) ? "" : `plain ${integer(n)}`;
}
