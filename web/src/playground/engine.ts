// Calls the engine, which runs in a worker. A newer request cancels older ones.

export interface Problem {
  in: string;
  line?: number;
  path?: string;
  text: string;
}

export interface Finding {
  rule: string;
  severity: "error" | "warning" | "note";
  file: string;
  field: string;
  message: string;
  arithmetic: string;
  simulated: boolean;
  link: string;
  line?: number;
}

export interface Action {
  step: number;
  at: number;
  from: number;
  to: number;
  load: number;
  cause: string;
  reason: string;
}

export interface OneRun {
  name: string;
  capacity: (number | null)[];
  queued?: number[];
  replicas: number[];
  ready: number[];
  needed: number[];
  proposal: (number | null)[];
  held: (number | null)[];
  causes: number[];
  causeNames: string[];
  metrics: { name: string; ratio: (number | null)[]; proposal?: (number | null)[] }[] | null;
  actions: Action[];
}

export interface Run {
  start: number;
  seconds: number;
  zone: string;
  steps: number;
  stride: number;
  at: number[];
  load: number[];
  runs: OneRun[];
  rows: { name: string; values: string[]; best?: number[] }[];
  /** The runs are rules of a fleet, by one spec. */
  fleet?: boolean;
  /** The count that there really was, by points. */
  recorded?: { counts: (number | null)[]; least: number; most: number; replicaHours: number; same: number[] };
  /** Samples of the recorded load without a value. */
  leftOut?: number;
  /** The part of the time of which the recorded load has samples; absent: nearly all. */
  covered?: number;
  /** The recorded load never asks for more than the minimum, or nearly always for far more than the maximum. */
  unfit?: { load: number; replicas: number; bound: number; few: boolean };
}

/** What a run is called. */
export const titleOf = (run: Run, i: number): string => (run.fleet ? "" : "Spec ") + (run.runs[i]?.name ?? "");

export interface Answer {
  problems?: Problem[];
  findings?: Finding[];
  run?: Run;
  step?: { at: number; summary: string; text: string };
  export?: string;
  files?: Record<string, string>;
  recorded?: Recorded;
}

/** What the service recorded of a target: the total of its first metric and its count, by instants in ms; bounds, and the most that metrics asked for. */
export interface Recorded {
  load: [number, number][] | null;
  counts: [number, number][] | null;
  min: number;
  max: number;
  proposal: number;
  /** An instant in ms, the minimum and the maximum, where these change; the instant alone where they become unknown. */
  bounds: number[][] | null;
}

export interface Question {
  /** Chunks of a recording, in base64. */
  chunks?: string[];
  ask: "recorded" | "check" | "simulate" | "step" | "lint" | "hpa" | "autoscaler" | "patch" | "k6" | "files" | "svg" | "csv" | "json";
  scenario?: string;
  files?: Record<string, string>;
  recorded?: string;
  specs?: { name: string; text: string }[];
  profile?: string;
  spec?: number;
  step?: number;
  /** When lint looks at schedules, RFC 3339. */
  now?: string;
}

/** Why there is no answer: the engine is not there, or a newer question took its place. */
export class EngineError extends Error {
  readonly superseded: boolean;
  constructor(message: string, superseded = false) {
    super(message);
    this.superseded = superseded;
  }
}

interface Asked {
  resolve: (a: Answer) => void;
  reject: (e: EngineError) => void;
}

/** An engine in a worker of its own. */
export class Engine {
  private worker: Worker | undefined;
  private asked = new Map<number, Asked>();
  private last = 0;
  private failure: string | undefined;

  private start(): Worker {
    const worker = new Worker(new URL("playground-worker.js", import.meta.url));
    const fail = (message: string) => {
      this.failure = message;
      for (const a of this.asked.values()) a.reject(new EngineError(message));
      this.asked.clear();
    };
    worker.onmessage = (e: MessageEvent<{ id?: number; answer?: string; failed?: string }>) => {
      if (e.data.failed !== undefined) return fail(e.data.failed);
      const a = this.asked.get(e.data.id ?? -1);
      if (!a) return;
      this.asked.delete(e.data.id!);
      a.resolve(JSON.parse(e.data.answer!) as Answer);
    };
    worker.onerror = (e) => fail(e.message || "the worker could not be loaded");
    return worker;
  }

  /** Asks; what was asked before is answered first. */
  ask(question: Question): Promise<Answer> {
    if (this.failure !== undefined) return Promise.reject(new EngineError(this.failure));
    this.worker ??= this.start();
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { resolve, reject });
      this.worker!.postMessage({ id, question: JSON.stringify(question) });
    });
  }

  /** Asks in place of all that was asked before and has no answer yet. */
  askInstead(question: Question): Promise<Answer> {
    if (this.asked.size > 0) this.stop();
    return this.ask(question);
  }

  /** Ends the worker, and with it what it works on. */
  stop(): void {
    this.worker?.terminate();
    this.worker = undefined;
    for (const a of this.asked.values()) a.reject(new EngineError("superseded", true));
    this.asked.clear();
  }
}
