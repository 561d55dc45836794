// How other views open the playground: its input is in the URL's fragment, which browsers
// send to no server.

import type { HorizontalPodAutoscalerSpecJson as Spec, RecommendOptionsJson as Options, StagesJson as Stages } from "@setpoint-dev/client/json";
import { base } from "../router";

export interface Tried {
  /** What the spec is of, for the heading. */
  title?: string;
  /** What to know of it. */
  lesson?: string;
  spec?: Spec;
  options?: Options;
  stages?: Stages;
  /** How often it is asked for, s. */
  interval?: number;
  /** How many replicas there were at first. */
  replicas?: number;
  /** Instants as milliseconds of Unix time, rising, and the load at each. */
  load?: [number, number][];
  /** The same of the count. */
  counts?: [number, number][];
  /** The name of the target whose recording has more of both. */
  recording?: string;
}

/** The path that opens the playground with a spec and a load. */
export function playgroundPath(tried: Tried): string {
  const bytes = new TextEncoder().encode(JSON.stringify(tried));
  let binary = "";
  for (const b of bytes) binary += String.fromCharCode(b);
  return `${base}playground#try=${btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
}
