// The charts of a run.

import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { axis, Chart, timeAxis } from "../components/chart";
import { knownZone, timeOfDay } from "../lib/clock";
import { compact, count } from "../lib/format";
import { color } from "../theme";
import { type Run, titleOf } from "./engine";
import { envelope, nearest } from "./series";

const steps = uPlot.paths.stepped!({ align: 1 });
const sync = "playground";

function base(zone: string, scales: uPlot.Options["scales"], series: uPlot.Series[], more: Partial<uPlot.Options> = {}): Omit<uPlot.Options, "width" | "height"> {
  return {
    cursor: { sync: { key: sync }, points: { size: 5 }, drag: { x: true, y: false } },
    legend: { live: true },
    scales: { x: { time: true }, ...scales },
    // Splits follow the zone's clock.
    ...(knownZone(zone) ? { tzDate: (ts: number) => uPlot.tzDate(new Date(ts * 1000), zone) } : {}),
    axes: [timeAxis(zone), axis({ size: 46, values: (_, v) => v.map((n) => compact(n)) })],
    series: [{ label: `Time (${zone})`, value: (_, v) => (v == null ? "" : timeOfDay(v, zone)) }, ...series],
    ...more,
  };
}

const line = (label: string, stroke: string, more: uPlot.Series = {}): uPlot.Series => ({
  label, stroke: () => color(stroke), width: 1.6, points: { show: false }, value: (_, v) => (v == null ? "" : compact(v, 4)), ...more,
});
/** Two specs, or the rules of a fleet. */
const own = ["c1", "c2", "c3", "c4", "c5"];

// Charts use the scenario's zone, like the load and the list of changes: UTC by default.
const times = (run: Run) => run.at.map((s) => run.start + s);
const fromZero: uPlot.Scale = { range: (_, __, max) => [0, Math.max(1, max * 1.05)] };

export function LoadPlot(props: { run: Run }) {
  const { run } = props;
  const limited = run.runs.filter((r) => r.capacity.some((c) => c !== null));
  const highest = run.load.reduce((most, l) => Math.max(most, l), 0);
  // The load matters: capacity far above it is cut off.
  const most = Math.max(1, highest) * 2;
  const data = useMemo(() => [times(run), run.load, ...limited.map((r) => r.capacity)] as uPlot.AlignedData, [run]);
  return (
    <Chart
      label={`Load over time, up to ${compact(highest)} units a second, and the capacity of ready pods`}
      height={190}
      shape={`load ${run.zone} ${most} ${limited.map((r) => r.name).join()}`}
      data={data}
      options={() =>
        base(run.zone, { y: { range: (_, __, max) => [0, Math.min(most, Math.max(1, max * 1.05))] } }, [
          line("Load", "text", { fill: () => color("hover"), width: 1.2 }),
          ...limited.map((r) => line(`Capacity ${r.name}`, own[run.runs.indexOf(r)]!, { paths: steps })),
        ])
      }
    />
  );
}

/** What a chart of counts may show beside them. */
export const layers = { ready: "Ready pods", needed: "Needed at target", proposed: "Asked by metrics", held: "After windows" } as const;
export type Layer = keyof typeof layers;

interface Drawn {
  values: (number | null)[];
  series: uPlot.Series;
}

/** What is drawn of the counts, from the back to the front, and the areas between: pairs of series, from 0, and their colour. */
function drawn(run: Run, shown: ReadonlySet<Layer>): { all: Drawn[]; areas: [number, number, string][] } {
  const all: Drawn[] = [];
  const areas: [number, number, string][] = [];
  const several = run.runs.length > 1;
  const put = (values: (number | null)[], series: uPlot.Series) => all.push({ values, series: { paths: steps, ...series } }) - 1;
  const range = (label: string, values: readonly (number | null)[], stroke: string) => {
    const [low, high] = envelope(values);
    const a = put(low, line(`${label}, least`, stroke, { width: 0, class: "pg-unlisted" }));
    const b = put(high, line(label, stroke, { width: 1 }));
    areas.push([b, a, stroke]);
  };
  run.runs.forEach((r, i) => {
    const of = several ? ` ${r.name}` : "";
    const proposals = (r.metrics ?? []).filter((m) => m.proposal);
    if (shown.has("ready")) put(r.ready, line(`Ready${of}`, own[i]!, { width: 0.6, fill: () => `${color(own[i]!)}26` }));
    if (shown.has("needed")) range(`Needed${of}`, r.needed, ["c3", "c4"][i] ?? own[i]!);
    if (shown.has("proposed")) {
      if (proposals.length === 0) range(`Metrics ask for${of}`, r.proposal, ["c5", "c4"][i] ?? own[i]!);
      proposals.forEach((m, k) => range(`${m.name} asks for${of}`, m.proposal!, ["c5", "c4", "c6", "c3"][(k + 2 * i) % 4]!));
    }
    if (shown.has("held")) put(r.held, line(`After windows${of}`, ["held", "limited"][i] ?? own[i]!, { width: 1 }));
  });
  if (run.recorded) put(run.recorded.counts, line("Recorded", "text", { width: 2, dash: [5, 3] }));
  // All but the first are dashed: where several are the same, all are seen.
  const counts = run.runs.map((r, i) => put(r.replicas, line(several ? `Count ${r.name}` : "Count", own[i]!, { width: 2.4, dash: i > 0 ? [10 - 2 * (i - 1), 4 * i] : undefined })));
  if (counts.length === 2) areas.push([counts[0]!, counts[1]!, "faint"], [counts[1]!, counts[0]!, "faint"]);
  return { all, areas };
}

/** Changes are marked if so few are seen: more hide the line. */
const mostMarks = 120;

/** Marks of changes, as triangles at the count, and a line at the step that is explained. */
function marks(latest: { current: { run: Run; chosen: number | undefined } }): uPlot.Plugin {
  return {
    hooks: {
      draw: (u) => {
        const { run, chosen } = latest.current;
        const ctx = u.ctx;
        const size = 4 * devicePixelRatio;
        const { min = 0, max = 0 } = u.scales.x!;
        const seen = run.runs.map((r) => r.actions.filter((a) => run.start + a.at >= min! && run.start + a.at <= max!));
        ctx.save();
        ctx.beginPath();
        ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
        ctx.clip();
        if (chosen !== undefined) {
          const x = u.valToPos(run.start + chosen, "x", true);
          ctx.fillStyle = color("accent");
          ctx.fillRect(x - devicePixelRatio / 2, u.bbox.top, devicePixelRatio, u.bbox.height);
        }
        seen.forEach((actions, i) => {
          if (actions.length > mostMarks) return;
          ctx.fillStyle = color(own[i]!);
          for (const a of actions) {
            const x = u.valToPos(run.start + a.at, "x", true);
            const y = u.valToPos(a.to, "y", true);
            const up = a.to > a.from ? 1 : -1;
            ctx.beginPath();
            ctx.moveTo(x, y - up * size);
            ctx.lineTo(x - size, y + up * size);
            ctx.lineTo(x + size, y + up * size);
            ctx.fill();
          }
        });
        ctx.restore();
      },
    },
  };
}

/** The counts of all specs, and the recorded one, in one chart. chosen is the instant that is explained, s since the start. */
export function ReplicasPlot(props: { run: Run; shown: ReadonlySet<Layer>; chosen: number | undefined; onStep: (step: number) => void }) {
  const { run, shown, chosen } = props;
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef({ run, chosen });
  latest.current = { run, chosen };
  const { all, areas, data } = useMemo(() => {
    const d = drawn(run, shown);
    return { ...d, data: [times(run), ...d.all.map((s) => s.values)] as uPlot.AlignedData };
  }, [run, shown]);
  useEffect(() => plot.current?.redraw(false), [chosen]);
  return (
    <Chart
      label={`Replicas over time of ${run.runs.map((r, i) => `${titleOf(run, i)}, ${count(r.actions.length, "change")}`).join("; ")}. The lists of changes below have them in words.`}
      height={340}
      shape={`replicas ${run.zone} ${all.map((s) => s.series.label).join()}`}
      data={data}
      onClick={(x) => props.onStep(nearest(run, x - run.start))}
      options={() =>
        base(run.zone, { y: { range: (_, __, max) => [0, Math.max(4, max * 1.08)] } }, all.map((s) => s.series), {
          bands: areas.map(([a, b, stroke]) => ({ series: [a + 1, b + 1] as uPlot.Band.Bounds, fill: () => `${color(stroke)}33` })),
          plugins: [marks(latest)],
          hooks: { ready: [(u) => void (plot.current = u)], destroy: [() => void (plot.current = undefined)] },
        })
      }
    />
  );
}

export function MetricsPlot(props: { run: Run }) {
  const { run } = props;
  const all = run.runs.flatMap((r, i) => (r.metrics ?? []).map((m) => ({ name: `${m.name} ${r.name}`, ratio: m.ratio, color: own[i]! })));
  const data = useMemo(() => [times(run), run.at.map(() => 1), ...all.map((m) => m.ratio)] as uPlot.AlignedData, [run]);
  if (all.length === 0) return null;
  return (
    <Chart
      label="Usage of each metric over its target, as the engine read it"
      height={170}
      shape={`metrics ${run.zone} ${all.map((m) => m.name).join()}`}
      data={data}
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
  const data = useMemo(() => [times(run), ...all.map((r) => r.queued!)] as uPlot.AlignedData, [run]);
  if (all.length === 0) return null;
  return (
    <Chart
      label="Load that waits"
      height={150}
      shape={`queue ${run.zone} ${all.map((r) => r.name).join()}`}
      data={data}
      options={() => base(run.zone, { y: fromZero }, all.map((r) => line(`Waiting ${r.name}`, own[run.runs.indexOf(r)]!)))}
    />
  );
}
