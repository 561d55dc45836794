// The count over the last hour: a drawing, for a canvas of each row would cost a frame of scrolling more than its texts do.

import { serviceNow } from "../api/client";
import { count, duration } from "../lib/format";
import type { Spark } from "../lib/spark";
import { AtMax, Broken } from "../lib/state";

const width = 132;
const height = 28;
const end = width - 4;

const round = (n: number): number => Math.round(n * 10) / 10;

export function SparkLine(props: { spark: Spark; now: number; bits: number }) {
  const { spark: { times, counts }, bits } = props;
  const from = Math.floor(props.now / 5000) * 5 - 3600;
  const x = (t: number) => round(((Math.max(t, from) - from) / 3600) * end);
  const top = Math.max(1, ...counts);
  const y = (c: number) => round(height - 3 - (c / top) * (height - 7));
  const text = words(props.spark);
  const begin = x(times[0]!);
  const line = `M${begin} ${y(counts[0]!)}${counts.slice(1).map((c, i) => `H${x(times[i + 1]!)}V${y(c)}`).join("")}H${end}`;
  return (
    <svg class={bits & Broken ? "spark alarm" : "spark"} width={width} height={height} role="img" aria-label={text}>
      <title>{text}</title>
      {times.length > 0 && (
        <>
          <path class="unknown" d={begin > 4 ? `M0 ${height - 2.5}H${begin}` : ""} />
          <path class="area" d={`${line}V${height}H${begin}Z`} />
          <path class="line" d={line} />
          <circle cx={end} cy={y(counts.at(-1)!)} r="2.2" />
          <path class="most" d={bits & AtMax ? `M0 ${y(top) - 2.5}H${width}` : ""} />
        </>
      )}
    </svg>
  );
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
