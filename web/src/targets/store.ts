// All targets that the user may see, live. Rows are small, because there may be many; listeners
// are called at most a few times per second, however many decisions arrive.

import { asError, SetpointError, type DecisionJson as Decision, type FleetJson as Fleet, type ListDecisionsResponseJson, type ListTargetsResponseJson, type MetricStatusJson as MetricStatus, type TargetJson as Target, type WatchedDecisionJson as WatchedDecision } from "@setpoint-dev/client/json";
import { clockAsked, get, serviceNow, unanswered } from "../api/client";
import { storedFleets } from "../api/fleets";
import { watch, type Link, type Watcher } from "../api/watch";
import { millis } from "../lib/format";
import { reading, wanted } from "../lib/metrics";
import { parseName, searched, shadowSuffix } from "../lib/names";
import { reached } from "../lib/decisions";
import { fleetPace, shareText, withShare } from "../lib/fleet";
import { Spark } from "../lib/spark";
import { Changed, Flapping, NotAsked, Overridden, Unknown, Unread, Unreadable, ended, overriddenUntil, paceOf, stateBits, states, why } from "../lib/state";

export interface Row {
  name: string;
  target: string;
  namespace: string;
  cluster: string;
  /** What is searched, in lower case. */
  searched: string;
  kind: string;
  /** The target that a shadow shadows; "": it is none. */
  shadows: string;
  /** Whether it is a fleet, whose replicas are those of its members. */
  fleet: boolean;
  /** What its fleet told since its last decision: how its share is put in words, and what was read. */
  told: { share: string; metrics: readonly MetricStatus[] } | undefined;
  /** It is there, but the service has no record of it: it is a fleet, or a member of one. */
  unrecorded: boolean;
  /** The count, and what was decided; undefined: not known. */
  current: number | undefined;
  desired: number | undefined;
  /** What the metrics ask for, and the spec's bounds; undefined: not known. */
  wants: number | undefined;
  min: number | undefined;
  max: number | undefined;
  bits: number;
  why: string;
  /** The controller's sentence. */
  whyLong: string;
  /** The first reading, "82 %", and what it should be; "": not known. */
  metric: string;
  goal: string;
  /** What was read, "cpu". */
  metricName: string;
  /** 0 to …: how the reading sorts; NaN: there is none. */
  metricNumber: number;
  /** The first reading's place in the spec, and what each metric should be. */
  readingAt: number;
  goals: readonly string[];
  /** Hash of the spec in use; "": not known. */
  spec: string;
  /** s of Unix time; 0: never. */
  changed: number;
  /** When it was asked for last, as far as is known, and when that was read from the service. */
  updated: number;
  read: number;
  /** The decision that its state and reason are of, s of Unix time. */
  described: number;
  /** How long after a call it counts as not asked for, s, and until when it is flapping: as the service says. */
  patience: number;
  flapsUntil: number;
  /** When the override ends that its last decision had, s of Unix time; 0: it had none, or that is not known. */
  overriddenUntil: number;
  /** The change whose direction is known. */
  turnsAt: number;
  /** 1: the last change that is known went up; -1: down; 0: none is known. */
  direction: number;
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
  error: SetpointError | undefined;
  /** Why targets can't be read that the list has. */
  unread: SetpointError | undefined;
  /** Decisions that this page missed. */
  missed: number;
}

const hour = 3600;
/** So many are read and taken in a third of a frame. */
const pageSize = 250;
/** Rows beyond this many are not loaded: say so, and search narrows. */
export const mostRows = 100_000;
const tellEvery = 250;
const lingers = 120_000;
/** A list whose first page takes so long, ms, is not only slow. */
const silent = 10_000;
/** Targets that are read one by one, when something is not known of them; beyond, the list is read again. */
const mostSingle = 20;
/** The list is read again at most so often, s, for what is not known of its targets. */
const listEvery = 120;
/** It is read again after so long, s, for what was deleted: the stream does not tell that. */
const relistEvery = 300;
/** The stored fleets are read again at most so often, s. */
const fleetsEvery = 60;
/** How long a member whose fleet is not known counts as asked for after a decision, s: its log leaves repeated ones out. */
const memberPatience = 900;

export class TargetsStore {
  private byName = new Map<string, Row>();
  /** The fleets of members, by the members' names, and of fleets themselves: also of those that have no row yet. */
  private fleetOf = new Map<string, string>();
  /** The last reading of the stored fleets: when it began, s, and whether it has all. */
  private fleets: { at: number; all: Promise<boolean> } | undefined;
  private rows: Row[] = [];
  private listeners = new Set<() => void>();
  private abort: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private tick: ReturnType<typeof setInterval> | undefined;
  private idle: ReturnType<typeof setTimeout> | undefined;
  /** When the list is read after a gap, or after an error. */
  private soon: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  /** For whom the list is being read, and whether it has to be read once more after that. */
  private loads: AbortSignal | undefined;
  private again = false;
  /** When it began to be read, ms. */
  private begun = 0;
  private wanted: Row[] = [];
  private reading = 0;
  /** The answers of fleets that are waited for, by name, and how many fleets were asked since time passed. */
  private answers = new Map<string, Promise<boolean>>();
  private asked = 0;
  /** Targets of which something is not known that only their records tell. */
  private unsure = new Set<Row>();
  /** Those of which nothing was read yet, mostSingle at once: the list may not have them, so they wait for no list. */
  private fresh = new Set<Row>();
  private listed = 0;
  /** Decisions since then are of targets that are there. */
  private started = 0;
  snapshot: Snapshot = { rows: [], version: 0, counts: states.map(() => 0), loading: true, loaded: 0, link: "connecting", error: undefined, unread: undefined, missed: 0 };

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
    this.tick = setInterval(() => this.pass(), 15_000);
    void this.load(abort.signal);
    this.started = serviceNow() / 1000;
    const watcher: Watcher = {
      decisions: (batch) => this.take(batch),
      link: (link, error) => {
        const away = link === "lost" || link === "refused";
        if (link === this.snapshot.link && !away) return;
        this.snapshot = { ...this.snapshot, link, error: away ? error : this.snapshot.loading ? this.snapshot.error : undefined };
        this.tell();
      },
      missed: (n) => {
        this.snapshot = { ...this.snapshot, missed: this.snapshot.missed + n };
        this.reloadSoon(abort.signal);
      },
    };
    void clockAsked.then(() => {
      this.started = serviceNow() / 1000;
      void watch(`${this.parent}/targets/-`, () => serviceNow() - hour * 1000, watcher, abort.signal);
    });
  }

  private stop(): void {
    this.abort?.abort();
    for (const timer of [this.timer, this.soon, this.retry]) clearTimeout(timer);
    clearInterval(this.tick);
    this.timer = this.soon = undefined;
  }

  /** After a gap the list is read again, but not for each of many gaps. */
  private reloadSoon(signal: AbortSignal): void {
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      void this.load(signal);
    }, 2000);
  }

  /** Forgets all: somebody else looks now. */
  clear(): void {
    this.stop();
    this.byName.clear();
    [this.fleetOf, this.answers] = [new Map(), new Map()]; // answers that are waited for are not for somebody else
    this.fleets = undefined;
    this.rows = [];
    this.wanted = [];
    this.unsure.clear();
    this.fresh.clear();
    this.snapshot = { ...this.snapshot, rows: [], version: this.snapshot.version + 1, counts: states.map(() => 0), loading: true, loaded: 0, error: undefined, unread: undefined, missed: 0 };
  }

  /** Reads all again, now; also watches again where that was refused. */
  reload(): void {
    if (this.snapshot.link === "refused") {
      this.stop();
      this.start();
    } else if (this.abort && !this.snapshot.loading) void this.load(this.abort.signal);
  }

  /** Reads the list. While it is read already, once more after that: a gap may be in what has come. */
  private async load(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    if (this.loads === signal) {
      this.again = true;
      return;
    }
    [this.loads, this.again, this.begun] = [signal, false, Date.now()];
    clearTimeout(this.retry);
    this.snapshot = { ...this.snapshot, loading: true, loaded: 0 };
    try {
      const { seen, all } = await this.pages("", signal);
      // What is gone is shown no more. What the stream alone brings was deleted, or has no record: it is read.
      if (all) {
        const since = serviceNow() / 1000 - 60;
        for (const row of this.rows) if (!seen.has(row.name) && row.read > 0 && !row.unrecorded && row.updated < since) {
          this.byName.delete(row.name);
          this.settle(row);
        }
        this.rows = [...this.byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
      }
      this.snapshot = { ...this.snapshot, loading: false, error: undefined };
      void this.knowFleets(signal).then(() => this.readMore());
      this.readNew();
      this.tell();
      // Bounds and targets of metrics come after what is seen first.
      if (this.rows.some((r) => r.spec === "" && r.read > 0 && !r.unrecorded)) await this.pages("&withSpecInUse=true", signal);
      this.readPast([]);
    } catch (e) {
      if (signal.aborted) return;
      const error = asError(e);
      this.snapshot = { ...this.snapshot, loading: false, error };
      this.listed = Date.now() / 1000; // as far as may be: pass() asks no sooner for what is refused
      // The stream reconnects by itself; then the list is read again, too. Who may not read it is told once.
      if (error.code !== "PERMISSION_DENIED" && error.code !== "UNAUTHENTICATED") this.retry = setTimeout(() => void this.load(signal), 5000);
      this.again = false;
    } finally {
      if (this.loads === signal) this.loads = undefined;
    }
    if (this.again) this.reloadSoon(signal);
    this.tell();
  }

  /** Reads the list, page by page; all: to its end. */
  private async pages(more: string, signal: AbortSignal): Promise<{ seen: Set<string>; all: boolean }> {
    const seen = new Set<string>();
    let token = "";
    do {
      const query = `pageSize=${pageSize}${more}${token && `&pageToken=${encodeURIComponent(token)}`}`;
      const page = await get<ListTargetsResponseJson>(`/v1/${this.parent}/targets?${query}`, signal);
      for (const t of page.targets ?? []) {
        if (!t.name) continue;
        seen.add(t.name);
        this.takeTarget(t.name, t);
      }
      token = page.nextPageToken ?? "";
      if (this.snapshot.loading) this.snapshot = { ...this.snapshot, loaded: seen.size };
      this.tell();
    } while (token && seen.size < mostRows);
    this.listed = Date.now() / 1000;
    return { seen, all: token === "" };
  }

  /**
   * Reads the last hour of rows that are shown, a few at a time: the stream brings only what the
   * service still holds of all targets together.
   */
  readPast(rows: readonly Row[]): void {
    this.wanted = rows.filter((r) => r.past === "unknown");
    this.readMore();
  }

  /** Reads what is wanted, and what is unsure: each of a few, or all of them with the list. */
  private readMore(): void {
    const signal = this.abort?.signal;
    if (!signal || signal.aborted || this.snapshot.link === "refused") return;
    // The list has no fleets and no members of them.
    const listed = [...this.unsure].filter((r) => !r.unrecorded);
    if (listed.length > mostSingle && !this.snapshot.loading && Date.now() / 1000 - this.listed > listEvery) {
      for (const row of listed) this.unsure.delete(row);
      this.listed = Date.now() / 1000;
      void this.pages("&withSpecInUse=true", signal).then(() => this.answered(), (e) => this.answered(e));
    }
    while (this.reading < 3) {
      const past = this.wanted.shift();
      const record = past ? undefined : [...this.fresh][0] ?? [...this.unsure].find((r) => (r.unrecorded ? this.asked < mostSingle : listed.length <= mostSingle));
      if (!past && !record) return;
      if (record) this.settle(record);
      this.reading++;
      void (past ? this.readOne(past, signal) : this.readRecord(record!, signal)).finally(() => {
        this.reading--;
        this.readMore();
      });
    }
  }

  /** Reads what only the stream has brought, a few at a time, the newest first. */
  private readNew(): void {
    const fresh = this.rows.filter((r) => r.read === 0 && !r.unrecorded).sort((a, b) => b.updated - a.updated);
    if (fresh.length > mostSingle && Date.now() / 1000 - this.listed > listEvery) return this.reload(); // which knows most of them
    for (const row of fresh) if (this.fresh.size < mostSingle) this.fresh.add(row);
  }

  /** It is, or was, read. */
  private settle(row: Row): void {
    this.unsure.delete(row);
    this.fresh.delete(row);
  }

  private drop(row: Row): void {
    this.byName.delete(row.name);
    this.rows = this.rows.filter((r) => r !== row);
    this.settle(row);
    this.tell();
  }

  /** A read after the list's succeeded, or not: who can't be read is not shown as if nothing were the matter. */
  private answered(e?: unknown): void {
    const error = e === undefined ? undefined : asError(e);
    if (error?.code === "NOT_FOUND" || error?.code === "CANCELLED" || error?.problem === this.snapshot.unread?.problem) return;
    this.snapshot = { ...this.snapshot, unread: error };
    this.tell();
  }

  /** Reads which fleets are stored, once for all rows: neither they nor their members have a record to ask for. */
  private knowFleets(signal: AbortSignal): Promise<boolean> {
    if (!this.fleets || serviceNow() / 1000 - this.fleets.at > fleetsEvery) {
      const { fleetOf } = this;
      const all = storedFleets(this.parent, signal).then(({ fleets, more }) => {
        for (const f of fleets) {
          // The list has no fleets, and the stream only what the service still holds of all targets together.
          const row = fleetOf === this.fleetOf && this.abort ? this.row(f.name!) : undefined;
          if (row?.read === 0) {
            row.fleet = row.unrecorded = true;
            this.unsure.add(row);
          }
          for (const name of [f.name, ...(f.fleet?.members ?? []).map((m) => m.target)]) if (name && !this.byName.get(name)?.read) fleetOf.set(name, f.name!);
        }
        return !more;
      }, () => false);
      this.fleets = { at: serviceNow() / 1000, all };
    }
    return this.fleets.all;
  }

  /** Notes the members of a fleet. */
  knows(of: string, f: Fleet): void {
    for (const m of f.members ?? []) if (m.target) this.fleetOf.set(m.target, of);
  }

  /** The fleet that a name without a record is, or is a member of, as it is known or as the stored fleets say. */
  async fleet(name: string): Promise<string | undefined> {
    if (!this.fleetOf.has(name)) await this.knowFleets(new AbortController().signal);
    return this.fleetOf.get(name);
  }

  /** Whether a name is a member of the fleet that is known of it, and so has no record to ask for. */
  async isMember(name: string, signal: AbortSignal): Promise<boolean> {
    const of = this.fleetOf.get(name);
    if (!of || of === name) return false;
    const f = await get<Fleet>(`/v1/${of}/fleet`, signal).catch(() => undefined);
    return f?.members?.some((m) => m.target === name) ?? false;
  }

  private async readRecord(row: Row, signal: AbortSignal): Promise<void> {
    // What the list has not may be a fleet, or a member of one.
    const told = row.read === 0 && (await this.knowFleets(signal)) && row.updated < this.fleets!.at;
    const of = row.fleet ? row.name : this.fleetOf.get(row.name);
    const fleet = of && this.row(of);
    if (fleet && (await this.readFleet(fleet, signal)) && (row === fleet || this.fleetOf.get(row.name) === fleet.name)) return;
    this.fleetOf.delete(row.name);
    row.told = undefined;
    try {
      const t = await get<Target>(`/v1/${row.name}`, signal);
      if (!t.specInUse) [row.spec, row.goals] = ["", []];
      this.takeTarget(row.name, t);
      this.answered();
      this.tell();
    } catch (e) {
      if (!signal.aborted) this.answered(e);
      // It stays as it is known; the next list may know it.
      if (asError(e).code === "NOT_FOUND" && (told || !(await this.readFleet(row, signal)))) await this.readMember(row, signal);
    }
  }

  /** What has decisions but no record may be a fleet: whether it is, or that is not known. Its members are known with it, so one answer is for all. */
  private readFleet(row: Row, signal: AbortSignal): Promise<boolean> {
    const { answers } = this;
    let answer = answers.get(row.name);
    if (!answer) {
      this.asked++;
      answer = this.askFleet(row, signal).finally(() => answers.delete(row.name));
      answers.set(row.name, answer);
    }
    return answer;
  }

  private async askFleet(row: Row, signal: AbortSignal): Promise<boolean> {
    let f: Fleet;
    try {
      f = await get<Fleet>(`/v1/${row.name}/fleet`, signal);
    } catch (e) {
      const none = asError(e).code === "NOT_FOUND";
      if (none) [row.fleet, row.unrecorded] = [false, false];
      if (!signal.aborted) this.answered(e);
      return !none; // it is asked again
    }
    this.answered();
    if (!f.decisionTime) {
      this.drop(row); // the decisions are of a target that was deleted
      return true;
    }
    const metrics = f.status?.currentMetrics ?? [];
    const known = (r: Row, asked: number, patience: number, at: number, from: number | undefined, to: number | undefined) => {
      [r.unrecorded, r.read, r.patience] = [true, serviceNow() / 1000, patience];
      r.told = { share: to === undefined ? "" : shareText(to, f), metrics };
      r.updated = Math.max(r.updated, asked || 0);
      // The log has the change of a count, not that it was made; a change since is newer than this answer.
      if (to !== undefined && at >= r.turnsAt) [r.current, r.desired] = [from ?? to, to];
      this.settle(r);
      this.retell(r);
      this.age(r);
      if (r.bits & NotAsked) r.why = why(NotAsked, {}).short;
      r.version++;
    };
    const { asked, patience } = fleetPace(f);
    row.fleet = true;
    if (row.max === undefined) [row.min, row.max] = [f.minReplicas ?? 0, f.maxReplicas]; // its last decision counts those of its members, too
    known(row, asked, patience, millis(f.decisionTime) / 1000, undefined, f.desiredReplicas ?? 0);
    for (const [name, of] of this.fleetOf) {
      if (of !== row.name || name === of || f.members?.some((m) => m.target === name)) continue;
      this.fleetOf.delete(name); // it was a member
      const former = this.byName.get(name);
      if (former) this.unsure.add(former);
    }
    this.knows(row.name, f);
    for (const m of f.members ?? []) {
      const called = millis(m.lastCallTime) / 1000;
      const member = m.target && called > 0 ? this.row(m.target) : this.byName.get(m.target ?? "");
      if (member) known(member, called, patience, called, m.specReplicas, m.share);
    }
    this.tell();
    return true;
  }

  /** What has decisions, but neither record nor members, is a member of a fleet that is not known here; or nothing any more. */
  private async readMember(row: Row, signal: AbortSignal): Promise<void> {
    try {
      await get<ListDecisionsResponseJson>(`/v1/${row.name}/decisions?pageSize=1`, signal);
    } catch (e) {
      if (asError(e).code === "NOT_FOUND") this.drop(row);
      return;
    }
    // Its fleet may have been read meanwhile, which knows more.
    row.unrecorded = true;
    this.age(row);
    row.version++;
    this.tell();
  }

  private async readOne(row: Row, signal: AbortSignal): Promise<void> {
    row.past = "asked";
    try {
      const page = await get<ListDecisionsResponseJson>(`/v1/${row.name}/decisions?pageSize=100`, signal);
      const all = (page.decisions ?? []).reverse();
      const since = serviceNow() / 1000 - hour;
      const spark = new Spark();
      for (const d of all) this.draw(spark, d, since);
      for (let i = 0; i < row.spark.times.length; i++) {
        // What the stream brought meanwhile.
        if (row.spark.times[i]! > spark.last) spark.add(row.spark.times[i]!, row.spark.counts[i]!, 0);
      }
      // The page may not reach back an hour; a count that has not changed since was the same
      // before.
      const first = spark.times[0];
      if (first !== undefined && page.nextPageToken && row.changed > 0 && row.changed < first && first > since) spark.times[0] = Math.max(since, row.changed);
      if (spark.times.length > 0) row.spark = spark;
      row.direction ||= spark.direction();
      // The record's last decision lacks what the log has.
      const last = all.at(-1);
      if (last?.basis) this.basis(row, last);
      row.past = "known";
      this.age(row);
      row.version++;
      this.tell();
    } catch (e) {
      // Its line stays short; scrolling to it again repeats the request, unless it was
      // refused.
      row.past = asError(e).code === "PERMISSION_DENIED" ? "known" : "unknown";
    }
  }

  /** Notes what a decision came to. */
  private draw(spark: Spark, d: Decision, since: number): void {
    if (stateBits(d) & Unreadable) return;
    const time = millis(d.time) / 1000 || 0;
    const from = d.currentReplicas ?? 0;
    const to = reached(d);
    if (to !== from) spark.add(time - 0.001, from, since - hour);
    spark.add(time, to, since - hour);
  }

  private row(name: string): Row {
    let row = this.byName.get(name);
    if (!row) {
      const n = parseName(name);
      row = {
        name, ...n, searched: searched(name), kind: "", shadows: name.endsWith(shadowSuffix) ? name.slice(0, -shadowSuffix.length) : "", fleet: false, told: undefined, unrecorded: false,
        current: undefined, desired: undefined, wants: undefined, min: undefined, max: undefined, bits: 0, why: "", whyLong: "",
        metric: "", goal: "", metricName: "", metricNumber: NaN, readingAt: 0, goals: [], spec: "", past: "unknown",
        changed: 0, updated: 0, described: 0, read: 0, patience: Infinity, flapsUntil: 0, overriddenUntil: 0, turnsAt: 0, direction: 0, spark: new Spark(), version: 0,
      };
      this.byName.set(name, row);
      this.rows.push(row);
    }
    return row;
  }

  /** A row as it is known; for who has no list to look at. */
  find(name: string): Row | undefined {
    return this.byName.get(name);
  }

  private takeTarget(name: string, t: Target): void {
    const row = this.row(name);
    const d = t.lastDecision;
    const { asked, patience, flapsUntil } = paceOf(t);
    [row.unrecorded, row.fleet, row.told] = [false, false, undefined];
    this.fleetOf.delete(name);
    row.kind = t.scaleTargetRef?.kind ?? "";
    row.changed = Math.max(row.changed, millis(t.status?.lastScaleTime) / 1000 || 0);
    row.read = serviceNow() / 1000;
    row.patience = patience;
    row.flapsUntil = flapsUntil;
    this.settle(row);
    row.turnsAt = Math.max(row.turnsAt, asked);
    if (t.specInUse?.hash) {
      row.spec = t.specInUse.hash;
      row.min = t.specInUse.spec?.minReplicas ?? 1;
      row.max = t.specInUse.spec?.maxReplicas;
      row.goals = (t.specInUse.spec?.metrics ?? []).map((m) => wanted(m).text);
      row.goal = row.goals[row.readingAt] ?? "";
    }
    if (!d) { // neither the stream nor an earlier list tells what holds now
      row.bits = Unread;
      row.current = row.desired = row.wants = row.min = row.max = undefined;
      this.measure(row, []);
      row.why = row.whyLong = "Nothing was decided, or its record can't be read: its page tells why";
    } else if (asked >= row.updated) {
      row.updated = asked;
      row.described = millis(d.time) / 1000 || 0;
      row.current = t.status?.currentReplicas ?? d.currentReplicas ?? 0;
      this.describe(row, { ...d, conditions: t.status?.conditions ?? d.conditions, currentMetrics: t.status?.currentMetrics ?? d.currentMetrics });
      if (row.current !== undefined && row.spark.times.length === 0) row.spark.add(asked, d.outcome === "APPLIED" ? row.desired! : row.current, 0);
    } else this.age(row);
    if (d?.action === "SCALE_UP" || d?.action === "SCALE_DOWN") row.direction ||= d.action === "SCALE_UP" ? 1 : -1;
    row.version++;
  }

  private describe(row: Row, d: Decision): void {
    row.bits = (row.bits & Changed) | stateBits(d);
    row.overriddenUntil = overriddenUntil(d);
    // What was decided stands in the decision, whatever became of it; the status has it only since a first success.
    row.desired = d.time === undefined ? row.current : d.desiredReplicas ?? 0;
    if (row.bits & Unreadable) row.current = row.desired = undefined;
    this.basis(row, d);
    this.measure(row, d.currentMetrics ?? []);
    if (row.spec && d.specHash && d.specHash !== row.spec) this.unsure.add(row);
    this.age(row);
    const { short, long } = why(row.bits, d);
    row.why = row.overriddenUntil > 0 && row.bits & Unknown && !(row.bits & (NotAsked | Overridden)) ? ended : short;
    row.whyLong = long;
    this.retell(row);
  }

  /** What a fleet told is newer than the last decision of a member, whose log has changes only. */
  private retell(row: Row): void {
    if (!row.told) return;
    this.measure(row, row.told.metrics);
    [row.why, row.whyLong] = [withShare(row.why, row.told.share), withShare(row.whyLong, row.told.share)];
  }

  /** Takes readings. */
  private measure(row: Row, metrics: readonly MetricStatus[]): void {
    const readings = metrics.map(reading);
    row.readingAt = Math.max(0, readings.findIndex((r) => r.kind !== "none"));
    const first = readings[row.readingAt]?.kind === "none" ? undefined : readings[row.readingAt];
    const others = readings.filter((r) => r.kind !== "none").length - 1;
    row.metric = first ? first.text : "";
    row.metricName = first ? `${first.name}${others > 0 ? `, +${others}` : ""}` : "";
    row.metricNumber = first ? first.number : NaN;
    row.goal = row.goals[row.readingAt] ?? "";
  }

  /** Takes the numbers that limited a decision, as far as the log has them. */
  private basis(row: Row, d: Decision): void {
    if (d.basis?.minReplicas !== undefined) row.min = d.basis.minReplicas;
    if (d.basis?.maxReplicas !== undefined) row.max = d.basis.maxReplicas;
    if (d.basis) row.wants = d.basis.proposal;
  }

  /** What depends on the clock. */
  private age(row: Row): void {
    const now = serviceNow() / 1000;
    row.bits &= ~(Changed | Flapping | NotAsked);
    if (row.changed > now - hour) row.bits |= Changed;
    if (now < row.flapsUntil) row.bits |= Flapping;
    if (row.bits & Overridden && row.overriddenUntil > 0 && now > row.overriddenUntil) {
      row.bits = (row.bits & ~Overridden) | Unknown;
      row.why = ended;
    }
    // A member's log leaves repeated decisions out, too: without its fleet nobody knows.
    if (row.unrecorded && row.patience === Infinity && now > row.updated + memberPatience) {
      row.bits |= Unknown;
      row.told = { share: "", metrics: [] };
      this.retell(row);
    }
    // The log leaves repeated decisions out: only the record knows that nobody asked.
    const until = row.updated + row.patience;
    const over = row.read > until;
    if (over) row.bits |= NotAsked;
    const old = now - row.read > listEvery;
    if (over ? old : row.read > 0 && (now > until || (old && row.told?.share))) this.unsure.add(row);
  }

  private take(batch: readonly WatchedDecision[]): void {
    const since = serviceNow() / 1000 - hour;
    let any = false;
    let asks = false;
    for (const { target, decision: d } of batch) {
      if (!target || !d) continue;
      any = true;
      const row = this.row(target);
      if (row.read === 0 && !row.unrecorded && !this.snapshot.loading && this.fresh.size < mostSingle) {
        this.fresh.add(row);
        asks = true;
      }
      const time = millis(d.time) / 1000 || 0;
      if (row.bits & Unread && time < row.read) continue;
      const from = d.currentReplicas ?? 0;
      const to = reached(d);
      const direction = Math.sign((d.desiredReplicas ?? from) - from);
      if (direction !== 0) {
        if (to === from && d.outcome !== "PENDING" && row.bits & Flapping) this.unsure.add(row); // a change that failed is no turn
        if (to !== from) row.changed = Math.max(row.changed, time);
        if (time > row.turnsAt) {
          row.turnsAt = time;
          if (row.direction !== direction) this.unsure.add(row); // the service counts turns
          row.direction = direction;
        }
      }
      this.draw(row.spark, d, since);
      // A fleet tells the counts of its members and when they called, and their decisions tell the rest.
      const { current, desired } = row;
      const newest = time >= row.updated;
      if (newest) [row.updated, row.current, row.told] = [time, from, undefined];
      if (time >= row.described) {
        row.described = time;
        this.describe(row, d);
        if (!newest) [row.current, row.desired] = [current, desired];
      } else this.age(row);
      row.version++;
    }
    if (any) this.tell();
    if (asks) this.readMore();
  }

  private pass(): void {
    this.asked = 0;
    const { loading, loaded, error } = this.snapshot;
    if (loading && loaded === 0 && !error && Date.now() - this.begun >= silent) this.snapshot = { ...this.snapshot, error: unanswered() };
    const since = serviceNow() / 1000 - hour;
    for (const row of this.rows) {
      row.spark.cut(since);
      const before = row.bits;
      this.age(row);
      const fleet = row.unrecorded && row.current !== row.desired && (row.fleet ? row : this.byName.get(this.fleetOf.get(row.name) ?? ""));
      if (fleet) this.unsure.add(fleet); // only it knows whether its members do what they are told
      if (row.bits !== before) row.version++;
    }
    if (!this.snapshot.loading) {
      if (Date.now() / 1000 - this.listed > relistEvery) this.reload();
      else this.readNew();
    }
    this.readMore();
    this.tell();
  }

  private tell(): void {
    if (this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      const counts = states.map(() => 0);
      // The log keeps the decisions of targets that were deleted: a row is shown once it is known to be there.
      const rows = this.rows.filter((r) => r.read > 0 || (r.unrecorded && r.updated > 0) || r.updated >= this.started);
      for (const row of rows) {
        for (let i = 0; i < states.length; i++) if (row.bits & states[i]!.bit) counts[i]!++;
      }
      this.snapshot = { ...this.snapshot, rows, version: this.snapshot.version + 1, counts };
      for (const f of this.listeners) f();
    }, tellEvery);
  }
}


/** One store for the page: what it knows stays while other views are open. */
export const targets = new TargetsStore();
