// All targets of all clusters and namespaces, live.

import { Component } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chips } from "../components/chips";
import { Problem } from "../components/problem";
import { Replicas } from "../components/replicas";
import { Ago, useNow } from "../components/time";
import { integer } from "../lib/format";
import { AtMax, Failing, Flapping, Held, Limited, states } from "../lib/state";
import { base, navigate, targetPath } from "../router";
import { NoTargets } from "./empty";
import { formatQuery, matcher, parseQuery, type Column, type FleetQuery } from "./query";
import { SparkLine } from "./spark";
import { fleet, mostRows, type Row, type Snapshot } from "./store";

function useFleet(): Snapshot {
  const [snapshot, set] = useState(fleet.snapshot);
  useEffect(() => {
    const stop = fleet.subscribe(() => set(fleet.snapshot));
    set(fleet.snapshot);
    return stop;
  }, []);
  return snapshot;
}

/** How urgent a row is. */
const urgency = (bits: number): number =>
  (bits & Failing ? 32 : 0) + (bits & AtMax ? 16 : 0) + (bits & Flapping ? 8 : 0) + (bits & Limited ? 4 : 0) + (bits & Held ? 2 : 0);

const keys: Record<Column, (r: Row) => number | string> = {
  name: (r) => r.name,
  state: (r) => urgency(r.bits),
  replicas: (r) => r.desired,
  metric: (r) => (Number.isNaN(r.metricNumber) ? -1 : r.metricNumber),
  changed: (r) => r.changed,
  updated: (r) => r.updated,
};

/** The rows that a query asks for, in its order. */
export function select(rows: readonly Row[], q: FleetQuery): Row[] {
  const matches = matcher(q.text);
  const out = rows.filter((r) => (q.filter === 0 || (r.bits & q.filter) !== 0) && (q.text === "" || matches(r.searched)));
  const key = keys[q.sort];
  const sign = q.descending ? -1 : 1;
  return out.sort((a, b) => {
    const x = key(a);
    const y = key(b);
    if (x < y) return -sign;
    if (x > y) return sign;
    return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
  });
}

export function FleetView(props: { query: URLSearchParams }) {
  const snapshot = useFleet();
  const queryText = props.query.toString();
  const query = useMemo(() => parseQuery(new URLSearchParams(queryText)), [queryText]);
  const change = useCallback(
    (part: Partial<FleetQuery>, how: "push" | "replace" = "push") => navigate(base + formatQuery({ ...query, ...part }), how),
    [query],
  );
  useEffect(() => {
    document.title = "Fleet · Setpoint";
  }, []);
  if (!snapshot.loading && snapshot.rows.length === 0 && !snapshot.error) return <NoTargets />;
  return (
    <div class="fleet">
      <h1 class="visually-hidden">Fleet</h1>
      {snapshot.error && <Problem error={snapshot.error} what={snapshot.rows.length ? "Not up to date." : "The targets can't be read."} retry={() => fleet.reload()} />}
      <Tiles snapshot={snapshot} query={query} change={change} />
      <List snapshot={snapshot} query={query} change={change} />
    </div>
  );
}

type Change = (part: Partial<FleetQuery>, how?: "push" | "replace") => void;

/** Counts by state; each filters. */
function Tiles(props: { snapshot: Snapshot; query: FleetQuery; change: Change }) {
  const { snapshot, query, change } = props;
  const kinds = ["failing", "atmax", "limited", "held", "flapping", "changed"];
  return (
    <div class="tiles" role="group" aria-label="Targets by state">
      <button class="tile" aria-pressed={query.filter === 0} onClick={() => change({ filter: 0 })}>
        <span class="tile-count">{integer(snapshot.rows.length)}</span>
        <span class="tile-label">All targets</span>
      </button>
      {states.map((s, i) => {
        const on = (query.filter & s.bit) !== 0;
        return (
          <button
            key={s.id}
            class={`tile ${kinds[i]} ${snapshot.counts[i] ? "" : "none"}`}
            aria-pressed={on}
            title={s.help}
            onClick={(e) => change({ filter: on ? query.filter & ~s.bit : e.shiftKey ? query.filter | s.bit : s.bit })}
          >
            <span class="tile-count">{integer(snapshot.counts[i] ?? 0)}</span>
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

const heads: readonly { column: Column | ""; label: string; kind: string }[] = [
  { column: "name", label: "Target", kind: "c-name" },
  { column: "state", label: "State", kind: "c-state" },
  { column: "replicas", label: "Replicas", kind: "c-replicas" },
  { column: "", label: "Last hour", kind: "c-spark" },
  { column: "metric", label: "Metric", kind: "c-metric" },
  { column: "", label: "Why", kind: "c-why" },
  { column: "changed", label: "Changed", kind: "c-changed" },
];

const wide = 48;
const narrow = 92;

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

function List(props: { snapshot: Snapshot; query: FleetQuery; change: Change }) {
  const { snapshot, query, change } = props;
  const now = useNow(5000);
  const isNarrow = useNarrow();
  const rowHeight = isNarrow ? narrow : wide;
  const search = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [active, setActive] = useState(0);

  // If the sort order depends on changing values, rows keep their places for a while, to
  // be readable.
  const volatile = query.sort !== "name";
  const kept = useRef<{ query: FleetQuery; length: number; at: number; rows: Row[] } | undefined>(undefined);
  const rows = useMemo(() => {
    const k = kept.current;
    const at = performance.now();
    if (k && k.query === query && k.length === snapshot.rows.length && at - k.at < (volatile || query.filter ? 2000 : 500)) return k.rows;
    const rows = select(snapshot.rows, query);
    kept.current = { query, length: snapshot.rows.length, at, rows };
    return rows;
  }, [snapshot, query]);

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
  useEffect(() => {
    setActive(0);
    if (box.current) box.current.scrollTop = 0;
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
    const i = Math.max(0, Math.min(rows.length - 1, to));
    setActive(i);
    const el = box.current!;
    const y = i * rowHeight;
    const head = isNarrow ? 0 : 36;
    if (y < el.scrollTop) el.scrollTop = y;
    else if (y + rowHeight + head > el.scrollTop + el.clientHeight) el.scrollTop = y + rowHeight + head - el.clientHeight;
  };
  const onKey = (e: KeyboardEvent) => {
    const pageRows = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const moves: Record<string, number> = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + pageRows, PageUp: active - pageRows, Home: 0, End: rows.length - 1 };
    const to = moves[e.key];
    if (to !== undefined) {
      e.preventDefault();
      go(to);
    } else if (e.key === "Enter" && e.target === box.current && rows[active]) {
      e.preventDefault();
      navigate(targetPath(rows[active]!.name));
    }
  };

  const first = Math.max(0, Math.floor(view.top / rowHeight) - 6);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + 6);
  const shown = rows.slice(first, last);
  // Once scrolling stops, the history of the visible rows is read.
  useEffect(() => {
    const timer = setTimeout(() => fleet.readPast(rows.slice(first, last)), 150);
    return () => clearTimeout(timer);
  }, [rows, first, last]);
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
                if (e.key === "Enter" && rows.length === 1) navigate(targetPath(rows[0]!.name));
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
          <select value={(query.descending ? "-" : "") + query.sort} onChange={(e) => change({ sort: e.currentTarget.value.replace("-", "") as Column, descending: e.currentTarget.value.startsWith("-") }, "replace")}>
            <option value="name">Name</option>
            <option value="-state">Most urgent</option>
            <option value="-replicas">Most replicas</option>
            <option value="-changed">Last changed</option>
            <option value="-metric">Highest metric</option>
          </select>
        </label>
        <span class="found" role="status">
          {snapshot.loading && snapshot.rows.length === 0
            ? "Loading…"
            : rows.length === snapshot.rows.length
              ? `${integer(rows.length)} ${rows.length === 1 ? "target" : "targets"}`
              : `${integer(rows.length)} of ${integer(snapshot.rows.length)}`}
          {snapshot.rows.length >= mostRows && " (only the first are shown)"}
        </span>
        <LiveMark snapshot={snapshot} />
      </div>
      <div class="grid-box">
      <div
        ref={box}
        class="grid"
        role="grid"
        aria-label="Targets"
        aria-rowcount={rows.length + 1}
        aria-colcount={heads.length}
        aria-activedescendant={rows[active] && active >= first && active < last ? `row-${active}` : undefined}
        tabIndex={0}
        onKeyDown={onKey}
      >
        <div class="grid-head" role="row" aria-rowindex={1}>
          {heads.map((h) => (
            <div
              key={h.label}
              role="columnheader"
              class={h.kind}
              aria-sort={h.column && query.sort === h.column ? (query.descending ? "descending" : "ascending") : undefined}
            >
              {h.column ? (
                <button onClick={() => sortBy(h.column as Column)}>
                  {h.label}
                  <span aria-hidden="true" class="arrow">{query.sort === h.column ? (query.descending ? "↓" : "↑") : ""}</span>
                </button>
              ) : (
                h.label
              )}
            </div>
          ))}
        </div>
        <div class="grid-body" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
          {shown.map((row, i) => (
            <RowView key={row.name} row={row} version={row.version} index={first + i} top={(first + i) * rowHeight} active={first + i === active} now={now} />
          ))}
        </div>
      </div>
        {rows.length === 0 && !snapshot.loading && (
          <div class="no-match" role="status">
            <p>No target matches{query.text ? ` «${query.text}»` : ""}{query.filter ? ` with ${states.filter((s) => query.filter & s.bit).map((s) => s.label.toLowerCase()).join(" or ")}` : ""}.</p>
            <button class="button" onClick={() => change({ text: "", filter: 0 })}>Show all targets</button>
          </div>
        )}
      </div>
    </>
  );
}

function LiveMark(props: { snapshot: Snapshot }) {
  const { link, missed, loading, loaded } = props.snapshot;
  const text = loading && loaded > 0 ? `Loading ${integer(loaded)}…` : link === "live" ? "Live" : link === "connecting" ? "Connecting…" : link === "polled" ? "Every 15 s" : "Reconnecting…";
  const title =
    link === "live"
      ? `Decisions arrive as they are made.${missed ? ` ${integer(missed)} went by too fast and were read again from the list.` : ""}`
      : "What is shown is as of the last moment the service was reached.";
  return (
    <span class={`live is-${link}`} title={title} role="status">
      <i aria-hidden="true" />
      {text}
    </span>
  );
}

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
    const { row, index, top, active, now, version } = this.props;
    return (
      <div
        id={`row-${index}`}
        role="row"
        class={active ? "row active" : "row"}
        aria-rowindex={index + 2}
        aria-selected={active}
        style={{ transform: `translateY(${top}px)` }}
        onClick={(e) => {
          if (!(e.target as Element).closest("a")) navigate(targetPath(row.name));
        }}
      >
        <div role="gridcell" class="c-name">
          <a href={targetPath(row.name)} tabIndex={-1} title={row.name}>{row.target}</a>
          <span class="where">{row.namespace}<span class="faint"> · {row.cluster}</span></span>
        </div>
        <div role="gridcell" class="c-state"><Chips bits={row.bits} most={2} /></div>
        <div role="gridcell" class="c-replicas"><Replicas from={row.current} to={row.desired} /></div>
        <div role="gridcell" class="c-spark"><SparkLine spark={row.spark} version={version} now={now} bits={row.bits} /></div>
        <div role="gridcell" class="c-metric" title={`${row.metricName} ${row.metric}`}>
          {row.metric ? (
            <>
              {row.metric}
              <span class="where">{row.metricName}</span>
            </>
          ) : (
            <span class="faint">no reading</span>
          )}
        </div>
        <div role="gridcell" class="c-why" title={row.whyLong}>{row.why || <span class="faint">On target</span>}</div>
        <div role="gridcell" class="c-changed"><Ago time={row.changed * 1000} now={now} /></div>
      </div>
    );
  }
}
