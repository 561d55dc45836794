// The playground's state, as stored in links and files. Everything read from there is
// checked, because links are untrusted.

import type { Spec } from "../api/types";

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

export interface State {
  version: 1;
  title: string;
  /** What a preset teaches, in a sentence or two. */
  lesson?: string;
  specs: string[];
  profile: string;
  duration: string;
  load: Part[];
  noise: string;
  seed: string;
  workload: Record<string, string>;
  events: Happening[];
  /** The scenario as text, in place of load, workload and events. */
  text?: string;
}

/** The parameters of each part, with what they begin with. */
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
  cpu: ["CPU request", "of each pod, such as 500m; with a metric of memory its request behind a comma"],
  cpuLimit: ["CPU limit", "a pod serves no more than this allows; empty: no limit"],
  metric: ["Metric", "what load makes grow, as the spec names it; empty: cpu. Several behind commas: all follow the same load"],
  perLoad: ["Usage per load", "of the metric by each unit a second, such as 10m. Of several metrics behind commas, in their order; one without stays at 0"],
  idle: ["Usage idle", "that a running pod has anyway"],
  startup: ["Start-up", "from a pod's start until it is ready, such as 30s"],
  startupP95: ["Start-up, 95 %", "95 % of the pods are ready by then; empty: all take the same time"],
  warmup: ["Warm-up", "how long after its start a pod uses more"],
  warmupCpu: ["Usage in warm-up", "that it uses more then"],
  capacity: ["Capacity", "units a second that a ready pod serves; empty: what its CPU limit allows"],
  replicas: ["Replicas at first", "empty: minReplicas"],
  queue: ["Queue", "units that may wait; empty: excess load is lost"],
  slots: ["Slots", "pods beyond these wait for a node; empty: no limit"],
  nodeDelay: ["Node delay", "how long a node takes to come"],
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

const limits = { text: 200_000, link: 64_000, unpacked: 2_000_000, file: 4_000_000, parts: 20, points: 500 };

const scalar = (s: string): string => (/^-?[0-9][0-9A-Za-z.]*$/.test(s) && !s.includes(":") ? s : JSON.stringify(s));

/** A name as YAML has it. */
const word = (s: string): string => (/^[A-Za-z][A-Za-z0-9_-]*$/.test(s) ? s : JSON.stringify(s));

function partText(p: Part, i: number): string {
  const v = p.values;
  switch (p.kind) {
    case "constant":
      return `  - constant: ${scalar(v.value ?? "0")}`;
    case "drawn":
      return `  - points: [${(p.points ?? []).map(([h, y]) => `{at: ${Math.round(h * 3600)}s, value: ${y}}`).join(", ")}]`;
    case "file":
      return `  - ${p.content?.trimStart().startsWith("{") ? "prometheus" : "csv"}: {file: ${JSON.stringify(fileName(i))}}${v.scale && v.scale !== "1" ? `\n    scale: ${scalar(v.scale)}` : ""}`;
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

/** What stands between commas. */
const listOf = (text: string): string[] => text.split(",").map((t) => t.trim());

/** The scenario of setpoint simulate that the form says. */
export function scenarioOf(s: State): string {
  if (s.text !== undefined) return s.text;
  const w = s.workload;
  const lines = [`duration: ${scalar(s.duration || "24h")}`, `seed: ${scalar(s.seed || "1")}`, "load:", ...s.load.map(partText)];
  if (Number(s.noise) > 0) lines.push(`noise: {variation: ${scalar(s.noise)}, every: 1m}`);
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

/** A state from somewhere else, or why it is none. */
export function checked(from: unknown): State {
  const fail = (what: string): never => {
    throw new Error(what);
  };
  const isObject = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);
  const text = (v: unknown, most = 100): string => (v === undefined ? "" : typeof v === "string" && v.length <= most ? v : fail("a text is none, or too long"));
  const list = (v: unknown, most: number): unknown[] => (Array.isArray(v) && v.length <= most ? v : fail("a list is none, or too long"));
  const texts = (v: unknown, keys: string[]): Record<string, string> => {
    if (!isObject(v)) return fail("values are missing");
    const out: Record<string, string> = {};
    for (const key of keys) if (v[key] !== undefined) out[key] = text(v[key]);
    return out;
  };
  if (!isObject(from)) return fail("it has no playground");
  if (from.version !== 1) return fail(`it is of version ${String(from.version).slice(0, 10)}, this page reads version 1`);
  const specs = list(from.specs, 2).map((s) => text(s, limits.text));
  if (specs.length === 0) fail("it has no spec");
  const state: State = {
    version: 1,
    title: text(from.title),
    lesson: text(from.lesson, 1000),
    specs,
    profile: text(from.profile),
    duration: text(from.duration),
    noise: text(from.noise),
    seed: text(from.seed),
    workload: texts(from.workload, Object.keys(workloadFields)),
    load: list(from.load, limits.parts).map((p) => {
      if (!isObject(p) || typeof p.kind !== "string" || !Object.hasOwn(shapes, p.kind)) return fail("a part of the load is of an unknown kind");
      const kind = p.kind as Part["kind"];
      const part: Part = { kind, values: texts(p.values, Object.keys(shapes[kind].values)) };
      if (kind === "drawn") {
        part.points = list(p.points, limits.points).map((q) => {
          const [h, y] = list(q, 2) as [unknown, unknown];
          if (typeof h !== "number" || typeof y !== "number" || !(h >= 0 && h <= 8784) || !(y >= 0 && y <= 1e12)) return fail("a point of the load is none");
          return [h, y] as [number, number];
        });
      }
      if (kind === "file") {
        part.name = text(p.name, 200);
        part.content = text(p.content, limits.file);
      }
      return part;
    }),
    events: list(from.events, 50).map((e) => {
      if (!isObject(e) || typeof e.kind !== "string" || !Object.hasOwn(happenings, e.kind)) return fail("an event is of an unknown kind");
      return { kind: e.kind as Happening["kind"], at: text(e.at), for: text(e.for), value: text(e.value) };
    }),
  };
  if (from.text !== undefined) state.text = text(from.text, limits.text);
  return state;
}

const toBase64 = (bytes: Uint8Array): string => {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
};

const fromBase64 = (text: string): Uint8Array<ArrayBuffer> => {
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
};

/** Reads a stream to its end, which must not be further than most bytes. */
async function within(stream: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error("it is too large");
    }
    parts.push(value);
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** The fragment of a link to a state. It fails for states that are too large for one. */
export async function fragmentOf(state: State): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const packed = await within(new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw")), limits.unpacked);
  const text = toBase64(packed);
  if (text.length > limits.link) throw new Error("It is too large for a link: save it as a file.");
  return `#p1=${text}`;
}

/** The state of a fragment, undefined where it has none. */
export async function stateOfFragment(fragment: string): Promise<State | undefined> {
  const [, kind, text] = /^#(p1|try)=([A-Za-z0-9_-]+)$/.exec(fragment) ?? [];
  if (!text) {
    if (/^#p\d+=/.test(fragment)) throw new Error("it is of another version, or damaged");
    return undefined;
  }
  if (text.length > (kind === "try" ? limits.file : limits.link)) throw new Error("it is too large");
  if (kind === "try") return tried(JSON.parse(new TextDecoder().decode(fromBase64(text))));
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return checked(JSON.parse(new TextDecoder().decode(await within(stream, limits.unpacked))));
}

/** What the scenario calls the metrics of a spec, and whether the first is a share of requests. */
function metricsOf(spec: Spec): { names: string[]; share: boolean } {
  const names = (spec.metrics ?? []).map((m) => (m.resource?.name ?? m.containerResource?.name ?? (m.pods ?? m.object ?? m.external)?.metric?.name ?? "") as string).filter((n) => typeof n === "string" && n !== "");
  const first = spec.metrics?.[0];
  return { names: names.length ? [...new Set(names)] : ["cpu"], share: names.length === 0 || (first?.resource ?? first?.containerResource)?.target?.averageUtilization !== undefined };
}

/** What another view wants tried: a spec, and the load that was recorded. */
function tried(from: { title?: unknown; lesson?: unknown; spec?: Spec; load?: unknown; replicas?: unknown }): State {
  const state = structuredClone(empty);
  if (typeof from.lesson === "string") state.lesson = from.lesson.slice(0, 1000);
  if (typeof from.title === "string") state.title = from.title.slice(0, 100);
  if (from.spec && typeof from.spec === "object") {
    const text = manifestOf(from.spec);
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
  if (Array.isArray(from.load) && from.load.length > 1) {
    const rows = (from.load as unknown[]).slice(0, 100_000).filter((r): r is [number, number] => Array.isArray(r) && Number.isFinite(r[0]) && Number.isFinite(r[1]));
    const first = rows[0]?.[0] ?? 0;
    state.load = [{ kind: "file", values: { scale: "1" }, name: "recorded", content: rows.map(([t, y]) => `${(t - first) / 1000},${Math.max(0, y)}`).join("\n") }];
    state.duration = `${Math.max(60, Math.round(((rows.at(-1)?.[0] ?? 0) - first) / 1000))}s`;
  }
  return checked(state);
}

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

/** A spec as a manifest. */
function manifestOf(spec: Spec): string {
  return ["apiVersion: autoscaling/v2", "kind: HorizontalPodAutoscaler", "metadata: {name: tried}", "spec:", ...linesOf(spec, "  "), ""].join("\n");
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
  noise: "0.05",
  seed: "1",
  load: [
    { kind: "daily", values: { low: "40", high: "400", peak: "14:00", weekend: "1" } },
    { kind: "flashCrowd", values: { height: "900", at: "19h", rise: "1m", halfLife: "10m" } },
  ],
  workload: { cpu: "500m", cpuLimit: "1", perLoad: "10m", idle: "20m", startup: "30s", startupP95: "60s" },
  events: [],
};
