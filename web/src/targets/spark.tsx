// The count over the last hour, drawn for visible rows only.

import { useEffect, useRef, useState } from "preact/hooks";
import { serviceNow } from "../api/client";
import { count, duration } from "../lib/format";
import type { Spark } from "../lib/spark";
import { AtMax, Broken } from "../lib/state";
import { color, onThemeChange } from "../theme";

const width = 132;
const height = 28;

let colors: { line: string; fill: string; alarm: string; unknown: string } | undefined;
onThemeChange(() => (colors = undefined));

function palette() {
  colors ??= { line: color("c1"), fill: color("c1"), alarm: color("failing"), unknown: color("faint") };
  return colors;
}

function draw(canvas: HTMLCanvasElement, spark: Spark, now: number, bits: number): void {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  if (canvas.width !== width * scale) {
    canvas.width = width * scale;
    canvas.height = height * scale;
  }
  const g = canvas.getContext("2d")!;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  const n = spark.times.length;
  if (n === 0) return;
  const from = now - 3600;
  const x = (t: number) => ((Math.max(t, from) - from) / 3600) * (width - 4);
  let top = 1;
  for (const c of spark.counts) if (c > top) top = c;
  const y = (c: number) => height - 3 - (c / top) * (height - 7);
  const p = palette();
  const begin = x(spark.times[0]!);
  // What is not known is dotted, on the ground.
  if (begin > 4) {
    g.strokeStyle = p.unknown;
    g.setLineDash([1, 4]);
    g.beginPath();
    g.moveTo(0, height - 2.5);
    g.lineTo(begin, height - 2.5);
    g.stroke();
    g.setLineDash([]);
  }
  const line = bits & Broken ? p.alarm : p.line;
  g.beginPath();
  g.moveTo(begin, y(spark.counts[0]!));
  for (let i = 1; i < n; i++) {
    g.lineTo(x(spark.times[i]!), y(spark.counts[i - 1]!));
    g.lineTo(x(spark.times[i]!), y(spark.counts[i]!));
  }
  const end = y(spark.counts[n - 1]!);
  g.lineTo(width - 4, end);
  g.strokeStyle = line;
  g.lineWidth = 1.5;
  g.lineJoin = "round";
  g.stroke();
  g.lineTo(width - 4, height);
  g.lineTo(begin, height);
  g.closePath();
  g.globalAlpha = 0.12;
  g.fillStyle = line;
  g.fill();
  g.globalAlpha = 1;
  g.beginPath();
  g.arc(width - 4, end, 2.2, 0, 7);
  g.fillStyle = line;
  g.fill();
  if (bits & AtMax) {
    g.setLineDash([2, 2]);
    g.beginPath();
    g.moveTo(0, y(top) - 2.5);
    g.lineTo(width, y(top) - 2.5);
    g.strokeStyle = p.alarm;
    g.lineWidth = 1;
    g.stroke();
    g.setLineDash([]);
  }
}

export function SparkLine(props: { spark: Spark; version: number; now: number; bits: number }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const [theme, set] = useState(0);
  useEffect(() => onThemeChange(() => set((n) => n + 1)), []);
  const { spark, version, bits } = props;
  const now = Math.floor(props.now / 5000) * 5;
  useEffect(() => {
    if (ref.current) draw(ref.current, spark, now, bits);
  }, [spark, version, now, bits, theme]);
  const text = words(spark);
  return <canvas ref={ref} class="spark" width={width} height={height} role="img" aria-label={text} title={text} />;
}

/** Seconds before now of which a count is known, at most an hour. */
export const covered = (spark: Spark): number => (spark.times.length === 0 ? 0 : Math.min(3600, serviceNow() / 1000 - spark.times[0]!));

/** What the line shows, and of which span. */
function words(spark: Spark): string {
  const n = spark.counts.length;
  if (n === 0) return "nothing known of the last hour";
  const span = `the last ${duration(covered(spark) * 1000)}`;
  if (n === 1) return `${count(spark.counts[0]!, "replica")} over ${span}`;
  return `${span}: ${Math.min(...spark.counts)} to ${Math.max(...spark.counts)} replicas, ${count(n - 1, "change")}`;
}
