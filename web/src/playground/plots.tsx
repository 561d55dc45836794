// The charts of a run.

import uPlot from "uplot";
import { axis, Chart, timeAxis } from "../components/chart";
import { knownZone, timeOfDay } from "../lib/clock";
import { color } from "../theme";
import type { OneRun, Run } from "./engine";

const steps = uPlot.paths.stepped!({ align: 1 });
const sync = "playground";

function base(zone: string, scales: uPlot.Options["scales"], series: uPlot.Series[], more: Partial<uPlot.Options> = {}): Omit<uPlot.Options, "width" | "height"> {
  return {
    cursor: { sync: { key: sync }, points: { size: 5 }, drag: { x: true, y: false } },
    legend: { live: true },
    scales: { x: { time: true }, ...scales },
    // Splits follow the zone's clock.
    ...(knownZone(zone) ? { tzDate: (ts: number) => uPlot.tzDate(new Date(ts * 1000), zone) } : {}),
    axes: [timeAxis(zone), axis({ size: 46, values: (_, v) => v.map((n) => (n >= 10_000 ? `${n / 1000}k` : String(n))) })],
    series: [{ label: `Time (${zone})`, value: (_, v) => (v == null ? "–" : timeOfDay(v, zone)) }, ...series],
    ...more,
  };
}

const line = (label: string, stroke: string, more: uPlot.Series = {}): uPlot.Series => ({ label, stroke: () => color(stroke), width: 1.6, points: { show: false }, ...more });
const own = ["c1", "c2"];

// Charts use the scenario's zone, like the load and the list of changes: UTC by default.
const times = (run: Run) => run.at.map((s) => run.start + s);

export function LoadPlot(props: { run: Run }) {
  const { run } = props;
  const limited = run.runs.filter((r) => r.capacity.some((c) => c !== null));
  // The load matters: capacity far above it is cut off.
  const most = Math.max(1, ...run.load) * 2;
  return (
    <Chart
      label={`Load over time, up to ${Math.max(...run.load)} units a second, and the capacity of ready pods`}
      height={170}
      shape={`load ${run.zone} ${limited.map((r) => r.name).join()}`}
      data={[times(run), run.load, ...limited.map((r) => r.capacity)] as uPlot.AlignedData}
      options={() =>
        base(run.zone, { y: { range: (_, __, max) => [0, Math.min(most, Math.max(1, max * 1.05))] } }, [
          line("Load", "text", { fill: () => color("hover"), width: 1.2 }),
          ...limited.map((r) => line(`Capacity ${r.name}`, own[run.runs.indexOf(r)]!, { paths: steps })),
        ])
      }
    />
  );
}

/** Marks of changes, as triangles above the count. */
function marks(run: Run, one: OneRun): uPlot.Plugin {
  return {
    hooks: {
      draw: (u) => {
        const ctx = u.ctx;
        const size = 4 * devicePixelRatio;
        ctx.save();
        ctx.beginPath();
        ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
        ctx.clip();
        for (const a of one.actions) {
          const x = u.valToPos(run.start + a.at, "x", true);
          const y = u.valToPos(a.to, "y", true);
          const up = a.to > a.from;
          ctx.fillStyle = color(up ? "up" : "down");
          ctx.beginPath();
          ctx.moveTo(x, y + (up ? -size : size));
          ctx.lineTo(x - size, y + (up ? size : -size));
          ctx.lineTo(x + size, y + (up ? size : -size));
          ctx.fill();
        }
        ctx.restore();
      },
    },
  };
}

export function ReplicasPlot(props: { run: Run; one: OneRun; index: number; top: number; onStep: (step: number) => void }) {
  const { run, one } = props;
  // Each metric has its own proposal; the largest counts.
  const proposals = (one.metrics ?? []).filter((m) => m.proposal);
  return (
    <Chart
      label={`Replicas of ${one.name} over time, ${one.actions.length} changes; the list of changes below has them in words`}
      height={200}
      shape={`replicas ${one.name} ${run.zone} ${props.top} ${one.actions.length} ${proposals.map((m) => m.name).join()}`}
      data={[times(run), one.held, one.proposal, one.needed, one.ready, one.replicas, ...proposals.map((m) => m.proposal!)] as uPlot.AlignedData}
      onClick={(x) => props.onStep(nearest(run, one, x - run.start))}
      options={() =>
        base(
          run.zone,
          { y: { range: () => [0, props.top] } },
          [
            line("Held by a window", "held", { paths: steps, width: 0.8 }),
            line("Proposed", "c5", { paths: steps, width: 0.8 }),
            line("Needed at target", "c4", { paths: steps, dash: [4, 3], width: 1.2 }),
            line("Ready", "c3", { paths: steps }),
            line("Asked for", own[props.index]!, { paths: steps, width: 2.2 }),
            ...proposals.map((m, i) => line(`Proposed by ${m.name}`, i % 2 ? "c4" : "c5", { paths: steps, width: 1, dash: [[2, 3], [6, 3], [8, 2, 2, 2]][i % 3] })),
          ],
          { bands: [{ series: [1, 2], fill: () => color("band") }], plugins: [marks(run, one)] },
        )
      }
    />
  );
}

/** The change near an instant, else the step at it. */
function nearest(run: Run, one: OneRun, at: number): number {
  const near = run.seconds / 150;
  let best: { step: number; far: number } | undefined;
  for (const a of one.actions) {
    const far = Math.abs(a.at - at);
    if (far <= near && (!best || far < best.far)) best = { step: a.step, far };
  }
  if (best) return best.step;
  let i = run.at.findIndex((t) => t > at);
  if (i < 0) i = run.at.length;
  return Math.max(0, i - 1) * run.stride;
}

export function MetricsPlot(props: { run: Run }) {
  const { run } = props;
  const all = run.runs.flatMap((r, i) => (r.metrics ?? []).map((m) => ({ name: `${m.name} ${r.name}`, ratio: m.ratio, color: own[i]! })));
  if (all.length === 0) return null;
  return (
    <Chart
      label="Usage of each metric over its target, as the engine read it"
      height={150}
      shape={`metrics ${run.zone} ${all.map((m) => m.name).join()}`}
      data={[times(run), run.at.map(() => 1), ...all.map((m) => m.ratio)] as uPlot.AlignedData}
      options={() =>
        base(run.zone, { y: { range: (_, __, max) => [0, Math.min(5, Math.max(1.5, max * 1.05))] } }, [
          line("On target", "faint", { dash: [4, 4], width: 1 }),
          ...all.map((m, i) => line(m.name, m.color, { width: 1.2, dash: i > 1 ? [6, 2] : undefined })),
        ])
      }
    />
  );
}

export function QueuePlot(props: { run: Run }) {
  const { run } = props;
  const all = run.runs.filter((r) => r.queued && r.queued.length > 0);
  if (all.length === 0) return null;
  return (
    <Chart
      label="Load that waits"
      height={120}
      shape={`queue ${run.zone} ${all.map((r) => r.name).join()}`}
      data={[times(run), ...all.map((r) => r.queued!)] as uPlot.AlignedData}
      options={() => base(run.zone, { y: { range: (_, __, max) => [0, Math.max(1, max * 1.05)] } }, all.map((r) => line(`Waiting ${r.name}`, own[run.runs.indexOf(r)]!)))}
    />
  );
}
