// The decisions of the log, newest first.

import { useRef, useState } from "preact/hooks";
import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { Plain, StageChips } from "../components/adjustments";
import { Ago } from "../components/time";
import { turned } from "../lib/adjustments";
import { told } from "../lib/decisions";
import { integer, localClock, millis } from "../lib/format";
import { story } from "../lib/story";

export function DecisionList(props: { target: string; decisions: readonly Decision[]; chosen: Decision | undefined; choose: (d: Decision) => void; now: number }) {
  const { target, decisions, chosen, choose, now } = props;
  const [all, setAll] = useState(false);
  const [limit, setLimit] = useState(20);
  const shown = decisions.filter((d) => all || told(d)).reverse();
  const rows = shown.slice(0, limit);
  const list = useRef<HTMLDivElement>(null);
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    const buttons = [...(list.current?.querySelectorAll<HTMLButtonElement>("button.decision") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (at < 0) return;
    e.preventDefault();
    buttons[at + step]?.focus();
  };
  return (
    <section class="card decisions">
      <header>
        <h2>Decisions</h2>
        <div class="segments" role="group" aria-label="Which decisions">
          <button aria-pressed={!all} onClick={() => setAll(false)}>Changes</button>
          <button aria-pressed={all} onClick={() => setAll(true)}>All</button>
        </div>
      </header>
      <div ref={list} class="decision-list" onKeyDown={onKey}>
        {rows.map((d) => {
          const s = story(d, target);
          return (
            <button
              key={d.recommendationId}
              class={`decision tone-${s.tone}`}
              aria-pressed={d === chosen}
              onClick={() => choose(d)}
            >
              <span class="d-mark" aria-hidden="true">{s.tone === "up" ? "▲" : s.tone === "down" ? "▼" : s.tone === "alarm" ? "✕" : "·"}</span>
              <span class="d-head">{s.head.replace(/ \(.*\)$/, "")}</span>
              <span class="d-why"><StageChips decision={d} most={1 + turned(d)} /> <Plain decision={d} /> {s.because[0]?.text}</span>
              <span class="d-outcome">{s.outcome[0]}</span>
              <span class="d-time">{localClock(millis(d.time))} · <Ago time={millis(d.time)} now={now} /></span>
            </button>
          );
        })}
        {rows.length === 0 && <p class="muted">{all ? "The log is empty." : "No decision of the log changed the count, and no override began or ended."}</p>}
      </div>
      {shown.length > rows.length && <button class="button" onClick={() => setLimit(limit + 100)}>Show more ({integer(shown.length - rows.length)})</button>}
    </section>
  );
}
