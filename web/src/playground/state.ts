// The playground's state, as stored in links and files. Everything read from there is
// checked, because links are untrusted.

import type { HorizontalPodAutoscalerSpecJson as Spec } from "@setpoint-dev/client/json";

export interface Part {
  kind: "constant" | "daily" | "step" | "ramp" | "spike" | "flashCrowd" | "sawtooth" | "onOff" | "drawn" | "file";
  /** Parameters by the scenario's names: numbers, or texts such as 10m and 14:00. */
  values: Record<string, string>;
  /** Of a drawn part: hours and load, rising. */
  points?: [number, number][];
  /** Of a file: its name and content. */
  name?: string;
  content?: string;
}

export interface Happening {
  kind: "kill" | "crash" | "gone" | "frozen" | "zero" | "late" | "writes" | "replicas" | "rollout";
  at: string;
  for: string;
  value: string;
}

/** A recorded series: CSV, or a response of Prometheus. */
export interface Recording {
  name: string;
  content: string;
}

export interface State {
  version: 1;
  title: string;
  /** What a preset teaches, in a sentence or two. */
  lesson?: string;
  specs: string[];
  profile: string;
  duration: string;
  /** Between two evaluations, empty: as the controller. */
  period: string;
  load: Part[];
  noise: string;
  seed: string;
  /** The time zone of the clock, empty: UTC. */
  zone: string;
  /** Of a replica-hour, empty: not told. */
  price: string;
  workload: Record<string, string>;
  events: Happening[];
  /** The count that there really was. */
  recorded?: Recording;
  /** The scenario as text, in place of load, workload and events. */
  text?: string;
}

/** The parameters of each part: label and initial value. */
export const shapes: Record<Part["kind"], { label: string; values: Record<string, [string, string]> }> = {
  constant: { label: "Constant", values: { value: ["Load", "100"] } },
  daily: { label: "Daily", values: { low: ["Low", "40"], high: ["High", "400"], peak: ["Peak at", "14:00"], weekend: ["Weekend", "1"] } },
  step: { label: "Step", values: { from: ["From", "0"], to: ["To", "200"], at: ["At", "6h"] } },
  ramp: { label: "Ramp", values: { from: ["From", "0"], to: ["To", "300"], at: ["At", "6h"], for: ["For", "2h"] } },
  spike: { label: "Spike", values: { height: ["Height", "300"], at: ["At", "6h"], for: ["For", "10m"] } },
  flashCrowd: { label: "Flash crowd", values: { height: ["Height", "1000"], at: ["At", "19h"], rise: ["Rise", "1m"], halfLife: ["Halves in", "10m"] } },
  sawtooth: { label: "Sawtooth", values: { low: ["Low", "20"], high: ["High", "200"], period: ["Period", "1h"] } },
  onOff: { label: "On and off", values: { low: ["Low", "20"], high: ["High", "200"], on: ["On", "10m"], off: ["Off", "20m"] } },
  drawn: { label: "Drawn by hand", values: {} },
  file: { label: "File", values: { scale: ["Times", "1"] } },
};

export const workloadFields: Record<string, [label: string, hint: string]> = {
  cpu: ["CPU request", "of each pod, such as 500m; for several metrics in their order, separated by commas"],
  cpuLimit: ["CPU limit", "bounds what a pod serves; empty: no limit"],
  metric: ["Metric", "grows with the load; its name in the spec, empty: cpu. Several, separated by commas, follow the same load"],
  perLoad: ["Usage per load", "of the metric for each unit of load a second, such as 10m; for several metrics in their order, separated by commas; a missing one is 0"],
  idle: ["Usage idle", "of a running pod without load"],
  startup: ["Start-up", "time from the start of a pod until it is ready, such as 30s"],
  startupP95: ["Start-up, 95 %", "time until 95 % of new pods are ready; empty: all take the same time"],
  warmup: ["Warm-up", "time after its start in which a pod uses more"],
  warmupCpu: ["Usage in warm-up", "additional usage of a pod in warm-up"],
  capacity: ["Capacity", "units a second that a ready pod can serve; empty: by its CPU limit"],
  replicas: ["Replicas at first", "empty: minReplicas"],
  queue: ["Queue", "units that may wait; empty: excess load is lost"],
  slots: ["Slots", "number of pods that fit on the nodes; more wait for a node; empty: no limit"],
  nodeDelay: ["Node delay", "time until a new node is ready"],
};

export const happenings: Record<Happening["kind"], { label: string; value?: string; lasts: boolean }> = {
  kill: { label: "Pods vanish", value: "how many", lasts: false },
  crash: { label: "Pods crash", value: "share, 0 to 1", lasts: true },
  gone: { label: "Metrics are missing", lasts: true },
  frozen: { label: "Metrics are frozen", lasts: true },
  zero: { label: "Metrics are zero", lasts: true },
  late: { label: "Metrics are late", value: "by, such as 1m", lasts: true },
  writes: { label: "Writes fail", lasts: true },
  replicas: { label: "Somebody sets the count", value: "replicas", lasts: false },
  rollout: { label: "Rollout", value: "surge", lasts: false },
};

export const limits = { text: 200_000, file: 4_000_000, parts: 20, points: 500 };

const scalar = (s: string): string => (/^-?[0-9][0-9A-Za-z.]*$/.test(s) && !s.includes(":") ? s : JSON.stringify(s));

/** A name as YAML has it. */
const word = (s: string): string => (/^[A-Za-z][A-Za-z0-9_-]*$/.test(s) ? s : JSON.stringify(s));

/** What the content of a file is: a recording as setpoint targets export writes it, a response of Prometheus, or CSV. */
const formOf = (content: string): string => (/^\s*\{"(name|calls)":/.test(content) ? "recording" : /^\s*\{/.test(content) ? "prometheus" : "csv");

/** metric is what a file has the readings of; empty: it has the load. A recording knows its own. */
function partText(p: Part, i: number, metric: string): string {
  const v = p.values;
  switch (p.kind) {
    case "constant":
      return `  - constant: ${scalar(v.value ?? "0")}`;
    case "drawn":
      return `  - points: [${(p.points ?? []).map(([h, y]) => `{at: ${Math.round(h * 3600)}s, value: ${y}}`).join(", ")}]`;
    case "file":
      return `  - ${formOf(p.content ?? "")}: {file: ${JSON.stringify(fileName(i))}${metric && formOf(p.content ?? "") !== "recording" ? `, metric: ${word(metric)}` : ""}}${v.scale && v.scale !== "1" ? `\n    scale: ${scalar(v.scale)}` : ""}`;
    default:
      return `  - ${p.kind}: {${Object.keys(shapes[p.kind].values)
        .filter((k) => v[k])
        .map((k) => `${k}: ${k === "peak" ? JSON.stringify(v[k]) : scalar(v[k]!)}`)
        .join(", ")}}`;
  }
}

const fileName = (i: number) => `load-${i + 1}`;

/** The files that the scenario names. */
export function filesOf(s: State): Record<string, string> {
  const out: Record<string, string> = {};
  s.load.forEach((p, i) => {
    if (p.kind === "file" && p.content) out[fileName(i)] = p.content;
  });
  return out;
}

/**
 * A state whose files have their shortest form, CSV, where that means the same: a text names each with its form, which is
 * changed with it, and a recording has its own metric, whose readings only the form's metric is, too.
 */
export function shortened(s: State, files: Record<string, string>): State {
  let { text } = s;
  const load = s.load.map((p, i): Part => {
    const name = fileName(i), content = p.kind === "file" ? files[name] : undefined, form = formOf(p.content ?? "");
    if (content === undefined) return p;
    if (form === "recording" && (text !== undefined || !isUsage(s))) return p;
    if (form === "prometheus" && text !== undefined) {
      const named = `prometheus: {file: ${JSON.stringify(name)}`;
      if (text.split(named).length !== 2) return p;
      text = text.replace(named, `csv: {file: ${JSON.stringify(name)}`);
    }
    return { ...p, content };
  });
  return { ...s, load, ...(text === undefined ? {} : { text }), ...(s.recorded ? { recorded: { ...s.recorded, content: files.recorded ?? s.recorded.content } } : {}) };
}

function eventText(e: Happening): string {
  const lasts = happenings[e.kind].lasts ? `, for: ${scalar(e.for || "5m")}` : "";
  const at = `at: ${scalar(e.at || "1h")}`;
  switch (e.kind) {
    case "gone":
    case "frozen":
    case "zero":
      return `  - {${at}, metrics: ${e.kind}${lasts}}`;
    case "late":
      return `  - {${at}, metrics: late, by: ${scalar(e.value || "1m")}${lasts}}`;
    case "writes":
      return `  - {${at}, writes: fail${lasts}}`;
    case "rollout":
      return `  - {${at}, rollout: {surge: ${scalar(e.value || "1")}, unavailable: 0}}`;
    default:
      return `  - {${at}, ${e.kind}: ${scalar(e.value || "1")}${lasts}}`;
  }
}

/** The items of a list with commas. */
const listOf = (text: string): string[] => text.split(",").map((t) => t.trim());

/** The scenario of setpoint simulate that the form says. */
export function scenarioOf(s: State): string {
  if (s.text !== undefined) return s.text;
  const w = s.workload;
  const lines = [`seed: ${scalar(s.seed || "1")}`, "load:", ...s.load.map((p, i) => partText(p, i, isUsage(s) ? listOf(s.workload.metric || "cpu")[0]! : ""))];
  // A recorded load says itself when it ends.
  if (s.duration || !s.load.some((p) => p.kind === "file")) lines.unshift(`duration: ${scalar(s.duration || "24h")}`);
  if (s.zone) lines.unshift(`timezone: ${JSON.stringify(s.zone)}`);
  if (s.price) lines.unshift(`price: ${scalar(s.price)}`);
  if (s.noise && Number(s.noise) !== 0) lines.push(`noise: {variation: ${scalar(s.noise)}, every: 1m}`);
  if (s.period) lines.push(`loop: {syncPeriod: ${scalar(s.period)}}`);
  lines.push("workload:");
  const metrics = listOf(w.metric || "cpu").filter(Boolean);
  const requests = listOf(w.cpu ?? "").filter(Boolean);
  const resources = metrics.filter((m) => m === "cpu" || m === "memory");
  if (resources.length === 0) resources.push("cpu");
  if (requests.length > 0) lines.push(`  requests: {${resources.slice(0, requests.length).map((r, i) => `${r}: ${scalar(requests[i]!)}`).join(", ")}}`);
  if (w.cpuLimit) lines.push(`  limits: {cpu: ${scalar(w.cpuLimit)}}`);
  for (const key of ["startup", "startupP95", "warmup", "capacity", "replicas", "slots", "nodeDelay"]) {
    if (w[key]) lines.push(`  ${key}: ${scalar(w[key])}`);
  }
  if (w.queue) lines.push(`  queue: {size: ${scalar(w.queue)}}`);
  const more = [w.idle && `idle: ${scalar(w.idle)}`, w.warmupCpu && `warmup: ${scalar(w.warmupCpu)}`].filter(Boolean).map((t) => `, ${t}`);
  const ratios = listOf(w.perLoad || "10m");
  lines.push("  usage:", `    - {metric: ${word(metrics[0] ?? "cpu")}, perLoad: ${scalar(ratios[0] || "10m")}${more.join("")}}`);
  metrics.slice(1).forEach((m, i) => lines.push(`    - {metric: ${word(m)}, perLoad: ${scalar(ratios[i + 1] || "0")}}`));
  if (s.events.length > 0) lines.push("events:", ...s.events.map(eventText));
  return `${lines.join("\n")}\n`;
}

/** Hours of a duration such as 24h or 90m, for axes; a day if it is none. */
export function hoursOf(duration: string): number {
  const m = /^(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?$/.exec(duration.trim());
  const hours = m ? Number(m[1] ?? 0) + Number(m[2] ?? 0) / 60 + Number(m[3] ?? 0) / 3600 : 0;
  return hours > 0 && hours <= 8784 ? hours : 24;
}

/** A state of a link or a file; throws what is wrong with it. */
export function checked(from: unknown): State {
  const fail = (what: string): never => {
    throw new Error(what);
  };
  const isObject = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);
  const text = (v: unknown, what: string, most = 100): string =>
    v === undefined ? "" : typeof v !== "string" ? fail(`its ${what} is no text`) : v.length > most ? fail(`its ${what} has ${v.length} characters, at most ${most}`) : v;
  const list = (v: unknown, what: string, most: number): unknown[] =>
    !Array.isArray(v) ? fail(`its list of ${what} is none`) : v.length > most ? fail(`it has ${v.length} ${what}, at most ${most}`) : v;
  const texts = (v: unknown, what: string, keys: string[]): Record<string, string> => {
    if (!isObject(v)) return fail(`its ${what} has no values`);
    const out: Record<string, string> = {};
    for (const key of keys) if (v[key] !== undefined) out[key] = text(v[key], `${what}'s ${key}`);
    return out;
  };
  if (!isObject(from) || from.version === undefined) return fail("it has no playground");
  if (from.version !== 1) return fail(`it is of version ${String(from.version).slice(0, 10)}, this page reads version 1`);
  const specs = list(from.specs, "specs", 2).map((s) => text(s, "spec", limits.text));
  if (specs.length === 0) fail("it has no spec");
  const state: State = {
    version: 1,
    title: text(from.title, "title"),
    lesson: text(from.lesson, "lesson", 1000),
    specs,
    profile: text(from.profile, "profile"),
    duration: text(from.duration, "duration"),
    period: text(from.period, "period"),
    noise: text(from.noise, "noise"),
    seed: text(from.seed, "seed"),
    zone: text(from.zone, "zone"),
    price: text(from.price, "price"),
    workload: texts(from.workload, "workload", Object.keys(workloadFields)),
    load: list(from.load, "parts of the load", limits.parts).map((p) => {
      if (!isObject(p) || typeof p.kind !== "string" || !Object.hasOwn(shapes, p.kind)) return fail("a part of the load is of an unknown kind");
      const kind = p.kind as Part["kind"];
      const part: Part = { kind, values: texts(p.values, "load", Object.keys(shapes[kind].values)) };
      if (kind === "drawn") {
        part.points = list(p.points, "points of the load", limits.points).map((q) => {
          const [h, y] = list(q, "numbers of a point", 2) as [unknown, unknown];
          if (typeof h !== "number" || typeof y !== "number" || !(h >= 0 && h <= 8784) || !(y >= 0 && y <= 1e12)) return fail("a point of the load is none");
          return [h, y] as [number, number];
        });
      }
      if (kind === "file") {
        part.name = text(p.name, "file's name", 200);
        part.content = text(p.content, "file", limits.file);
      }
      return part;
    }),
    events: list(from.events, "events", 50).map((e) => {
      if (!isObject(e) || typeof e.kind !== "string" || !Object.hasOwn(happenings, e.kind)) return fail("an event is of an unknown kind");
      return { kind: e.kind as Happening["kind"], at: text(e.at, "event's at"), for: text(e.for, "event's for"), value: text(e.value, "event's value") };
    }),
  };
  if (from.recorded !== undefined) {
    if (!isObject(from.recorded)) return fail("the recorded count is none");
    state.recorded = { name: text(from.recorded.name, "recorded count's name", 200), content: text(from.recorded.content, "recorded count", limits.file) };
  }
  if (from.text !== undefined) state.text = text(from.text, "scenario", limits.text);
  return state;
}

/** What the scenario calls the metrics of a spec, and whether the first is a share of requests. */
function metricsOf(spec: Spec): { names: string[]; share: boolean } {
  const names = (spec.metrics ?? []).map((m) => (m.resource?.name ?? m.containerResource?.name ?? (m.pods ?? m.object ?? m.external)?.metric?.name ?? "") as string).filter((n) => typeof n === "string" && n !== "");
  const first = spec.metrics?.[0];
  return { names: names.length ? [...new Set(names)] : ["cpu"], share: names.length === 0 || (first?.resource ?? first?.containerResource)?.target?.averageUtilization !== undefined };
}

/** The browser's zone, empty: UTC, or one that is not known. */
export function ownZone(): string {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return /^[A-Za-z][\w+/-]*$/.test(zone) && zone !== "Etc/Unknown" && zone !== "UTC" ? zone : "";
}

/** Whether the first metric is the load itself: the file holds usage, not what causes it. */
export const isUsage = (s: State): boolean => listOf(s.workload.perLoad ?? "")[0] === "1" && !s.workload.idle;

/** The workload of a load that is the first metric itself, or that causes it. */
export function withUnit(s: State, usage: boolean): Record<string, string> {
  const perLoad = [usage ? "1" : "10m", ...listOf(s.workload.perLoad ?? "").slice(1)].join(", ");
  return { ...s.workload, perLoad, ...(usage ? { idle: "" } : {}) };
}

/** The state for a spec and a recorded load of another view. */
export function tried(from: { title?: unknown; lesson?: unknown; spec?: Spec; options?: object; stages?: object; load?: unknown; counts?: unknown; replicas?: unknown; interval?: unknown }): State {
  const { title, spec, load: rows } = from ?? {};
  if ((title ?? spec ?? rows) === undefined) throw new Error("it has neither a spec nor a load");
  if (spec !== undefined && (typeof spec !== "object" || spec === null)) throw new Error("its spec is none");
  if (rows !== undefined && !Array.isArray(rows)) throw new Error("its load is none");
  const state = structuredClone(empty);
  if (typeof from.lesson === "string") state.lesson = from.lesson.slice(0, 1000);
  if (typeof from.title === "string") state.title = from.title.slice(0, 100);
  if (from.spec) {
    const text = manifestOf(from.spec, from.options, from.stages, state.title);
    state.specs = [text, text];
    // The load is the metric's own total: one unit of it is one unit of the metric, or, if the
    // target is a percentage of requests, one percent of those.
    const { names, share } = metricsOf(from.spec);
    const memory = names[0] === "memory";
    state.noise = "0";
    state.workload = { metric: names.join(", ").slice(0, 100), startup: "30s", perLoad: share ? (memory ? "10Mi" : "10m") : "1", ...(share ? { cpu: memory ? "1000Mi" : "1" } : {}) };
    if (names.length > 1 && !state.lesson) {
      state.lesson = `The load is that of ${names[0]!.slice(0, 60)}. The spec's other metrics stay at 0: give each its usage per load, behind commas, and it follows the same load.`;
    }
    if (Number.isInteger(from.replicas) && (from.replicas as number) > 0) state.workload.replicas = String(from.replicas);
  }
  if (typeof from.interval === "number" && from.interval > 0) state.period = `${Math.min(3600, Math.max(1, Math.round(from.interval)))}s`;
  const load = rowsOf(from.load);
  if (load.length > 1) {
    state.load = [{ kind: "file", values: { scale: "1" }, name: "recorded", content: csv(load) }];
    state.duration = `${Math.max(60, Math.round((load.at(-1)![0] - load[0]![0]) / 1000))}s`;
    state.noise = "0";
    state.zone = ownZone();
    const counts = rowsOf(from.counts);
    if (counts.length > 0) state.recorded = { name: "recorded", content: csv(counts) };
  }
  return checked(state);
}

/** The rows of a series: instants in ms, and values. */
const rowsOf = (v: unknown): [number, number][] =>
  Array.isArray(v) ? (v as unknown[]).slice(0, 100_000).filter((r): r is [number, number] => Array.isArray(r) && Number.isFinite(r[0]) && Number.isFinite(r[1])) : [];

const csv = (rows: [number, number][]): string => rows.map(([t, y]) => `${t / 1000},${Math.max(0, y)}`).join("\n");

/** A scalar as YAML has it: quoted unless it is a plain word that YAML takes for nothing else. */
const plain = (v: unknown): string =>
  typeof v === "string" && /^[A-Za-z][A-Za-z0-9_./-]*$/.test(v) && !/^(true|false|yes|no|on|off|y|n|null)$/i.test(v) ? v : JSON.stringify(v);

/** The lines of a value's fields, in YAML that people read. */
function linesOf(value: object, indent: string): string[] {
  const isFilled = (v: unknown): v is object => typeof v === "object" && v !== null && Object.keys(v).length > 0;
  return Object.entries(value).flatMap(([key, v]) => {
    const name = indent + plain(key);
    if (!isFilled(v)) return [`${name}: ${plain(v)}`];
    if (!Array.isArray(v)) return [`${name}:`, ...linesOf(v, `${indent}  `)];
    return [`${name}:`, ...v.flatMap((e: unknown) => {
      if (!isFilled(e) || Array.isArray(e)) return [`${indent}  - ${plain(e)}`];
      const [first, ...rest] = linesOf(e, `${indent}    `);
      return [`${indent}  - ${first!.trimStart()}`, ...rest];
    })];
  });
}

/** A spec as a manifest: an Autoscaler if there are options or stages, which an HPA does not have. */
function manifestOf(spec: Spec, options: object | undefined, stages: object | undefined, title: string): string {
  const name = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(title) ? title : "tried";
  const own: Record<string, unknown> = {};
  for (const [key, v] of Object.entries(options ?? {})) {
    const seconds = typeof v === "string" ? /^(\d+)(?:\.0*)?s$/.exec(v)?.[1] : undefined;
    if (seconds !== undefined) own[`${key}Seconds`] = Number(seconds);
    else if (v !== "" && v !== null && typeof v !== "object") own[key] = v;
  }
  const filled = (o: object) => Object.fromEntries(Object.entries(o).filter(([, v]) => !Array.isArray(v) || v.length > 0));
  const more = Object.fromEntries(Object.entries({ options: own, stages: filled(stages ?? {}) }).filter(([, v]) => Object.keys(v).length > 0));
  const has = Object.keys(more).length > 0;
  return [
    has ? "apiVersion: autoscaling.setpoint.dev/v1" : "apiVersion: autoscaling/v2",
    has ? "kind: Autoscaler" : "kind: HorizontalPodAutoscaler",
    `metadata: {name: ${plain(name)}}`, "spec:", ...linesOf({ ...spec, ...more }, "  "), "",
  ].join("\n");
}

export const hpa = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 50
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: 60}
`;

/** What the playground begins with. */
export const empty: State = {
  version: 1,
  title: "",
  specs: [hpa],
  profile: "",
  duration: "24h",
  period: "",
  noise: "0.05",
  seed: "1",
  zone: "",
  price: "",
  load: [
    { kind: "daily", values: { low: "40", high: "400", peak: "14:00", weekend: "1" } },
    { kind: "flashCrowd", values: { height: "900", at: "19h", rise: "1m", halfLife: "10m" } },
  ],
  workload: { cpu: "500m", cpuLimit: "1", perLoad: "10m", idle: "20m", startup: "30s", startupP95: "60s" },
  events: [],
};
