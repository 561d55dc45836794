// A load drawn by hand: its points can be dragged, or moved with the arrow keys.

import { useRef, useState } from "preact/hooks";

type Point = [number, number];

const width = 400;
const height = 150;
const nice = (v: number): number => {
  if (v <= 0) return 100;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= v)!;
};
/** "05:30", of hours. */
export function time(hours: number): string {
  const m = Math.round(hours * 60);
  return [Math.floor(m / 60), m % 60].map((n) => String(n).padStart(2, "0")).join(":");
}

export function Curve(props: { points: Point[]; hours: number; onChange: (points: Point[]) => void }) {
  const svg = useRef<SVGSVGElement>(null);
  const [held, hold] = useState<number | undefined>(undefined);
  const [highest, setScale] = useState(() => nice(Math.max(100, ...props.points.map((p) => p[1])) * 1.05));
  const { points, hours } = props;
  const scale = Math.max(highest, ...points.map((p) => p[1])); // another state may bring higher ones
  const x = (h: number) => (h / hours) * width;
  const y = (v: number) => height - (Math.min(v, scale) / scale) * height;
  const round = (v: number) => Number(v.toPrecision(3));
  const at = (e: PointerEvent | MouseEvent): Point => {
    const r = svg.current!.getBoundingClientRect();
    const h = Math.min(1, Math.max(0, (e.clientX - r.left) / r.width)) * hours;
    const v = Math.min(1, Math.max(0, 1 - (e.clientY - r.top) / r.height)) * scale;
    return [Number(h.toFixed(3)), round(v)];
  };
  const put = (i: number, [h, v]: Point) => {
    const next = points.slice();
    const least = i > 0 ? points[i - 1]![0] : 0;
    const most = i < points.length - 1 ? points[i + 1]![0] : hours;
    next[i] = [Number(Math.min(most, Math.max(least, h)).toFixed(3)), Math.max(0, round(v))];
    props.onChange(next);
  };
  const add = (p: Point) => {
    if (points.length >= 200) return;
    props.onChange([...points, p].sort((a, b) => a[0] - b[0]));
  };
  const remove = (i: number) => points.length > 2 && props.onChange(points.filter((_, k) => k !== i));
  const key = (i: number) => (e: KeyboardEvent) => {
    const [h, v] = points[i]!;
    const step = e.shiftKey ? 10 : 1;
    const moves: Record<string, () => void> = {
      ArrowUp: () => {
        if (v + (step * scale) / 100 > scale) setScale(nice(scale * 1.2));
        put(i, [h, v + (step * scale) / 100]);
      },
      ArrowDown: () => put(i, [h, v - (step * scale) / 100]),
      ArrowLeft: () => put(i, [h - (step * hours) / 200, v]),
      ArrowRight: () => put(i, [h + (step * hours) / 200, v]),
      Delete: () => remove(i),
      Enter: () => {
        const next = points[i + 1] ?? [hours, v];
        add([Number(((h + next[0]) / 2).toFixed(3)), round((v + next[1]) / 2)]);
      },
    };
    const move = moves[e.key];
    if (!move) return;
    e.preventDefault();
    move();
  };
  const line = points.length > 0 ? `M0 ${y(points[0]![1])} ${points.map((p) => `L${x(p[0])} ${y(p[1])}`).join(" ")} L${width} ${y(points.at(-1)![1])}` : "";
  return (
    <div class="pg-curve">
      <svg
        ref={svg}
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="group"
        aria-label="Load drawn by hand. Each point: arrow keys move it, Enter adds one after it, Delete removes it."
        onDblClick={(e) => add(at(e))}
        onPointerMove={(e) => held !== undefined && put(held, at(e))}
        onLostPointerCapture={() => hold(undefined)}
      >
        {[0.25, 0.5, 0.75].map((g) => (
          <line key={g} class="pg-grid" x1="0" x2={width} y1={height * g} y2={height * g} />
        ))}
        <path class="pg-area" d={`${line} L${width} ${height} L0 ${height} Z`} />
        <path class="pg-line" d={line} />
        {points.map((p, i) => (
          <ellipse
            key={i}
            class="pg-point"
            cx={x(p[0])}
            cy={y(p[1])}
            rx="5"
            ry="5"
            tabindex={0}
            role="slider"
            aria-label={`Load at ${time(p[0])}`}
            aria-valuenow={p[1]}
            aria-valuemin={0}
            aria-valuetext={`${p[1]} units a second at ${time(p[0])}`}
            onPointerDown={(e) => {
              hold(i);
              svg.current!.setPointerCapture(e.pointerId);
            }}
            onKeyDown={key(i)}
          />
        ))}
      </svg>
      <div class="pg-curve-foot">
        <span>0</span>
        <span>{time(hours / 2)}</span>
        <span>{time(hours)}</span>
      </div>
      <div class="pg-row">
        <label>
          Highest <input type="number" min="1" value={scale} onInput={(e) => Number(e.currentTarget.value) > 0 && setScale(Number(e.currentTarget.value))} />
        </label>
        <button class="button" type="button" onClick={() => add([Number((hours / 2).toFixed(3)), round(scale / 2)])}>
          Add a point
        </button>
        <span class="pg-hint">Drag points. A double click adds one.</span>
      </div>
    </div>
  );
}
