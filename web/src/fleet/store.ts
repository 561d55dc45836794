// All targets that the user may see, live. Rows are small, because there may be many; listeners
// are called at most a few times per second, however many decisions arrive.

import { ApiError, get } from "../api/client";
import type { Decision, Target, WatchMessage } from "../api/types";
import { watch, type Link } from "../api/watch";
import { millis } from "../lib/format";
import { reading } from "../lib/metrics";
import { parseName } from "../lib/names";
import { Spark } from "../lib/spark";
import { Changed, Flapping, Pending, flappingTurns, reversals, stateBits, states, why } from "../lib/state";

export interface Row {
  name: string;
  target: string;
  namespace: string;
  cluster: string;
  /** What is searched, in lower case. */
  searched: string;
  kind: string;
  current: number;
  desired: number;
  bits: number;
  why: string;
  /** The controller's sentence. */
  whyLong: string;
  /** The first reading, "82 %". */
  metric: string;
  /** What was read, "cpu". */
  metricName: string;
  /** 0 to …: how the reading sorts; NaN: there is none. */
  metricNumber: number;
  /** s of Unix time; 0: never. */
  changed: number;
  updated: number;
  spark: Spark;
  /** Whether the last hour was read from the log. */
  past: "unknown" | "asked" | "known";
  /** Grows with each change, for what draws it. */
  version: number;
}

export interface Snapshot {
  rows: readonly Row[];
  /** Grows with each change of any row. */
  version: number;
  /** Targets by state, in the order of states. */
  counts: readonly number[];
  loading: boolean;
  loaded: number;
  link: Link;
  error: ApiError | undefined;
  /** Decisions that this page missed. */
  missed: number;
}

const hour = 3600;
const pageSize = 1000;
/** Rows beyond this many are not loaded: say so, and search narrows. */
export const mostRows = 100_000;
const tellEvery = 250;
const lingers = 120_000;
/** Pasts that are read, after each load, of targets that nobody looks at: who flaps is counted. */
const mostUnseen = 100;

export class FleetStore {
  private byName = new Map<string, Row>();
  private rows: Row[] = [];
  private listeners = new Set<() => void>();
  private abort: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private tick: ReturnType<typeof setInterval> | undefined;
  private idle: ReturnType<typeof setTimeout> | undefined;
  private reloads = 0;
  private wanted: Row[] = [];
  private reading = 0;
  private unseen = 0;
  snapshot: Snapshot = { rows: [], version: 0, counts: states.map(() => 0), loading: true, loaded: 0, link: "connecting", error: undefined, missed: 0 };

  constructor(private parent = "clusters/-/namespaces/-") {}

  /** Loads and watches while anybody listens. */
  subscribe(f: () => void): () => void {
    this.listeners.add(f);
    clearTimeout(this.idle);
    if (!this.abort || this.abort.signal.aborted) this.start();
    return () => {
      this.listeners.delete(f);
      // A user who looks at one target comes back soon.
      if (this.listeners.size === 0) this.idle = setTimeout(() => this.stop(), lingers);
    };
  }

  private start(): void {
    const abort = new AbortController();
    this.abort = abort;
    // Time passes for targets without decisions, too.
    this.tick = setInterval(() => this.age(), 15_000);
    void this.load(abort.signal);
    const start = new Date(Date.now() - hour * 1000);
    void watch(`${this.parent}/targets/-`, start, {
      messages: (batch) => this.take(batch),
      link: (link, error) => {
        if (link === this.snapshot.link) return;
        this.snapshot = { ...this.snapshot, link, error: link === "lost" ? error : this.snapshot.loading ? this.snapshot.error : undefined };
        this.tell();
      },
      missed: (n) => {
        this.snapshot = { ...this.snapshot, missed: this.snapshot.missed + n };
        this.reloadSoon(abort.signal);
      },
    }, abort.signal);
  }

  private stop(): void {
    this.abort?.abort();
    clearTimeout(this.timer);
    clearInterval(this.tick);
    this.timer = undefined;
  }

  /** After a gap the list is read again, but not for each of many gaps. */
  private reloadSoon(signal: AbortSignal): void {
    if (this.reloads++ > 0 || this.snapshot.loading) return;
    setTimeout(() => {
      this.reloads = 0;
      if (!signal.aborted) void this.load(signal);
    }, 2000);
  }

  /** Forgets all: somebody else looks now. */
  clear(): void {
    this.stop();
    this.byName.clear();
    this.rows = [];
    this.wanted = [];
    this.snapshot = { ...this.snapshot, rows: [], version: this.snapshot.version + 1, counts: states.map(() => 0), loading: true, loaded: 0, error: undefined, missed: 0 };
  }

  /** Reads all pages again, now. */
  reload(): void {
    if (this.abort && !this.snapshot.loading) void this.load(this.abort.signal);
  }

  private async load(signal: AbortSignal): Promise<void> {
    this.snapshot = { ...this.snapshot, loading: true, loaded: 0 };
    const seen = new Set<string>();
    try {
      let token = "";
      do {
        const query = new URLSearchParams({ pageSize: String(pageSize) });
        if (token) query.set("pageToken", token);
        const page = await get<{ targets?: Target[]; nextPageToken?: string }>(`/v1/${this.parent}/targets?${query}`, signal);
        for (const t of page.targets ?? []) {
          seen.add(t.name);
          this.takeTarget(t);
        }
        token = page.nextPageToken ?? "";
        this.snapshot = { ...this.snapshot, loaded: seen.size };
        this.tell();
      } while (token && seen.size < mostRows);
      // Drop targets that are gone, unless the stream brought them meanwhile.
      if (!token) {
        const since = Date.now() / 1000 - 60;
        for (const row of this.rows) if (!seen.has(row.name) && row.updated < since) this.byName.delete(row.name);
        this.rows = [...this.byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
      }
      this.snapshot = { ...this.snapshot, loading: false, error: undefined };
      this.unseen = mostUnseen;
      this.readPast([]);
    } catch (e) {
      if (signal.aborted) return;
      this.snapshot = { ...this.snapshot, loading: false, error: e instanceof ApiError ? e : new ApiError(0, String(e)) };
      // The stream reconnects by itself; then the list is read again, too.
      setTimeout(() => !signal.aborted && void this.load(signal), 5000);
    }
    this.tell();
  }

  /**
   * Reads the last hour of rows that are shown, a few at a time: the stream brings only what the
   * service still holds of all targets together.
   */
  readPast(rows: readonly Row[]): void {
    this.wanted = rows.filter((r) => r.past === "unknown");
    for (let next; this.reading < 3 && (next = this.next()); ) void this.readOne(next);
  }

  /** Whose past is read next: of what is shown; else, one at a time, of what changed lately. */
  private next(): Row | undefined {
    if (this.wanted.length > 0) return this.wanted.shift();
    if (this.reading > 0 || this.unseen <= 0) return undefined;
    const row = this.rows.find((r) => r.past === "unknown" && r.bits & Changed);
    this.unseen = row ? this.unseen - 1 : 0;
    return row;
  }

  private async readOne(row: Row): Promise<void> {
    const signal = this.abort?.signal;
    row.past = "asked";
    this.reading++;
    try {
      const page = await get<{ decisions?: Decision[]; nextPageToken?: string }>(`/v1/${row.name}/decisions?pageSize=100`, signal);
      const all = (page.decisions ?? []).reverse();
      const since = Date.now() / 1000 - hour;
      const spark = new Spark();
      for (const d of all) this.draw(spark, d, since);
      for (let i = 0; i < row.spark.times.length; i++) {
        // What the stream brought meanwhile.
        if (row.spark.times[i]! > spark.last) spark.add(row.spark.times[i]!, row.spark.counts[i]!, 0);
      }
      if (spark.times.length > 0) row.spark = spark;
      // The page may not reach back an hour; a count that has not changed since was the same
      // before.
      const first = row.spark.times[0];
      if (first !== undefined && page.nextPageToken && row.changed < first && first > since) row.spark.times[0] = Math.max(since, row.changed);
      row.past = "known";
      this.turns(row);
      row.version++;
      this.tell();
    } catch (e) {
      // Its line stays short; scrolling to it again repeats the request, unless it was
      // refused.
      row.past = e instanceof ApiError && e.status === 403 ? "known" : "unknown";
    } finally {
      this.reading--;
      const next = signal?.aborted ? undefined : this.next();
      if (next) void this.readOne(next);
    }
  }

  /** Notes what a decision came to. */
  private draw(spark: Spark, d: Decision, since: number): void {
    const time = millis(d.time) / 1000 || 0;
    const from = d.currentReplicas ?? 0;
    const to = d.outcome === "FAILED" || d.outcome === "DROPPED" ? from : d.desiredReplicas ?? from;
    if (to !== from) spark.add(time - 0.001, from, since - hour);
    spark.add(time, to, since - hour);
  }

  private row(name: string): Row {
    let row = this.byName.get(name);
    if (!row) {
      const n = parseName(name);
      row = {
        name, ...n, searched: `${n.target} ${n.namespace} ${n.cluster} ${name}`.toLowerCase(), kind: "", current: 0, desired: 0, bits: 0, why: "", whyLong: "",
        metric: "", metricName: "", metricNumber: NaN, past: "unknown", changed: 0, updated: 0, spark: new Spark(), version: 0,
      };
      this.byName.set(name, row);
      this.rows.push(row);
    }
    return row;
  }

  private takeTarget(t: Target): void {
    const row = this.row(t.name);
    row.kind = t.scaleTargetRef?.kind ?? "";
    const updated = millis(t.updateTime) / 1000 || 0;
    const scaled = millis(t.status?.lastScaleTime) / 1000 || 0;
    row.changed = Math.max(row.changed, scaled);
    if (updated >= row.updated) {
      const d = t.lastDecision;
      row.updated = updated;
      row.current = t.status?.currentReplicas ?? 0;
      row.desired = t.status?.desiredReplicas ?? 0;
      this.describe(row, { ...d, conditions: t.status?.conditions ?? d?.conditions, currentMetrics: t.status?.currentMetrics ?? d?.currentMetrics });
    }
    if (row.spark.times.length === 0 && row.updated > 0) {
      // Until more is known, assume that the count was the same since it changed.
      const now = Date.now() / 1000;
      row.spark.add(Math.max(now - hour, scaled), row.desired, 0);
    }
    row.version++;
  }

  private describe(row: Row, d: Decision): void {
    const conditions = d.conditions ?? [];
    const metrics = d.currentMetrics ?? [];
    const error = d.error ?? "";
    row.bits = (row.bits & (Changed | Flapping)) | stateBits(conditions, metrics, error);
    if (d.outcome === "PENDING") row.bits |= Pending;
    const { short, long } = why(row.bits, conditions, error, d.reason ?? "");
    row.why = short;
    row.whyLong = long;
    const readings = metrics.map(reading).filter((r) => r.kind !== "none");
    const first = readings[0];
    row.metric = first ? first.text : "";
    row.metricName = first ? `${first.name}${readings.length > 1 ? `, +${readings.length - 1}` : ""}` : "";
    row.metricNumber = first ? first.number : NaN;
    this.turns(row);
  }

  private turns(row: Row): void {
    const now = Date.now() / 1000;
    row.bits &= ~(Changed | Flapping);
    if (row.changed > now - hour) row.bits |= Changed;
    if (reversals(row.spark.counts) >= flappingTurns) row.bits |= Flapping;
  }

  private take(batch: WatchMessage[]): void {
    const since = Date.now() / 1000 - hour;
    let any = false;
    for (const { target, decision: d } of batch) {
      if (!target || !d) continue;
      any = true;
      const row = this.row(target);
      const time = millis(d.time) / 1000 || 0;
      const from = d.currentReplicas ?? 0;
      const to = d.outcome === "FAILED" || d.outcome === "DROPPED" ? from : d.desiredReplicas ?? from;
      if (to !== from) row.changed = Math.max(row.changed, time);
      this.draw(row.spark, d, since);
      if (time >= row.updated) {
        row.updated = time;
        row.current = from;
        row.desired = to;
        this.describe(row, d);
      } else this.turns(row);
      row.version++;
    }
    if (any) this.tell();
  }

  private age(): void {
    const since = Date.now() / 1000 - hour;
    for (const row of this.rows) {
      row.spark.cut(since);
      const before = row.bits;
      this.turns(row);
      if (row.bits !== before) row.version++;
    }
    this.tell();
  }

  private tell(): void {
    if (this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      const counts = states.map(() => 0);
      for (const row of this.rows) {
        for (let i = 0; i < states.length; i++) if (row.bits & states[i]!.bit) counts[i]!++;
      }
      this.snapshot = { ...this.snapshot, rows: this.rows, version: this.snapshot.version + 1, counts };
      for (const f of this.listeners) f();
    }, tellEvery);
  }
}


/** One store for the page: what it knows stays while other views are open. */
export const fleet = new FleetStore();
