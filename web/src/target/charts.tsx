// Replicas, proposals and metrics over time.

import { useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Decision, TargetSpec } from "../api/types";
import { axis, Chart, timeAxis } from "../components/chart";
import { compact, count, millis } from "../lib/format";
import { reading, wanted } from "../lib/metrics";
import type { Outlook } from "../lib/next";
import { columns, nearest, safest } from "../lib/points";
import { color } from "../theme";

export interface Span {
  from: number;
  now: number;
  to: number;
}

const stepped = uPlot.paths.stepped!({ align: 1 });

function inSpan(d: Decision, span: Span): boolean {
  const t = millis(d.time) / 1000;
  return t >= span.from && t <= span.to;
}

interface ReplicaChart {
  span: Span;
  decisions: readonly Decision[];
  outlook: Outlook | undefined;
  current: number;
  chosen: Decision | undefined;
  choose: (d: Decision) => void;
}

export function ReplicaChart(props: ReplicaChart) {
  const { span, decisions, outlook, current } = props;
  const live = useRef(props);
  live.current = props;
  const data = useMemo(() => {
    const counts: [number, number][] = [];
    const before = decisions.filter((d) => millis(d.time) / 1000 < span.from).at(-1);
    if (before) counts.push([span.from, before.desiredReplicas ?? 0]);
    for (const d of decisions) if (inSpan(d, span)) counts.push([millis(d.time) / 1000, d.desiredReplicas ?? 0]);
    counts.push([span.now, current]);
    // The metrics' proposals: from the log, and from the history for decisions that are not logged.
    const asked = new Map<number, number>();
    for (const r of outlook?.down.recommendations ?? []) asked.set(r.time / 1000, r.count);
    for (const d of decisions) if (d.basis?.proposal !== undefined) asked.set(millis(d.time) / 1000, d.basis.proposal);
    const all = [...asked].sort((a, b) => a[0] - b[0]);
    const proposals = all.filter((p) => p[0] >= span.from);
    if (proposals.length > 0) proposals.push([span.now, proposals.at(-1)![1]]);
    // The effect of the windows: counts below the higher line, or above the lower one, are not
    // reached.
    const high = safest(all, outlook?.down.seconds ?? 0, Math.max, span);
    const low = safest(all, outlook?.up.seconds ?? 0, Math.min, span);
    // The future if the same is proposed from now on.
    const future: [number, number][] = [];
    if (outlook?.down.holds) {
      const bound = (n: number) => Math.max(outlook.min ?? 0, Math.min(outlook.max ?? Infinity, n));
      future.push([span.now, current]);
      for (const s of outlook.down.steps) future.push([s.time / 1000, Math.min(current, bound(s.count))]);
      future.push([span.to, future.at(-1)![1]]);
    }
    return columns([counts, proposals, future, high, low]);
  }, [decisions, outlook, span, current]);
  const options = (): Omit<uPlot.Options, "width" | "height"> => ({
    padding: [12, 12, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "target" }, y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, range: () => [live.current.span.from, live.current.span.to] },
      y: {
        range: (_, __, most) => {
          const o = live.current.outlook;
          const top = Math.max(most ?? 1, 1);
          const max = o?.max !== undefined && o.max <= top * 1.6 ? o.max : top;
          return [0, Math.ceil(max * 1.12 + 0.5)];
        },
      },
    },
    axes: [
      timeAxis(),
      axis({ size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000], values: (_, s) => s.map((v) => compact(v)) }),
    ],
    series: [
      {},
      { stroke: () => color("c1"), width: 2, fill: () => fade(color("c1"), 0.1), paths: stepped, spanGaps: true, points: { show: false } },
      { stroke: () => color("c5"), width: 1.25, paths: stepped, spanGaps: true, points: { show: false }, dash: [1, 0] },
      { stroke: () => color("c1"), width: 1.5, dash: [3, 4], paths: stepped, spanGaps: true, points: { show: false } },
      { stroke: "transparent", width: 0, paths: stepped, spanGaps: true, points: { show: false } },
      { stroke: "transparent", width: 0, paths: stepped, spanGaps: true, points: { show: false } },
    ],
    bands: [{ series: [4, 5], fill: () => fade(color("c5"), 0.2) }],
    hooks: {
      drawClear: [(u) => drawBands(u, live.current)],
      draw: [(u) => drawLimits(u, live.current), (u) => drawMarks(u, live.current)],
    },
  });
  const changes = decisions.filter((d) => d.desiredReplicas !== d.currentReplicas && inSpan(d, span)).length;
  return (
    <Chart
      label={`Replicas over time: ${current} now, ${changes} changes shown. The list of decisions below has the same.`}
      height={270}
      data={data}
      options={options}
      shape="replicas"
      onClick={(x) => {
        const near = nearest(live.current.decisions, x);
        if (near) live.current.choose(near);
      }}
    />
  );
}

function fade(hex: string, alpha: number): string {
  const n = /^#([0-9a-f]{6})$/i.exec(hex);
  if (!n) return hex;
  const v = parseInt(n[1]!, 16);
  return `rgba(${v >> 16}, ${(v >> 8) & 255}, ${v & 255}, ${alpha})`;
}

function text(u: uPlot, label: string, x: number, y: number, tone: string, align: CanvasTextAlign = "left"): void {
  const g = u.ctx;
  g.font = `${11 * uPlot.pxRatio}px system-ui, sans-serif`;
  g.textAlign = align;
  g.textBaseline = "bottom";
  g.fillStyle = tone;
  g.fillText(label, x, y);
}

function drawBands(u: uPlot, p: ReplicaChart): void {
  const g = u.ctx;
  const px = uPlot.pxRatio;
  const { left, top, width, height } = u.bbox;
  const x = (s: number) => Math.max(left, Math.min(left + width, u.valToPos(s, "x", true)));
  const now = x(p.span.now);
  g.save();
  const o = p.outlook;
  if (o && o.down.seconds > 0) {
    const from = x(p.span.now - o.down.seconds);
    // Older ones no longer count.
    g.beginPath();
    g.setLineDash([px, 3 * px]);
    g.moveTo(from, top);
    g.lineTo(from, top + height);
    g.strokeStyle = color("held");
    g.lineWidth = px;
    g.stroke();
    if (now - from > 60 * px) text(u, `window ${o.down.seconds} s`, from + 5 * px, top + 13 * px, color("held"));
  }
  g.beginPath();
  g.setLineDash([2 * px, 3 * px]);
  g.moveTo(now, top);
  g.lineTo(now, top + height);
  g.strokeStyle = color("faint");
  g.lineWidth = px;
  g.stroke();
  g.restore();
}

/** The bounds, and what policies allow now. */
function drawLimits(u: uPlot, p: ReplicaChart): void {
  const g = u.ctx;
  const px = uPlot.pxRatio;
  const { left, top, width, height } = u.bbox;
  const y = (n: number) => u.valToPos(n, "y", true);
  const now = Math.max(left, Math.min(left + width, u.valToPos(p.span.now, "x", true)));
  const o = p.outlook;
  g.save();
  g.lineWidth = px;
  const bound = (n: number | undefined, label: string) => {
    if (n === undefined) return;
    const at = y(n);
    if (at < top || at > top + height) return;
    g.beginPath();
    g.setLineDash([6 * px, 4 * px]);
    g.moveTo(left, at);
    g.lineTo(left + width, at);
    g.strokeStyle = color("limited");
    g.globalAlpha = 0.75;
    g.stroke();
    g.globalAlpha = 1;
    text(u, `${label} ${n}`, left + 6 * px, at - 2 * px, color("limited"));
  };
  bound(o?.max, "maximum");
  bound(o?.min, "minimum");
  // The limits that policies set for one evaluation: a ceiling and a floor, right of
  // now.
  if (o?.known) {
    g.setLineDash([]);
    g.lineWidth = 2 * px;
    g.strokeStyle = color("limited");
    const draw = (n: number, label: string, below: boolean) => {
      const at = y(n);
      if (at < top || at > top + height) return;
      g.beginPath();
      g.moveTo(now, at);
      g.lineTo(left + width, at);
      g.stroke();
      text(u, label, left + width - 4 * px, below ? at + 13 * px : at - 2 * px, color("limited"), "right");
    };
    if (o.max === undefined || o.rateUp.limit < o.max) draw(o.rateUp.limit, `ceiling ${o.rateUp.limit}`, false);
    if (o.rateDown.limit > (o.min ?? 0)) draw(o.rateDown.limit, `floor ${o.rateDown.limit}`, true);
  }
  g.restore();
}

function drawMarks(u: uPlot, p: ReplicaChart): void {
  const g = u.ctx;
  const px = uPlot.pxRatio;
  const { left, top, width, height } = u.bbox;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  for (const d of p.decisions) {
    if (!inSpan(d, p.span)) continue;
    const from = d.currentReplicas ?? 0;
    const to = d.desiredReplicas ?? 0;
    const on = d === p.chosen || (d.recommendationId !== "" && d.recommendationId === p.chosen?.recommendationId);
    if (from === to && !on) continue;
    const x = u.valToPos(millis(d.time) / 1000, "x", true);
    const y = u.valToPos(to, "y", true);
    const size = (on ? 6.5 : 4) * px;
    g.beginPath();
    if (from === to) g.arc(x, y, size * 0.8, 0, 7);
    else {
      const way = to > from ? -1 : 1;
      g.moveTo(x, y + way * size);
      g.lineTo(x - size, y - way * size * 0.8);
      g.lineTo(x + size, y - way * size * 0.8);
      g.closePath();
    }
    g.fillStyle = from === to ? color("accent") : to > from ? color("up") : color("down");
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

interface MetricChart {
  index: number;
  span: Span;
  decisions: readonly Decision[];
  spec: TargetSpec | null | undefined;
  choose: (d: Decision) => void;
}

/** The readings of one metric, with its target where the spec is known. */
export function MetricChart(props: MetricChart) {
  const { index, span, decisions, spec } = props;
  const live = useRef(props);
  live.current = props;
  const want = spec?.spec?.metrics?.[index] ? wanted(spec.spec.metrics[index]!) : undefined;
  const { data, name, last, unit, gaps, asks } = useMemo(() => {
    const values: [number, number][] = [];
    let name = want?.name ?? "";
    let unit = "";
    let gaps = 0;
    let last = "no reading";
    let asks: number | undefined;
    for (const d of decisions) {
      if (!inSpan(d, span)) continue;
      const m = d.currentMetrics?.[index];
      if (!m) continue;
      const r = reading(m);
      last = r.text;
      asks = d.basis?.metricProposals?.[index] ?? asks;
      if (r.kind === "none") {
        gaps++;
        continue;
      }
      name ||= r.name;
      unit = r.kind === "utilization" ? "%" : "";
      values.push([millis(d.time) / 1000, r.number]);
    }
    const target: [number, number][] = want && Number.isFinite(want.number) ? [[span.from, want.number], [span.to, want.number]] : [];
    return { data: columns([values, target]), name, last, unit, gaps, asks };
  }, [decisions, span, index, want?.number, want?.name]);
  const tone = `c${(index % 4) + 2 === 5 ? 6 : (index % 4) + 2}`;
  const options = (): Omit<uPlot.Options, "width" | "height"> => ({
    padding: [10, 12, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "target" }, y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: {
      x: { time: false, range: () => [live.current.span.from, live.current.span.to] },
      y: { range: (_, __, most) => [0, (most || 1) * 1.15] },
    },
    axes: [
      timeAxis(),
      axis({ size: 44, values: (_, s) => s.map((v) => compact(v) + (unit === "%" ? "%" : "")) }),
    ],
    series: [
      {},
      { stroke: () => color(tone), width: 1.75, spanGaps: true, points: { show: false } },
      { stroke: () => color("muted"), width: 1.25, dash: [6, 4], spanGaps: true, points: { show: false } },
    ],
  });
  return (
    <section class="card chart-card">
      <header>
        <h2>{name || `Metric ${index + 1}`}</h2>
        <span class="readout">
          {last}
          {want?.text && <span class="muted"> · target {want.text}</span>}
          {asks !== undefined && asks >= 0 && last !== "no reading" && <span class="muted"> · asks for {count(asks, "replica")}</span>}
          {gaps > 0 && <span class="chip failing"><i aria-hidden="true">✕</i>{gaps} without a reading</span>}
        </span>
      </header>
      <Chart
        label={`${name || `metric ${index + 1}`} over time: ${last} last${want?.text ? `, target ${want.text}` : ""}.`}
        height={150}
        data={data}
        options={options}
        shape={`metric ${index} ${unit}`}
        onClick={(x) => {
          const near = nearest(live.current.decisions, x);
          if (near) live.current.choose(near);
        }}
      />
    </section>
  );
}

