// The count over the last hour: a drawing, for a canvas of each row would cost a frame of scrolling more than its texts do.

import { count, duration } from "../lib/format";
import type { Spark } from "../lib/spark";
import { AtMax, Broken } from "../lib/state";

const width = 128;
const height = 28;

const round = (n: number): number => Math.round(n * 10) / 10;

/** until: when the count was last known, s of Unix time; Infinity: it still is. */
export function SparkLine(props: { spark: Spark; now: number; until: number; bits: number }) {
  const { spark: { times, counts }, bits } = props;
  const now = Math.floor(props.now / 5000) * 5;
  const from = now - 3600;
  const x = (t: number) => round(((Math.min(Math.max(t, from), now) - from) / 3600) * width);
  const top = Math.max(1, ...counts);
  const y = (c: number) => round(height - 3 - (c / top) * (height - 7));
  const text = words(props.spark, props.now / 1000, props.until);
  const [begin, end] = [x(times[0]!), x(props.until)];
  const line = `M${begin} ${y(counts[0]!)}${counts.slice(1).map((c, i) => `H${x(times[i + 1]!)}V${y(c)}`).join("")}H${end}`;
  const dots = (a: number, b: number) => (b - a > 4 ? `M${a} ${height - 2.5}H${b}` : "");
  return (
    <svg class={bits & Broken ? "spark alarm" : "spark"} width={width + 4} height={height} viewBox={`0 0 ${width + 4} ${height}`} preserveAspectRatio="none" role="img" aria-label={text}>
      <title>{text}</title>
      {times.length > 0 && (
        <>
          <path class="unknown" d={dots(0, begin) + dots(end, width)} />
          <path class="area" d={`${line}V${height}H${begin}Z`} />
          <path class="line" d={line} />
          {end > 0 && <circle cx={end} cy={y(counts.at(-1)!)} r="2.2" />}
          <path class="most" d={bits & AtMax ? `M0 ${y(top) - 2.5}H${width + 4}` : ""} />
        </>
      )}
    </svg>
  );
}

/** What the line shows, and of which span of the hour before now, s of Unix time. */
export function words(spark: Spark, now: number, until: number): string {
  const n = spark.counts.length;
  if (n === 0 || until <= now - 3600) return "nothing known of the last hour";
  const since = duration(Math.min(3600, now - spark.times[0]!) * 1000);
  const span = until < now ? `${since} ago to ${duration((now - until) * 1000)} ago` : `the last ${since}`;
  if (n === 1) return `${count(spark.counts[0]!, "replica")} over ${span}`;
  return `${span}: ${Math.min(...spark.counts)} to ${Math.max(...spark.counts)} replicas, ${count(n - 1, "change")}`;
}
