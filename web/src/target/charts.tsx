// Replicas, proposals and metrics over time.

import { useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { DecisionJson as Decision, ExplanationJson as Explanation, MetricStatusJson as MetricStatus, OutlookBoundsJson as Ahead, OutlookJson as Outlook, SpecInUseJson as SpecInUse, TimedRecommendationJson as Recommendation } from "@setpoint-dev/client/json";
import { axis, Chart, cursor, timeAxis } from "../components/chart";
import { forecast } from "../lib/adjustments";
import { type Bounds, within } from "../lib/bounds";
import { changed, counts } from "../lib/decisions";
import { compact, count, duration, integer, localTime as clockText, millis } from "../lib/format";
import { isSame, newestAt, reading, wanted, type Reading } from "../lib/metrics";
import { alone, between, columns, day, dayBefore, nearest, type Point } from "../lib/points";
import { plainText, shown } from "../lib/text";
import { color } from "../theme";

/** Instants, s of Unix time. What is shown may end before now. */
export interface Span {
  from: number;
  now: number;
  to: number;
}

/** Clicks as near to a marker as this, in pixels, mean it. */
const marker = 6;
const stepped = uPlot.paths.stepped!({ align: 1 });
const seconds = (d: Decision): number => millis(d.time) / 1000;
const inSpan = (d: Decision, span: Span): boolean => seconds(d) >= span.from && seconds(d) <= span.to;

/** What keeps a count from what was asked for, by the decision's states: its colour, and its word in the legend. What has the last word comes first. */
export const gaps: readonly { state: string; tone: string; label: string }[] = [
  { state: "OVERRIDDEN", tone: "c3", label: "override" },
  { state: "AT_MAXIMUM", tone: "atmax", label: "maximum" },
  { state: "LIMITED", tone: "limited", label: "policy" },
  { state: "HELD", tone: "held", label: "window" },
  { state: "AT_MINIMUM", tone: "calm", label: "minimum" },
];

/** The colour of what kept a decision's count from its proposal; undefined: nothing did, or the proposal is unknown. */
export function gapOf(d: Decision): string | undefined {
  if (d.basis?.proposal === undefined || d.basis.proposal === (d.desiredReplicas ?? 0)) return undefined;
  return gaps.find((g) => d.states?.includes(g.state))?.tone;
}

/** How strong that colour is, between count and proposal and in the legend. */
export const gapStrength = 0.28;

interface ReplicaChart {
  span: Span;
  /** When the count was last known, s; undefined: it still is. */
  until?: number;
  decisions: readonly Decision[];
  /** Proposals of decisions that the log may not have. */
  recommendations: readonly Recommendation[];
  /** undefined: unknown, or not to come. */
  outlook: Outlook | undefined;
  /** The bounds that were in force. */
  limits: readonly Bounds[];
  /** The bounds by schedules from now on; empty: none starts or ends. */
  ahead: readonly Ahead[];
  /** The window of scale-downs, s. */
  window: number | undefined;
  chosen: Decision | undefined;
  /** Also the counts of the day before. */
  compared: boolean;
  choose: (d: Decision) => void;
  select: (range?: [from: number, to: number]) => void;
}

/** Counts, proposals, what comes next, how high the axis is, and where what is known ends. */
export function plotted(p: Omit<ReplicaChart, "choose" | "select" | "chosen" | "window">): { data: uPlot.AlignedData; top: number; proposals: Point[]; bounds: Bounds[]; end: number } {
  const { span, decisions, outlook } = p;
  const end = Math.max(span.from, Math.min(span.now, span.to, p.until ?? Infinity));
  const all = decisions.map((d): Point => [seconds(d), counts(d)?.after ?? null]);
  const shown = decisions.filter((d) => inSpan(d, span));
  const points = between(all, span.from, end);
  const earlier = p.compared ? dayBefore(all, span.from, Math.min(span.to, span.now + day)) : [];
  const asked = new Map<number, number>();
  for (const r of p.recommendations) asked.set(millis(r.time) / 1000, r.replicas ?? 0);
  for (const d of decisions) if (d.basis?.proposal !== undefined) asked.set(seconds(d), d.basis.proposal);
  const proposals = between([...asked].sort((a, b) => a[0] - b[0]), span.from, end);
  const future: Point[] = [];
  if (outlook?.changes?.length && span.now <= span.to) {
    const end = outlook.untilTime ? Math.min(span.to, millis(outlook.untilTime) / 1000) : span.to;
    future.push([span.now, outlook.replicas ?? 0]);
    for (const c of outlook.changes) future.push([Math.max(span.now, millis(c.time) / 1000), c.replicas ?? 0]);
    if (end > future.at(-1)![0]) future.push([end, future.at(-1)![1]]);
  }
  // A forecast counts until the next decision: the line ends where one has none.
  const foreseen: Point[] = shown.some((d) => forecast(d) !== undefined) ? shown.map((d) => [seconds(d), forecast(d) ?? null]) : [];
  if (foreseen.length > 0) foreseen.push([end, foreseen.at(-1)![1]]);
  const highest = (of: readonly Point[]) => Math.max(1, ...of.map((q) => q[1] ?? 0));
  const reached = Math.max(highest(points), highest(future), highest(earlier));
  const bounds = within(p.limits, span.from, end);
  const max = Math.max(reached, ...bounds.map((b) => b.max ?? 0).filter((n) => n <= reached * 1.6));
  // A minimum to come is shown, and a maximum that is near.
  const scheduled = p.ahead.filter((b) => span.now <= span.to && millis(b.time) / 1000 <= span.to);
  const highestMin = Math.max(reached, ...scheduled.map((b) => b.minReplicas ?? 0));
  const near = scheduled.map((b) => b.maxReplicas ?? 0).filter((n) => n <= highestMin * 1.6);
  // Proposals far above the counts would flatten these: they get a mark at the edge.
  const top = Math.max(max, highestMin, ...near, Math.min(Math.max(highest(proposals), highest(foreseen)), Math.max(4, 3 * reached)));
  return { data: columns([points, proposals, future, foreseen, earlier]) as uPlot.AlignedData, top, proposals, bounds, end };
}

export function ReplicaChart(props: ReplicaChart) {
  const { span, decisions } = props;
  const made = useMemo(() => plotted(props), [decisions, props.recommendations, props.outlook, props.ahead, span, props.until, props.limits, props.compared, props.chosen]);
  const live = useRef({ ...props, ...made });
  live.current = { ...props, ...made };
  const options = (): Omit<uPlot.Options, "width" | "height"> => ({
    padding: [12, 12, 0, 0],
    legend: { show: false },
    cursor: cursor(0),
    scales: {
      x: { time: true, range: () => [live.current.span.from, live.current.span.to] },
      y: { range: () => [0, Math.ceil(live.current.top * 1.12 + 0.5)] },
    },
    axes: [
      timeAxis(),
      axis({ size: 44, incrs: Array.from({ length: 30 }, (_, i) => [1, 2, 5][i % 3]! * 10 ** Math.floor(i / 3)), values: (_, s) => s.map((v) => compact(v)) }),
    ],
    series: [
      {},
      { stroke: () => color("c1"), width: 2.25, fill: () => fade(color("c1"), 0.1), paths: stepped, points: { show: false } },
      { stroke: () => color("muted"), width: 1.25, paths: stepped, points: { show: false } },
      { stroke: () => color("c1"), width: 1.5, dash: [3, 4], paths: stepped, points: { show: false } },
      { stroke: () => color("c2"), width: 1.5, dash: [6, 3], paths: stepped, points: { show: false } },
      { stroke: () => color("muted"), width: 1.5, dash: [1, 3], paths: stepped, points: { show: false } },
    ],
    hooks: {
      drawClear: [(u) => drawGaps(u, live.current)],
      // Of labels that would overlap the first is drawn.
      draw: [(u) => labels.set(u, []), ...[drawMarks, drawBeyond, drawNow, drawLimits, drawAhead].map((draw) => (u: uPlot) => draw(u, live.current))],
    },
  });
  const changes = decisions.filter((d) => changed(d) && inSpan(d, span)).length;
  const last = decisions.at(-1);
  const now = last && counts(last)?.after;
  return (
    <Chart
      label={`Replicas over time: ${now === undefined ? "unknown" : integer(now)} now, ${count(changes, "change")} shown. The list of decisions below has the same.${told(made.bounds)}${events(props.ahead).map((b) => ` ${clockText(millis(b.time))}: ${boundsText(b)}.`).join("")}`}
      height={270}
      data={made.data}
      options={options}
      shape="replicas"
      tell={(x, pixel) => tellNear(live.current.decisions, x, pixel, countText)}
      onClick={(x, pixel) => {
        const near = nearest(live.current.decisions, x, marker * pixel);
        if (near) live.current.choose(near);
      }}
      onSelect={props.select}
    />
  );
}

/** The decision that a click would choose, in words. */
function tellNear(decisions: readonly Decision[], x: number, pixel: number, words: (d: Decision) => string): string {
  const near = nearest(decisions, x, marker * pixel);
  return near ? `${clockText(millis(near.time))}: ${words(near)}` : "";
}

/** "12 → 15 replicas, metrics ask for 16". */
function countText(d: Decision): string {
  const known = counts(d);
  if (!known) return "the count is unknown";
  const asks = d.basis?.proposal;
  return `${known.from === known.after ? "" : `${integer(known.from)} → `}${count(known.after, "replica")}${asks === undefined ? "" : `, metrics ask for ${integer(asks)}`}`;
}

/** A reading with more digits than there is room for elsewhere. */
function readText(m: MetricStatus | undefined): string {
  const r = m && reading(m);
  return !r ? "no reading" : r.kind === "utilization" || !Number.isFinite(r.number) ? r.text : compact(r.number, 6) + (r.kind === "average" ? " per replica" : "");
}

/** The bounds of the past in words, the last changes of them. */
function told(bounds: readonly Bounds[]): string {
  const words = (b: Bounds) => (b.max === null ? "unknown" : `${integer(b.min ?? 0)} to ${integer(b.max)}`);
  const shown = bounds.slice(-4);
  return shown.length ? ` Bounds: ${shown.map((b, i) => (i ? `from ${clockText(b.at * 1000)} ${words(b)}` : words(b))).join("; ")}.` : "";
}

/** The starts and ends, without the steps of ramps. */
export const events = (ahead: readonly Ahead[]): Ahead[] => ahead.filter((b) => b.event);

/** "schedule "office" starts: at least 20, at most 50". */
export const boundsText = (b: Ahead): string => `${plainText(b.event, 256)}: at least ${integer(b.minReplicas ?? 0)}, at most ${integer(b.maxReplicas ?? 0)}`;

function fade(hex: string, alpha: number): string {
  const n = /^#([0-9a-f]{6})$/i.exec(hex);
  if (!n) return hex;
  const v = parseInt(n[1]!, 16);
  return `rgba(${v >> 16}, ${(v >> 8) & 255}, ${v & 255}, ${alpha})`;
}

/** Where a chart has labels: from and to, and their lower edge. */
const labels = new WeakMap<uPlot, [from: number, to: number, y: number][]>();

/** A label, unless it would overlap another one; it can be read on lines, too. */
function text(u: uPlot, label: string, x: number, y: number, tone: string, align: CanvasTextAlign = "left"): void {
  label = shown(label);
  const g = u.ctx;
  const px = uPlot.pxRatio;
  g.font = `${11 * px}px system-ui, sans-serif`;
  const from = align === "right" ? x - g.measureText(label).width : x;
  const to = from + g.measureText(label).width;
  const others = labels.get(u)!;
  if (others.some(([a, b, c]) => from < b + 6 * px && to > a - 6 * px && Math.abs(c - y) < 13 * px)) return;
  others.push([from, to, y]);
  g.save();
  g.setLineDash([]);
  g.textAlign = "left";
  g.textBaseline = "bottom";
  g.lineJoin = "round";
  g.lineWidth = 3 * px;
  g.strokeStyle = color("surface");
  g.strokeText(label, from, y);
  g.fillStyle = tone;
  g.fillText(label, from, y);
  g.restore();
}

type Drawn = ReplicaChart & ReturnType<typeof plotted>;

/** Where each instant is, within the plot. */
function across(u: uPlot): (s: number) => number {
  const { left, width } = u.bbox;
  return (s) => Math.max(left, Math.min(left + width, u.valToPos(s, "x", true)));
}

function line(u: uPlot, tone: string, dash: number[], ...to: [x: number, y: number][]): void {
  const g = u.ctx;
  g.beginPath();
  g.setLineDash(dash.map((n) => n * uPlot.pxRatio));
  for (const [x, y] of to) g.lineTo(x, y);
  g.strokeStyle = tone;
  g.stroke();
}

/** Between count and proposal, what kept them apart. */
function drawGaps(u: uPlot, p: Drawn): void {
  const g = u.ctx;
  const { top, height } = u.bbox;
  const x = (s: number) => Math.round(across(u)(s)); // no seams between neighbours
  const y = (n: number) => Math.max(top, Math.min(top + height, u.valToPos(n, "y", true)));
  g.save();
  p.decisions.forEach((d, i) => {
    const tone = gapOf(d);
    const asked = d.basis?.proposal;
    const next = p.decisions[i + 1];
    const from = x(seconds(d));
    const to = x(next ? seconds(next) : p.end);
    if (!tone || asked === undefined || to <= from) return;
    g.fillStyle = fade(color(tone), gapStrength);
    const [a, b] = [y(d.desiredReplicas ?? 0), y(asked)];
    g.fillRect(from, Math.min(a, b), to - from, Math.abs(a - b));
  });
  g.restore();
}

/** Where now is, and since when what was asked for still counts. */
function drawNow(u: uPlot, p: Drawn): void {
  if (p.span.now > p.span.to) return;
  const px = uPlot.pxRatio;
  const { left, top, height } = u.bbox;
  const x = across(u);
  const now = x(p.span.now);
  u.ctx.save();
  u.ctx.lineWidth = px;
  if (p.window) {
    const from = x(p.span.now - p.window);
    line(u, color("held"), [1, 3], [from, top], [from, top + height]);
    const label = `window ${duration(p.window * 1000)}`;
    const room = 90 * px;
    if (from - left > room) text(u, label, from - 5 * px, top + 13 * px, color("held"), "right");
    else if (now - from > room) text(u, label, from + 5 * px, top + 13 * px, color("held"));
  }
  line(u, color("faint"), [2, 3], [now, top], [now, top + height]);
  u.ctx.restore();
}

/** The bounds, and what the next decision may come to. */
function drawLimits(u: uPlot, p: Drawn): void {
  const g = u.ctx;
  const px = uPlot.pxRatio;
  const { left, top, width, height } = u.bbox;
  const y = (n: number) => u.valToPos(n, "y", true);
  const now = across(u)(p.span.now);
  const seen = (at: number) => at >= top && at <= top + height;
  g.save();
  g.lineWidth = px;
  const end = p.ahead.length || p.until ? across(u)(p.end) : left + width;
  const bound = (which: "min" | "max", label: string) => {
    p.bounds.forEach((b, i) => {
      const n = b[which];
      if (n === null || !seen(y(n))) return;
      const next = p.bounds[i + 1];
      const [from, to] = [across(u)(b.at), next ? across(u)(next.at) : end];
      const after = next?.[which] ?? null;
      g.globalAlpha = 0.75;
      line(u, color("limited"), [6, 4], [from, y(n)], [to, y(n)], ...(after === null ? [] : [[to, y(after)] as [number, number]]));
      g.globalAlpha = 1;
      // What ends soon has no place for its words.
      const other = p.bounds.slice(i).find((q) => q[which] !== n);
      if (p.bounds[i - 1]?.[which] === n || (other && across(u)(other.at) - from < 75 * px)) return;
      const near = left + width - from < 75 * px;
      text(u, `${label} ${integer(n)}`, near ? left + width - 4 * px : from + 6 * px, y(n) - 2 * px, color("limited"), near ? "right" : "left");
    });
  };
  bound("max", "maximum");
  bound("min", "minimum");
  const latest = p.bounds.at(-1);
  const limit = (n: number, label: string, below: boolean) => {
    if (!seen(y(n))) return;
    line(u, color("limited"), [], [now, y(n)], [left + width, y(n)]);
    if (left + width - now > 60 * px) text(u, `${label} ${integer(n)}`, left + width - 4 * px, below ? y(n) + 13 * px : y(n) - 2 * px, color("limited"), "right");
  };
  g.lineWidth = 2 * px;
  const o = p.outlook;
  if (o && p.span.now <= p.span.to && o.highestReplicas !== latest?.max) limit(o.highestReplicas ?? 0, "ceiling", false);
  if (o && p.span.now <= p.span.to && (o.lowestReplicas ?? 0) !== (latest?.min ?? 0)) limit(o.lowestReplicas ?? 0, "floor", true);
  g.restore();
}

/** The minimum and the maximum by the schedules, from now on, as steps. */
function drawAhead(u: uPlot, p: Drawn): void {
  if (!p.ahead.length || p.span.now > p.span.to) return;
  const g = u.ctx;
  const px = uPlot.pxRatio;
  const { left, top, width, height } = u.bbox;
  const x = across(u);
  const y = (n: number) => u.valToPos(n, "y", true);
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  g.lineWidth = 1.75 * px;
  const now = x(p.span.now);
  for (const which of ["minReplicas", "maxReplicas"] as const) {
    const steps: [number, number][] = [];
    for (const b of p.ahead) {
      const at = Math.max(now, x(millis(b.time) / 1000));
      if (steps.length) steps.push([at, steps.at(-1)![1]]);
      steps.push([at, y(b[which] ?? 0)]);
    }
    line(u, color("limited"), [], ...steps, [left + width, steps.at(-1)![1]]);
  }
  g.restore();
  for (const b of events(p.ahead)) {
    const at = x(millis(b.time) / 1000);
    const label = `min ${integer(b.minReplicas ?? 0)}`;
    if (at >= left + width || at < now) continue;
    const rightmost = left + width - at < 60 * px;
    text(u, label, at + (rightmost ? -4 : 4) * px, Math.max(top + 12 * px, y(b.minReplicas ?? 0) - 3 * px), color("limited"), rightmost ? "right" : "left");
  }
}

/** Marks at the upper edge for proposals beyond it: the highest, and the last. */
function drawBeyond(u: uPlot, p: Drawn): void {
  const px = uPlot.pxRatio;
  const { left, top, width } = u.bbox;
  const beyond = p.proposals.filter((q) => q[1]! > (u.scales.y!.max ?? Infinity));
  const peak = beyond.reduce<Point | undefined>((m, q) => (!m || q[1]! > m[1]! ? q : m), undefined);
  const last = p.proposals.at(-1);
  for (const q of [last && beyond.includes(last) ? last : undefined, peak]) {
    if (!q) continue;
    const at = across(u)(q[0]);
    const leftwards = at > left + width / 2;
    text(u, leftwards ? `asks for ${integer(q[1]!)} ▲` : `▲ asks for ${integer(q[1]!)}`, at + (leftwards ? -4 : 4) * px, top + 26 * px, color("text"), leftwards ? "right" : "left");
  }
}

function drawMarks(u: uPlot, p: Drawn): void {
  const g = u.ctx;
  const px = uPlot.pxRatio;
  const { left, top, width, height } = u.bbox;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  for (const d of p.decisions) {
    if (!inSpan(d, p.span)) continue;
    const known = counts(d);
    if (!known) continue;
    const { from, after: to } = known;
    const failed = d.outcome === "FAILED";
    const on = d === p.chosen || (d.recommendationId !== "" && d.recommendationId === p.chosen?.recommendationId);
    if (from === to && !failed && !on) continue;
    const x = u.valToPos(seconds(d), "x", true);
    const y = u.valToPos(to, "y", true);
    const size = (on ? 6.5 : 4) * px;
    g.beginPath();
    if (failed) {
      g.font = `bold ${2.5 * size}px system-ui, sans-serif`;
      [g.textAlign, g.textBaseline] = ["center", "middle"];
      g.fillStyle = color("failing");
      g.fillText("✕", x, y);
    } else if (from === to) g.arc(x, y, size * 0.8, 0, 7);
    else {
      const way = to > from ? -1 : 1;
      g.moveTo(x, y + way * size);
      g.lineTo(x - size, y - way * size * 0.8);
      g.lineTo(x + size, y - way * size * 0.8);
      g.closePath();
    }
    if (!failed) g.fillStyle = from === to ? color("accent") : to > from ? color("up") : color("down");
    g.fill();
    g.strokeStyle = color("surface");
    g.lineWidth = px;
    g.stroke();
    if (on) {
      g.beginPath();
      g.setLineDash([]);
      g.moveTo(x, top);
      g.lineTo(x, top + height);
      g.strokeStyle = color("accent");
      g.lineWidth = px;
      g.stroke();
    }
  }
  g.restore();
}

/** The readings in a place of the spec, how many could not be read, and what the newest is of: one of another metric, by an earlier spec, has no number here. */
export function measuredOver(decisions: readonly Decision[], span: Span, index: number): { values: Point[]; missing: number; of: Reading | undefined } {
  const of = newestAt(decisions, index);
  const values: Point[] = [];
  let missing = 0;
  for (const d of decisions) {
    const m = inSpan(d, span) ? d.currentMetrics?.[index] : undefined;
    if (!m) continue;
    const r = reading(m);
    if (r.kind === "none") missing++;
    values.push([seconds(d), isSame(r, of) && Number.isFinite(r.number) ? r.number : null]);
  }
  return { values, missing, of };
}

/** From where to where the axis of readings goes; they may be below 0. */
export const metricRange = (least: number | null, most: number | null): [number, number] => {
  const [from, to] = [Math.min(0, least ?? 0) * 1.15, Math.max(0, most ?? 0) * 1.15];
  return from === to ? [0, 1] : [from, to];
};

interface MetricChart {
  index: number;
  span: Span;
  decisions: readonly Decision[];
  spec: SpecInUse | undefined;
  /** Of the newest decision. */
  explanation: Explanation | undefined;
  choose: (d: Decision) => void;
  select: (range?: [from: number, to: number]) => void;
}

/** The readings of one metric, with its target where the spec is known. */
export function MetricChart(props: MetricChart) {
  const { index, span, decisions, spec } = props;
  const live = useRef(props);
  live.current = props;
  const inUse = spec?.spec?.metrics?.[index];
  const want = inUse ? wanted(inUse) : undefined;
  const since = millis(spec?.sinceTime) / 1000 || 0;
  const { data, name, unit, missing } = useMemo(() => {
    const { values, missing, of } = measuredOver(decisions, span, index);
    const target: Point[] = want && Number.isFinite(want.number) ? [[Math.max(span.from, since), want.number], [span.to, want.number]] : [];
    return { data: columns([values, target]) as uPlot.AlignedData, name: want?.name || of?.name, unit: of?.kind === "utilization" ? "%" : "", missing };
  }, [decisions, span, index, want?.number, want?.name, since]);
  // What the newest decision read, and what it asked for: never an older one's.
  const newest = decisions.at(-1);
  const read = newest?.currentMetrics?.[index];
  const last = read ? reading(read).text : "no reading";
  const asks = props.explanation?.metrics?.[index]?.proposal ?? newest?.basis?.metricProposals?.[index] ?? -1;
  const tone = `c${(index % 4) + 2 === 5 ? 6 : (index % 4) + 2}`;
  const options = (): Omit<uPlot.Options, "width" | "height"> => ({
    padding: [10, 12, 0, 0],
    legend: { show: false },
    cursor: cursor(7),
    scales: {
      x: { time: true, range: () => [live.current.span.from, live.current.span.to] },
      y: { range: (_, least, most) => metricRange(least, most) },
    },
    axes: [
      timeAxis(),
      axis({ size: 44, values: (_, s) => s.map((v) => compact(v) + (unit === "%" ? "%" : "")) }),
    ],
    series: [
      {},
      { stroke: () => color(tone), width: 1.75, points: { show: false, size: 5, fill: () => color(tone), filter: (u) => alone(u.data[1]!) } },
      { stroke: () => color("muted"), width: 1.25, dash: [6, 4], points: { show: false } },
    ],
  });
  return (
    <section class="card chart-card">
      <header>
        <h2>{name || `Metric ${index + 1}`}</h2>
        <span class="readout">
          {last}
          {want?.text && <span class="muted"> · target {want.text}</span>}
          {asks >= 0 && <span class="muted"> · asks for {count(asks, "replica")}</span>}
          {missing > 0 && <span class="chip failing"><i aria-hidden="true">✕</i>{integer(missing)} without a reading</span>}
        </span>
      </header>
      <Chart
        label={`${name || `metric ${index + 1}`} over time: ${last} last${want?.text ? `, target ${want.text}` : ""}.`}
        height={150}
        data={data}
        options={options}
        shape={`metric ${index} ${unit}`}
        tell={(x, pixel) => tellNear(live.current.decisions, x, pixel, (d) => readText(d.currentMetrics?.[index]))}
        onClick={(x, pixel) => {
          const near = nearest(live.current.decisions, x, marker * pixel);
          if (near) live.current.choose(near);
        }}
        onSelect={props.select}
      />
    </section>
  );
}

