// All targets of all clusters and namespaces, live.

import { Component, type ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { serviceNow } from "../api/client";
import { Chips } from "../components/chips";
import { LiveMark } from "../components/live";
import { Links } from "../components/links";
import { Problem } from "../components/problem";
import { Replicas } from "../components/replicas";
import { Ago, useNow } from "../components/time";
import { brief, count, integer, largest } from "../lib/format";
import { shadowSuffix } from "../lib/names";
import { save } from "../lib/save";
import { Spark } from "../lib/spark";
import { NotAsked, states, Unread } from "../lib/state";
import { current } from "../lib/overrides";
import { ListedOverrides } from "../overrides/targets";
import { useOverrides } from "../overrides/store";
import { base, fleetPath, navigate, targetPath } from "../router";
import { lazy } from "../components/lazy";
import { csv, grouped, lack, select, stateWords, type Group } from "./order";
import { formatQuery, order, orders, parseQuery, type Column, type ListQuery, type Grouping } from "./query";
import { SparkLine } from "./spark";
import { targets, mostRows, type Row, type Snapshot } from "./store";

const ListedFleets = lazy(() => import("../fleet/list").then((m) => m.ListedFleets));
const NoTargets = lazy(() => import("./empty").then((m) => m.NoTargets));
function useTargets(): Snapshot {
  const [snapshot, set] = useState(targets.snapshot);
  useEffect(() => {
    const stop = targets.subscribe(() => set(targets.snapshot));
    set(targets.snapshot);
    return stop;
  }, []);
  return snapshot;
}

export function TargetsView(props: { query: URLSearchParams }) {
  const snapshot = useTargets();
  const queryText = props.query.toString();
  const query = useMemo(() => parseQuery(new URLSearchParams(queryText)), [queryText]);
  const change = useCallback(
    (part: Partial<ListQuery>, how: "push" | "replace" = "push") => navigate(base + formatQuery({ ...query, ...part }), how),
    [query],
  );
  const problem = snapshot.error ?? snapshot.unread;
  if (!snapshot.loading && snapshot.rows.length === 0 && !problem && !query.fleets) return <NoTargets />;
  return (
    <div class="all-targets">
      <h1 class="visually-hidden">Targets</h1>
      {problem && <Problem error={problem} what={snapshot.rows.length ? "Not up to date: this is what was known last." : "The targets can't be read."} retry={() => targets.reload()} />}
      <Tiles snapshot={snapshot} query={query} change={change} />
      <List snapshot={snapshot} query={query} change={change} />
    </div>
  );
}

type Change = (part: Partial<ListQuery>, how?: "push" | "replace") => void;

/** Counts by state; each filters. What is not known has no number. */
function Tiles(props: { snapshot: Snapshot; query: ListQuery; change: Change }) {
  const { snapshot, query, change } = props;
  const known = snapshot.rows.length > 0;
  const number = (n: number) => (known ? integer(n) : snapshot.loading ? "…" : "?");
  return (
    <div class="tiles" role="group" aria-label="Targets by state">
      <button class="tile" aria-pressed={query.filter === 0} onClick={() => change({ filter: 0 })}>
        <span class="tile-count">{number(snapshot.rows.length)}</span>
        <span class="tile-label">All targets</span>
      </button>
      {states.map((s, i) => {
        const on = (query.filter & s.bit) !== 0;
        const n = snapshot.counts[i] ?? 0;
        if (!s.tile && !on && (n === 0 || s.tone === "calm")) return null;
        return (
          <button
            key={s.id}
            class={`tile ${s.tone} is-${s.id} ${known && n ? "" : "none"}`}
            aria-pressed={on}
            title={`${s.help} Shift-click adds it to what is shown.`}
            onClick={(e) => change({ filter: on ? query.filter & ~s.bit : e.shiftKey ? query.filter | s.bit : s.bit })}
          >
            <span class="tile-count">{number(n)}</span>
            <span class="tile-label">
              <i aria-hidden="true">{s.mark}</i>
              {s.label}
            </span>
          </button>
        );
      })}
    </div>
  );
}

interface Head {
  label: string;
  kind: string;
  sorts?: Column;
  title?: string;
}

const heads: readonly Head[] = [
  { sorts: "name", label: "Target", kind: "c-name" },
  { sorts: "state", label: "State", kind: "c-state" },
  { sorts: "replicas", label: "Replicas", kind: "c-replicas", title: "The count, and the spec's bounds" },
  { sorts: "lack", label: "Lack", kind: "c-lack", title: "Replicas that the metrics ask for beyond what was decided" },
  { label: "Last hour", kind: "c-spark" },
  { sorts: "metric", label: "Metric", kind: "c-metric", title: "What was read, and what it should be" },
  { label: "Why", kind: "c-why" },
  { sorts: "updated", label: "Asked", kind: "c-updated", title: "When it was asked for last, and when its count changed" },
];

const wide = 48;
const narrow = 132;
/** Where the list was left last: its address, how far down, and at which row. Who comes back goes on there. */
let left = { address: "", top: 0, active: 0 };
/** Rows that are printed at most. */
const mostPrinted = 2000;

function useNarrow(): boolean {
  const media = useMemo(() => matchMedia("(max-width: 720px)"), []);
  const [is, set] = useState(media.matches);
  useEffect(() => {
    const f = () => set(media.matches);
    media.addEventListener("change", f);
    return () => media.removeEventListener("change", f);
  }, [media]);
  return is;
}

/** Whether the page is being printed. */
function usePrinting(): boolean {
  const [is, set] = useState(() => matchMedia("print").matches);
  useEffect(() => {
    const media = matchMedia("print");
    const on = () => set(true);
    const off = () => set(false);
    const changed = () => set(media.matches);
    addEventListener("beforeprint", on);
    addEventListener("afterprint", off);
    media.addEventListener("change", changed);
    return () => {
      removeEventListener("beforeprint", on);
      removeEventListener("afterprint", off);
      media.removeEventListener("change", changed);
    };
  }, []);
  return is;
}

function List(props: { snapshot: Snapshot; query: ListQuery; change: Change }) {
  const { snapshot, query, change } = props;
  const now = useNow(5000);
  const isNarrow = useNarrow();
  const rowHeight = isNarrow ? narrow : wide;
  const search = useRef<HTMLInputElement>(null);
  const [overrides, readOverrides] = useOverrides("");
  const open = useMemo(() => overrides.all && current(overrides.all, serviceNow()).length, [overrides.all, now]);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [active, setActive] = useState(0);

  // If the sort order depends on changing values, rows keep their places for a while, to
  // be readable.
  const volatile = query.sort !== "name";
  const printing = usePrinting();
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const kept = useRef<{ query: ListQuery; length: number; at: number; rows: Row[] } | undefined>(undefined);
  const rows = useMemo(() => {
    const k = kept.current;
    const at = performance.now();
    if (k && k.query === query && k.length === snapshot.rows.length && at - k.at < (volatile || query.filter ? 2000 : 500)) return k.rows;
    const rows = select(snapshot.rows, query);
    kept.current = { query, length: snapshot.rows.length, at, rows };
    return rows;
  }, [snapshot, query]);
  const items = useMemo<readonly (Row | Group)[]>(
    () => (query.group ? grouped(rows, query.group).flatMap((g) => [g, ...(closed.has(g.key) ? [] : g.rows)]) : rows),
    [rows, query.group, closed],
  );
  const toggle = (g: Group) => setClosed((was) => new Set(was.has(g.key) ? [...was].filter((k) => k !== g.key) : [...was, g.key]));

  useEffect(() => {
    const el = box.current!;
    let frame = 0;
    const measure = () => {
      frame = 0;
      setView((v) => (v.top === el.scrollTop && v.height === el.clientHeight ? v : { top: el.scrollTop, height: el.clientHeight }));
    };
    const later = () => {
      if (!frame) frame = requestAnimationFrame(measure);
    };
    measure();
    el.addEventListener("scroll", later, { passive: true });
    const resized = new ResizeObserver(later);
    resized.observe(el);
    return () => {
      cancelAnimationFrame(frame);
      el.removeEventListener("scroll", later);
      resized.disconnect();
    };
  }, []);
  const here = useRef({ top: 0, active: 0 });
  here.current = { top: view.top, active };
  useEffect(() => {
    const address = formatQuery(query);
    const at = left.address === address ? left : { top: 0, active: 0 };
    setActive(at.active);
    if (box.current) box.current.scrollTop = at.top;
    return () => {
      left = { address, ...here.current };
    };
  }, [query]);
  useEffect(() => {
    const f = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.key === "/" && !e.ctrlKey && !e.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && !at.isContentEditable) {
        e.preventDefault();
        search.current?.focus();
        search.current?.select();
      }
    };
    document.addEventListener("keydown", f);
    return () => document.removeEventListener("keydown", f);
  }, []);

  const go = (to: number) => {
    const i = Math.max(0, Math.min(items.length - 1, to));
    setActive(i);
    const el = box.current!;
    const y = i * rowHeight;
    const head = isNarrow ? 0 : 36;
    if (y < el.scrollTop) el.scrollTop = y;
    else if (y + rowHeight + head > el.scrollTop + el.clientHeight) el.scrollTop = y + rowHeight + head - el.clientHeight;
  };
  const onKey = (e: KeyboardEvent) => {
    const pageRows = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const moves: Record<string, number> = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + pageRows, PageUp: active - pageRows, Home: 0, End: items.length - 1 };
    const to = moves[e.key];
    if (to !== undefined) {
      e.preventDefault();
      go(to);
    } else if (e.key === "Enter" && e.target === box.current && items[active]) {
      e.preventDefault();
      const at = items[active]!;
      if ("key" in at) toggle(at);
      else navigate(pathOf(at));
    }
  };

  // Always as many rows, with some above and below what is seen: those that come take the elements of those that go. Making
  // elements would cost more than what else a frame of scrolling does.
  const elements = Math.ceil(view.height / rowHeight) + 13;
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 6);
  const last = Math.min(items.length, first + elements);
  const shown = items.slice(first, last);
  // Once scrolling stops, the history of the visible rows is read.
  useEffect(() => {
    const timer = setTimeout(() => targets.readPast(items.slice(first, last).filter((r) => !("key" in r)) as Row[]), 150);
    return () => clearTimeout(timer);
  }, [items, first, last]);
  const sortBy = (c: Column) => change({ sort: c, descending: query.sort === c ? !query.descending : c !== "name" }, "replace");
  return (
    <>
      <div class="toolbar">
        <div class="search">
          <span aria-hidden="true" class="search-mark">⌕</span>
          <input
            ref={search}
            type="search"
            aria-label="Search targets"
            placeholder="Search target, namespace, cluster"
            spellcheck={false}
            autocomplete="off"
            value={query.text}
            maxLength={200}
            onInput={(e) => change({ text: e.currentTarget.value }, "replace")}
            onKeyDown={(e) => {
              if (e.key === "ArrowDown" || (e.key === "Enter" && rows.length > 0)) {
                e.preventDefault();
                if (e.key === "Enter" && rows.length === 1) navigate(pathOf(rows[0]!));
                else {
                  box.current?.focus();
                  setActive(0);
                }
              } else if (e.key === "Escape") change({ text: "" }, "replace");
            }}
          />
          <kbd aria-hidden="true">/</kbd>
        </div>
        <label class="sort-narrow">
          <span class="visually-hidden">Sort by</span>
          <select value={order(query)} onChange={(e) => change({ sort: e.currentTarget.value.replace("-", "") as Column, descending: e.currentTarget.value.startsWith("-") }, "replace")}>
            {orders.map(([value, label]) => <option value={value}>{label}</option>)}
          </select>
        </label>
        <span class="found" role="status">
          {snapshot.loading && snapshot.rows.length === 0
            ? "Loading…"
            : snapshot.rows.length === 0
              ? "Nothing is known"
            : rows.length === snapshot.rows.length
              ? `${integer(rows.length)} ${rows.length === 1 ? "target" : "targets"}`
              : `${integer(rows.length)} of ${integer(snapshot.rows.length)}`}
          {snapshot.rows.length >= mostRows && " (only the first are shown)"}
        </span>
        <label class="grouping">
          <span class="visually-hidden">Group by</span>
          <select value={query.group} onChange={(e) => change({ group: e.currentTarget.value as Grouping }, "replace")}>
            <option value="">No groups</option>
            <option value="cluster">By cluster</option>
            <option value="namespace">By namespace</option>
          </select>
        </label>
        {overrides.error?.code !== "UNIMPLEMENTED" && (
          <button class="button" aria-expanded={query.overrides} aria-controls={query.overrides ? "listed-overrides" : undefined} title="Who holds what, until when, and why" onClick={() => change({ overrides: !query.overrides }, "replace")}>
            Overrides{open !== undefined && !query.text && !query.filter ? ` ${integer(open)}` : ""}
          </button>
        )}
        <button class="button" aria-expanded={query.fleets} aria-controls={query.fleets ? "listed-fleets" : undefined} title="Workloads in several clusters that are scaled as one" onClick={() => change({ fleets: !query.fleets }, "replace")}>Fleets</button>
        <button class="button" disabled={rows.length === 0} title="The targets that are listed, for a spreadsheet" onClick={() => save("targets.csv", "text/csv", csv(rows))}>CSV</button>
        <About />
        <LiveMark link={snapshot.link} loaded={snapshot.loading ? snapshot.loaded : 0} missed={snapshot.missed} />
      </div>
      {query.overrides && <ListedOverrides listed={overrides} reload={readOverrides} rows={rows} all={!query.text && !query.filter} text={query.text} now={now} />}
      {query.fleets && <ListedFleets text={query.text} />}
      <div class="grid-box">
      <div
        ref={box}
        class="grid"
        role="grid"
        aria-label="Targets"
        aria-rowcount={items.length + 1}
        aria-colcount={heads.length}
        aria-activedescendant={items[active] && active >= first && active < last ? `row-${active}` : undefined}
        tabIndex={0}
        onKeyDown={onKey}
      >
        <div class="grid-head" role="row" aria-rowindex={1}>
          {heads.map((h) => (
            <div
              key={h.kind}
              role="columnheader"
              class={h.kind}
              title={h.title}
              aria-sort={h.sorts && query.sort === h.sorts ? (query.descending ? "descending" : "ascending") : undefined}
            >
              {h.sorts ? (
                <button onClick={() => sortBy(h.sorts!)}>
                  {h.label}
                  <span aria-hidden="true" class="arrow">{query.sort === h.sorts ? (query.descending ? "↓" : "↑") : ""}</span>
                </button>
              ) : (
                h.label
              )}
            </div>
          ))}
        </div>
        <div class="grid-body" role="rowgroup" style={{ height: `${items.length * rowHeight}px` }}>
          {shown.map((row, i) => "key" in row ? (
            <GroupView key={(first + i) % elements} group={row} open={!closed.has(row.key)} index={first + i} top={(first + i) * rowHeight} active={first + i === active} toggle={() => toggle(row)} />
          ) : (
            <RowView key={(first + i) % elements} row={row} version={row.version} index={first + i} top={(first + i) * rowHeight} active={first + i === active} now={now} />
          ))}
        </div>
      </div>
        {rows.length === 0 && snapshot.rows.length > 0 && (
          <div class="no-match" role="status">
            <p>No target matches{query.text ? ` «${query.text}»` : ""}{query.filter ? ` with ${states.filter((s) => query.filter & s.bit).map((s) => s.label.toLowerCase()).join(" or ")}` : ""}.</p>
            <button class="button" onClick={() => change({ text: "", filter: 0 })}>Show all targets</button>
          </div>
        )}
      </div>
      {printing && <Printed rows={rows} now={now} />}
    </>
  );
}

/** Until the log was read, only some of the last hour is known: a line would show what was not. */
const unread = new Spark();

interface RowProps {
  row: Row;
  version: number;
  index: number;
  top: number;
  active: boolean;
  now: number;
}

class RowView extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const p = this.props;
    return p.row !== next.row || p.version !== next.version || p.index !== next.index || p.top !== next.top || p.active !== next.active || p.now !== next.now;
  }

  render() {
    const { row, index, top, active, now } = this.props;
    return (
      <div
        id={`row-${index}`}
        role="row"
        class={active ? "row active" : "row"}
        aria-rowindex={index + 2}
        aria-selected={active}
        style={{ top: `${top}px` }}
        onClick={(e) => {
          if (!(e.target as Element).closest("a")) navigate(pathOf(row));
        }}
      >
        <div role="gridcell" class="c-name">
          <a href={pathOf(row)} tabIndex={-1} title={row.name}>{row.shadows ? <>{row.target.slice(0, -shadowSuffix.length)} <span class="tag">shadow</span></> : row.target}{row.fleet && <> <span class="tag">fleet</span></>}</a>
          <span class="where">{row.namespace}<span class="faint"> · {row.cluster}</span><Links name={row.name} inRow /></span>
        </div>
        <div role="gridcell" class="c-state"><Chips bits={row.bits} most={2} /></div>
        <div role="gridcell" class="c-replicas"><Replicas from={row.current} to={row.desired} short /><span class="where" title={(row.max ?? 0) > largest ? `${integer(row.min ?? 0)} to ${integer(row.max!)}` : undefined}>{bounds(row)}</span></div>
        <div role="gridcell" class="c-lack"><Lack row={row} /></div>
        <div role="gridcell" class="c-spark"><SparkLine spark={row.past === "known" ? row.spark : unread} now={now} until={row.bits & (NotAsked | Unread) ? row.updated : Infinity} bits={row.bits} /></div>
        <div role="gridcell" class="c-metric" title={`${row.metricName} ${reads(row)}`}>
          {row.metric ? (
            <>
              {reads(row)}
              <span class="where">{row.metricName}</span>
            </>
          ) : (
            <span class="faint">no reading</span>
          )}
        </div>
        <div role="gridcell" class="c-why" title={row.whyLong}>{tells(row)}</div>
        <div role="gridcell" class="c-updated">
          <Ago time={row.updated * 1000} now={now} />
          {row.changed > 0 && <span class="where">changed <Ago time={row.changed * 1000} now={now} /></span>}
        </div>
      </div>
    );
  }
}

/** Where a row leads. */
const pathOf = (r: Row): string => (r.fleet ? fleetPath(r.name) : targetPath(r.name));

/** "2 to 30", the spec's bounds. */
const bounds = (r: Row): string => (r.max === undefined ? "" : `${r.min === undefined ? "?" : brief(r.min)} to ${brief(r.max)}`);

/** "287 % / 60 %": what was read, and what it should be. */
const reads = (r: Row): string => (r.goal ? `${r.metric.replace(" per replica", "")} / ${r.goal}` : r.metric);

/** Why the count is what it is; of a shadow, how it differs from what acts. */
function tells(row: Row): string {
  if (!row.shadows || row.desired === undefined) return row.why || "On target";
  const acting = targets.find(row.shadows);
  const count = acting ? acting.desired : row.current;
  const who = acting ? "the target" : "the present autoscaler";
  if (count === undefined) return row.why;
  const d = row.desired - count;
  return d === 0 ? `As ${who}: ${integer(count)}` : `${integer(Math.abs(d))} ${d > 0 ? "more" : "fewer"} than ${who}, which has ${integer(count)}`;
}

/** What the metrics ask for beyond what is allowed. */
function Lack(props: { row: Row }) {
  const n = lack(props.row);
  if (n === undefined) return <span class="faint" title="The service's log does not tell what the metrics asked for.">–</span>;
  if (n === 0) return <span class="faint">0</span>;
  return (
    <>
      <strong>{integer(n)}</strong>
      <span class="where">wants {integer(props.row.wants!)}, may {integer(props.row.desired!)}</span>
    </>
  );
}

/** The sums of a group, in words. */
function sums(g: Group): string {
  const parts = [count(g.targets, "target"), `${count(g.replicas, "replica")}${g.unknown ? ` and those of ${count(g.unknown, "target")} that nobody knows` : ""}`];
  if (g.wanted !== g.replicas) parts.push(`the metrics ask for ${integer(g.wanted)}`);
  if (g.broken) parts.push(`${integer(g.broken)} failing or not asked`);
  return parts.join(" · ");
}

function GroupView(props: { group: Group; open: boolean; index: number; top: number; active: boolean; toggle: () => void }) {
  const { group, open, index, top, active } = props;
  return (
    <div id={`row-${index}`} role="row" class={active ? "row group active" : "row group"} aria-rowindex={index + 2} aria-selected={active} style={{ top: `${top}px` }} onClick={props.toggle}>
      <div role="gridcell" aria-colspan={heads.length}>
        <i aria-hidden="true">{open ? "▾" : "▸"}</i><span class="visually-hidden">{open ? "open group" : "closed group"}</span> <strong>{group.key}</strong> <span class={group.broken ? "sums alarm" : "sums"}>{sums(group)}</span>
      </div>
    </div>
  );
}

function About() {
  return (
    <details class="about">
      <summary class="button quiet" title="About this list" aria-label="About this list">?</summary>
      <div class="menu">
        <p>The most urgent targets come first: those that nobody asks for, those that fail, then those that lack replicas.</p>
        <p>A tile shows the targets in its state. <kbd>Shift</kbd> and a click add another state to what is shown; the address keeps it.</p>
        <p>The line of a target covers what the service's log still has of the last hour, up to the last call; dots stand for what it has not.</p>
        <p>A <span class="tag">shadow</span> decides beside another autoscaler, and changes nothing: its row tells the difference. A dry run (<code>dryRun</code>) records nothing, so it is not here.</p>
      </div>
    </details>
  );
}

/** The list on paper: every row up to a bound, its state as text. */
function Printed(props: { rows: readonly Row[]; now: number }) {
  const { rows, now } = props;
  const cell = (value: ComponentChildren) => <td>{value}</td>;
  return (
    <table class="printed">
      <caption>
        {rows.length > mostPrinted ? `The first ${integer(mostPrinted)} of ${count(rows.length, "target")}` : count(rows.length, "target")}, {new Date(now).toISOString().slice(0, 16).replace("T", " ")} UTC
      </caption>
      <thead>
        <tr>{["Target", "State", "Replicas", "Bounds", "Lack", "Metric", "Why", "Asked"].map((h) => <th key={h} scope="col">{h}</th>)}</tr>
      </thead>
      <tbody>
        {rows.slice(0, mostPrinted).map((r) => (
          <tr key={r.name}>
            <th scope="row">{r.target}<span class="where">{r.namespace} · {r.cluster}</span></th>
            {cell(stateWords(r.bits))}
            {cell(r.current === undefined ? "?" : r.desired === undefined || r.desired === r.current ? integer(r.current) : `${integer(r.current)} → ${integer(r.desired)}`)}
            {cell(bounds(r))}
            {cell(lack(r) === undefined ? "?" : integer(lack(r)!))}
            {cell(r.metric ? `${r.metricName} ${reads(r)}` : "no reading")}
            {cell(tells(r))}
            {cell(<Ago time={r.updated * 1000} now={now} />)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
