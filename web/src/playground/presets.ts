// Worlds that each show one surprising behavior.

import { empty, hpa, ownZone, type Part, type State } from "./state";

const with_ = (title: string, lesson: string, change: Partial<State>): State => ({ ...structuredClone(empty), title, lesson, ...change });

const behavior = (text: string): string => `${hpa}  behavior:\n${text}`;

export const presets: State[] = [
  with_("A day in a shop", "A flash crowd comes in the evening. The careful spec keeps more pods, goes down slowly, and is short of capacity for less time: compare what each costs.", {
    workload: { ...empty.workload, cpuLimit: "600m" },
    specs: [
      hpa,
      behavior("    scaleDown:\n      stabilizationWindowSeconds: 600\n      policies: [{type: Percent, value: 10, periodSeconds: 60}]\n")
        .replace("averageUtilization: 60", "averageUtilization: 45")
        .replace("minReplicas: 2", "minReplicas: 3"),
    ],
  }),
  with_("Slow start-up", "Pods take five minutes to be ready, load doubles in two. No autoscaler is fast enough then: only a lower target, or more replicas at least, leave room.", {
    duration: "6h",
    noise: "0.03",
    load: [
      { kind: "constant", values: { value: "100" } },
      { kind: "ramp", values: { from: "0", to: "300", at: "2h", for: "2m" } },
    ],
    workload: { ...empty.workload, startup: "300s", startupP95: "" },
    specs: [hpa, hpa.replace("averageUtilization: 60", "averageUtilization: 25")],
  }),
  with_("Flapping", "Load swings faster than pods come and go. Without a window downwards the count follows each swing; with the usual five minutes it stays.", {
    duration: "3h",
    noise: "0.1",
    load: [{ kind: "onOff", values: { low: "60", high: "240", on: "2m", off: "3m" } }],
    specs: [behavior("    scaleDown:\n      stabilizationWindowSeconds: 0\n"), hpa],
  }),
  with_("80 → 72 → 64 …", "Kubernetes' own example of a policy: at most 10 % of the pods go every minute. Click on the marks of the count: each step is 10 % of what was there, rounded up.", {
    duration: "2h",
    noise: "0",
    load: [{ kind: "step", values: { from: "2400", to: "100", at: "30m" } }],
    workload: { ...empty.workload, replicas: "80", startupP95: "" },
    specs: [behavior("    scaleDown:\n      stabilizationWindowSeconds: 0\n      policies: [{type: Percent, value: 10, periodSeconds: 60}]\n").replace("maxReplicas: 50", "maxReplicas: 80")],
  }),
  with_("Missing metrics", "The metrics pipeline is away for ten minutes while load rises. The count is held, not lowered: a metric that fails never scales down. A step in there says so.", {
    duration: "4h",
    load: [{ kind: "ramp", values: { from: "100", to: "500", at: "1h", for: "1h" } }],
    events: [{ kind: "gone", at: "80m", for: "10m", value: "" }],
  }),
  with_("CPU at start", "Each pod uses much CPU while it starts. Readiness and the CPU initialization period keep most of that out of the average; after it, too many pods are asked for.", {
    duration: "4h",
    noise: "0.02",
    load: [{ kind: "step", values: { from: "100", to: "300", at: "1h" } }],
    workload: { ...empty.workload, startup: "20s", startupP95: "", warmup: "240s", warmupCpu: "600m" },
  }),
  with_("Two replicas, never one", "From two replicas one is reached only when all load fits under the target on one pod, with tolerance.", {
    duration: "6h",
    noise: "0.02",
    load: [{ kind: "ramp", values: { from: "60", to: "20", at: "1h", for: "4h" } }],
    specs: [hpa.replace("minReplicas: 2", "minReplicas: 1").replace("averageUtilization: 60", "averageUtilization: 50")],
  }),
  with_("Room for nodes", "Beyond twenty pods each waits three minutes for a node. Scaling up looks fast, capacity comes late: watch ready run behind the count.", {
    duration: "4h",
    load: [
      { kind: "constant", values: { value: "300" } },
      { kind: "spike", values: { height: "900", at: "1h", for: "1h" } },
    ],
    workload: { ...empty.workload, slots: "20", nodeDelay: "180s" },
  }),
  with_("A fleet that loses a cluster", "Three clusters share the load, and one of them is down for 15 minutes while the load rises. hold keeps its share, as if it served on; shift gives it to the others once it is lost; surviveOne has paid for a loss before. Try calls: gone in place of cluster: down.", {
    specs: [hpa.replace("minReplicas: 2", "minReplicas: 3").replace("averageUtilization: 60", "averageUtilization: 70")],
    text: `duration: 45m
load:
  - points: [{at: 0s, value: 420}, {at: 12m, value: 420}, {at: 15m, value: 560}]
workload:
  replicas: 12
  requests: {cpu: "1"}
  limits: {cpu: "1"}
  startup: 45s
  usage:
    - {metric: cpu, perLoad: 20m}
fleet:
  rules: [hold, shift, surviveOne]
  members:
    - {name: east}
    - {name: north, startup: 90s}
    - {name: west}
events:
  - {at: 10m, member: west, cluster: down, for: 15m}
`,
  }),
];

const isPreset = (s: State): boolean => presets.some((p) => p.title === s.title);

/** A state after a change by hand. What a preset tells is true of the preset alone, and what another view tells of a load, of that load. */
export function edited(s: State, part: Partial<State>): State {
  const own = isPreset(s) ? { title: "", lesson: "" } : "load" in part ? { lesson: "" } : {};
  return { ...s, ...own, ...part };
}

/** A state after a spec has another text. If one's own spec takes the place of a preset's, what the preset compares it with goes, too. */
export function withSpec(s: State, i: number, text: string): State {
  const was = s.specs[i] ?? "";
  let head = 0, tail = 0;
  while (head < was.length && was[head] === text[head]) head++;
  while (tail < was.length - head && was.at(-1 - tail) === text.at(-1 - tail)) tail++;
  const replaced = i === 0 && isPreset(s) && (head + tail) * 2 < was.length;
  return edited(s, { specs: replaced ? [text] : s.specs.map((t, k) => (k === i ? text : t)) });
}

/** A state whose part i of the load, or with -1 all of it, is a recording: as it is, at its own time. Of a preset no other load, noise or event stays. */
export function withFile(s: State, i: number, name: string, content: string): State {
  const part: Part = { kind: "file", values: { scale: "1" }, name, content };
  const load = isPreset(s) || i < 0 ? [part] : s.load.map((p, k) => (k === i ? { ...part, values: p.kind === "file" ? p.values : part.values } : p));
  return edited(s, { load, noise: "0", zone: s.zone || ownZone(), ...(load.length === 1 ? { duration: "" } : {}), ...(isPreset(s) ? { events: [] } : {}) });
}
