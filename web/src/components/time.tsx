// Instants: in the user's zone, with UTC on hover and for screen readers.

import { useEffect, useState } from "preact/hooks";
import { clockAhead } from "../api/client";
import { localClock, localTime, relative, utc } from "../lib/format";

/** The service's clock, in steps of that many milliseconds: what it tells of is by that one, whatever the reader's is. */
export function useNow(step = 5000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), step);
    return () => clearInterval(timer);
  }, [step]);
  return now + clockAhead();
}

/** ms of Unix time, as "3 min ago"; the instant itself on hover. */
export function Ago(props: { time: number; now: number }) {
  const { time, now } = props;
  if (!(time > 0)) return <span class="faint">–</span>;
  return (
    <time dateTime={new Date(time).toISOString()} title={`${localTime(time)}\n${utc(time)}`}>
      {relative(time, Math.max(now, time))}
    </time>
  );
}

/** ms of Unix time as date and clock. */
export function At(props: { time: number; clock?: boolean }) {
  const { time } = props;
  if (!(time > 0)) return <span class="faint">–</span>;
  return (
    <time dateTime={new Date(time).toISOString()} title={`${localTime(time)}\n${utc(time)}`}>
      {props.clock ? localClock(time) : localTime(time)}
    </time>
  );
}
