// uPlot with the page's colours, sizes and time zone.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { timeLabels } from "../lib/clock";
import { shown } from "../lib/text";
import { color, onThemeChange } from "../theme";

/** An axis as the page has them. */
export function axis(more: uPlot.Axis = {}): uPlot.Axis {
  return {
    stroke: () => color("faint"),
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
    gap: 6,
    ...more,
  };
}

/** A time axis: splits where clocks have them, in a zone; none: the user's. */
export function timeAxis(zone?: string): uPlot.Axis {
  return axis({
    size: 28,
    space: 64,
    incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800],
    values: (_, splits) => timeLabels(splits, zone),
  });
}

/** The cursor of charts below each other: it is in all at one time, and what is dragged is selected in one of them. */
export function cursor(size: number): uPlot.Cursor {
  const moves = (type: string) => type === "mousemove" || type === "mouseleave";
  return {
    sync: { key: "target", filters: { pub: moves, sub: moves } }, y: false,
    drag: { x: true, y: false, setScale: false, dist: 8 }, points: size > 0 ? { size } : { show: false },
    dataIdx: (_, series, nearest) => (series > 1 ? null : nearest), // a straight line has points at its ends only, far from the pointer
  };
}

export interface ChartProps {
  /** What it shows, for those who don't see it. */
  label: string;
  height: number;
  data: uPlot.AlignedData;
  /** Everything but the size. It is made anew when key changes. */
  options: () => Omit<uPlot.Options, "width" | "height">;
  /** Changes when options do. */
  shape: string;
  /** Is told where, and how much of the axis a pixel is. */
  onClick?: (x: number, pixel: number) => void;
  /** What is shown where the pointer is, in words; a pixel is so much of the axis. */
  tell?: (x: number, pixel: number) => string;
  /** Is told from where to where somebody dragged; nothing: a double click, back to what was before. */
  onSelect?: (range?: [from: number, to: number]) => void;
}

export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const el = box.current!;
    const make = () => {
      plot.current?.destroy();
      const options = latest.current.options();
      const selected = (u: uPlot) => {
        const { left, width } = u.select;
        if (width === 0) return;
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        latest.current.onSelect?.([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
      };
      // Moved without drawing the page anew.
      const told = document.createElement("div");
      told.className = "chart-told";
      const tell = (u: uPlot) => {
        const { left = -1 } = u.cursor;
        const text = left >= 0 ? shown(latest.current.tell?.(u.posToVal(left, "x"), u.posToVal(1, "x") - u.posToVal(0, "x")) ?? "") : "";
        if (told.textContent !== text) told.textContent = text;
        const leftwards = left > u.over.clientWidth / 2;
        told.style.left = leftwards ? "" : `${left + 8}px`;
        told.style.right = leftwards ? `${u.over.clientWidth - left + 8}px` : "";
      };
      plot.current = new uPlot({ ...options, hooks: { ...options.hooks, setSelect: [selected], setCursor: [tell] }, width: el.clientWidth, height: latest.current.height }, latest.current.data, el);
      plot.current.over.append(told);
      plot.current.over.addEventListener("dblclick", () => latest.current.onSelect?.());
      plot.current.over.addEventListener("click", () => {
        const p = plot.current;
        if (p && p.cursor.left !== undefined && p.cursor.left >= 0) latest.current.onClick?.(p.posToVal(p.cursor.left, "x"), p.posToVal(1, "x") - p.posToVal(0, "x"));
      });
    };
    make();
    const resized = new ResizeObserver(() => {
      const p = plot.current;
      if (p && el.clientWidth > 0 && el.clientWidth !== p.width) p.setSize({ width: el.clientWidth, height: latest.current.height });
    });
    resized.observe(el);
    const stop = onThemeChange(make);
    return () => {
      stop();
      resized.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [props.shape, props.height]);
  useEffect(() => {
    plot.current?.setData(props.data);
  }, [props.data]);
  return <div ref={box} class={props.onClick ? "chart clickable" : "chart"} role="img" aria-label={props.label} />;
}
