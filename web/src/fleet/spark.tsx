// The count over the last hour, drawn for visible rows only.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Spark } from "../lib/spark";
import { AtMax, Failing } from "../lib/state";
import { color, onThemeChange } from "../theme";

const width = 132;
const height = 28;

let colors: { line: string; fill: string; alarm: string; dot: string } | undefined;
onThemeChange(() => (colors = undefined));

function palette() {
  colors ??= { line: color("c1"), fill: color("c1"), alarm: color("failing"), dot: color("accent") };
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
  const line = bits & Failing ? p.alarm : p.line;
  g.beginPath();
  g.moveTo(x(spark.times[0]!), y(spark.counts[0]!));
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
  g.lineTo(x(spark.times[0]!), height);
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
  return <canvas ref={ref} class="spark" width={width} height={height} role="img" aria-label={words(spark)} />;
}

/** What the line shows. */
function words(spark: Spark): string {
  const n = spark.counts.length;
  if (n === 0) return "nothing known of the last hour";
  if (n === 1) return `${spark.counts[0]} replicas over the last hour`;
  return `last hour: ${Math.min(...spark.counts)} to ${Math.max(...spark.counts)} replicas, ${n - 1} changes`;
}
