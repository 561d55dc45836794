// A fleet as the service tells of it: its members, and what is the matter. Nothing here is computed that the
// service does not tell.

import type { DecisionJson as Decision, FleetJson as Fleet, FleetMemberCountsJson as Counts } from "@setpoint-dev/client/json";
import { stageName } from "./adjustments";
import { count, integer, millis, seconds } from "./format";
import { parseName, type Name } from "./names";
import { plainText } from "./text";

/** How a state is shown: a mark that tells it without its colour, a word, a colour, and a sentence. */
export interface Look {
  mark: string;
  label: string;
  tone: string;
  help: string;
}

const looks: Readonly<Record<string, Look>> = {
  FRESH: { mark: "✓", label: "Fresh", tone: "up", help: "It called lately, and sees its pods." },
  RETURNING: { mark: "↻", label: "Returning", tone: "flapping", help: "It called again after it was lost, or for the first time. It keeps what it has for two decisions." },
  STALE: { mark: "‖", label: "Stale", tone: "held", help: "It is silent for longer than usual, or can't see its pods. Its share stays as it is. Its pods count as idle for a scale-up, and as busy for a scale-down." },
  LOST: { mark: "✕", label: "Lost", tone: "failing", help: "It is silent for so long that it counts as lost." },
  UNSEEN: { mark: "?", label: "Unseen", tone: "calm", help: "It has never called: see whether its agent runs, and asks for this fleet." },
};

/** The look of a state; of one that this page does not know, its word. */
export const lookOf = (state = "UNKNOWN"): Look =>
  Object.hasOwn(looks, state) ? looks[state]! : { mark: "?", label: stageName(state), tone: "calm", help: "This page does not know the state." };

export const drained: Look = { mark: "○", label: "Drained", tone: "calm", help: "It is to become empty: its replicas move to the other members." };

/** The last call of any member or the last decision, s of Unix time, and how long after a call its maker counts as silent, s. */
export function fleetPace(f: Fleet): { asked: number; patience: number } {
  const times = [f.decisionTime, ...(f.members ?? []).map((m) => m.lastCallTime)].map((t) => millis(t) / 1000 || 0);
  return { asked: Math.max(...times), patience: seconds(f.spec?.staleAfter) ?? Infinity };
}

/** A share in the service's words. */
export const shareText = (share: number, f: Fleet): string => `share of fleet: ${share} of ${f.shareTotal ?? 0}${f.unplacedReplicas ? `; ${f.unplacedReplicas} find no place` : ""}`;

/** A reason with the words for a share as it is now; "": that is not known. */
export const withShare = (reason: string, now: string): string => reason.replace(/share of fleet: \d+( of \d+(; \d+ find no place)?)?/, now || "a share of its fleet");

const notAsked: Look = { mark: "?", label: "Not asked", tone: "failing", help: "No member calls any more: Setpoint does not scale it now. See whether their agents run, or give way to other autoscalers." };

/** What was the matter with a fleet when it was read, ms of the service's clock, most urgent first; empty: nothing was. */
export function troubles(f: Fleet, now: number): Look[] {
  const out: Look[] = [];
  const { asked, patience } = fleetPace(f);
  const inVain = (f.members ?? []).filter((m) => m.error?.startsWith("it calls ")).length; // the service's words
  if (asked > 0 && now / 1000 > asked + patience && !inVain) out.push(notAsked);
  const told = (n: number | undefined, look: Look, label: string) => n && out.push({ ...look, label: `${integer(n)} ${label}` });
  const c: Counts = f.memberCounts ?? {};
  const active = f.status?.conditions?.find((x) => x.type === "ScalingActive");
  if (active && active.status !== "True" && active.reason !== "ScalingDisabled") {
    out.push({ mark: "!", label: `No count: ${plainText(active.reason)}`, tone: "failing", help: plainText(active.message, 2000) });
  }
  told(inVain, { mark: "!", label: "", tone: "failing", help: "They call and are no members then, as they are refused or do not name the fleet: see the table." }, inVain === 1 ? "calls in vain" : "call in vain");
  if (f.decisionTime && out.length === 0 && f.status?.conditions?.some((x) => x.reason === "TooManyReplicas")) { // else it is of an earlier decision
    out.push({ mark: "⊤", label: "At maximum", tone: "atmax", help: "The metrics, now or within the window, ask for more replicas than the fleet's maxReplicas allows." });
  }
  told(c.lost, looks.LOST!, "lost");
  told(f.unplacedReplicas, { mark: "⊤", label: "", tone: "atmax", help: "Replicas of the count that no member could take." }, "unplaced");
  told(f.missingReplicas, { mark: "△", label: "", tone: "limited", help: "So many replicas too few would remain without the largest member." }, "missing without the largest member");
  const calling = (f.members ?? []).filter((m) => m.state !== "STALE" && m.state !== "LOST" && m.state !== "UNSEEN");
  const blind = calling.filter((m) => m.error).length;
  told(blind, { mark: "!", label: "", tone: "failing", help: "They can't tell all metrics: see the table. Their pods count as pods without samples." }, "without a metric");
  const differs = calling.filter((m) => f.decisionTime && m.share !== undefined && m.specReplicas !== undefined && !m.applied).length;
  told(differs, { mark: "≠", label: "", tone: "limited", help: "They have not done what they were told last: see the table." }, "not as told");
  told(c.stale, looks.STALE!, "stale");
  const scopes = (f.contradictions ?? []).map((m) => plainText(m)).join(", ");
  told(f.contradictions?.length, { mark: "≠", label: "", tone: "limited", help: `What members read of it contradicts its scope: ${scopes}` }, `against its scope: ${scopes}`);
  told(c.returning, looks.RETURNING!, "returning");
  told(c.unseen, looks.UNSEEN!, "unseen");
  told(c.drained, drained, "drained");
  return out;
}

/** "3 fresh, 1 lost": the members by state, worst last; those that are drained are told besides. */
export function byState(c: Counts = {}): string {
  const all: [number | undefined, string][] = [[c.fresh, "fresh"], [c.returning, "returning"], [c.stale, "stale"], [c.lost, "lost"], [c.unseen, "unseen"], [c.drained, "drained"]];
  return all.filter(([n]) => n).map(([n, word]) => `${integer(n!)} ${word}`).join(", ");
}

/** A member; undefined is what the service does not tell. */
export interface Member extends Name {
  name: string;
  look: Look;
  drained: boolean;
  share: number | undefined;
  /** The replicas that it told of: those of its spec, and those that run. */
  has: number | undefined;
  runs: number | undefined;
  /** When it called last, ms of Unix time; NaN: never. */
  called: number;
  capacity: number | undefined;
  error: string;
  /** Whether it had done what it was told; undefined: it has not called. */
  applied: boolean | undefined;
  /** By the spec; undefined: the spec has no such member. */
  weight: number | undefined;
  bounds: string;
  /** Bounds of its own spec and of overrides of it, where they are narrower than the fleet's. */
  own: string;
}

/** The members, in the service's order. */
export function members(f: Fleet): Member[] {
  const specs = new Map((f.spec?.members ?? []).map((m) => [m.target, m]));
  return (f.members ?? []).map((m) => {
    const name = m.target ?? "";
    const spec = specs.get(name);
    const called = millis(m.lastCallTime);
    const [least, most] = [Math.max(1, spec?.minReplicas ?? 0), spec?.maxReplicas ?? f.maxReplicas ?? Infinity];
    const { ownMinReplicas: min, ownMaxReplicas: max } = m;
    const own = [min !== undefined && min > least ? `at least ${integer(min)}` : "", max !== undefined && max < most ? `at most ${integer(max)}` : ""];
    const bounds = [spec?.minReplicas ? `at least ${integer(spec.minReplicas)}` : "", spec?.maxReplicas === undefined ? "" : `at most ${integer(spec.maxReplicas)}`];
    return {
      ...parseName(name), name, look: lookOf(m.state), drained: m.drained ?? false, share: m.share, has: m.specReplicas, runs: m.statusReplicas, called, capacity: m.capacity,
      error: plainText(m.error), applied: Number.isNaN(called) ? undefined : m.applied ?? false, weight: spec && (spec.weight ?? 1), bounds: bounds.filter(Boolean).join(", "),
      own: own.filter(Boolean).join(", "),
    };
  });
}

/** The bounds that the last decision had, as the list and the chart have them, and why they are not the spec's. */
export function boundsInForce(f: Fleet, last: Decision | undefined): { text: string; why: string } {
  const spec = `${integer(f.minReplicas ?? 0)} to ${integer(f.maxReplicas ?? 0)}`;
  const b = last?.basis;
  const text = b?.maxReplicas === undefined ? spec : `${integer(b.minReplicas ?? 0)} to ${integer(b.maxReplicas)}`;
  return { text: `, ${text} allowed`, why: text === spec ? "" : `at the last decision; the spec has ${spec}, without the bounds of members' own specs, schedules and overrides` };
}

/** The fleet in one sentence, for who hears it. */
export function sentence(f: Fleet): string {
  if (!f.decisionTime) return "The fleet has not decided yet.";
  const given = f.shareTotal ?? 0;
  return `${count(f.desiredReplicas ?? 0, "replica")} decided, ${integer(given)} shared out to ${count(f.members?.length ?? 0, "member")}.`;
}
