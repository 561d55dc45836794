// The stored spec, with defaults for absent fields.

import type { Spec, TargetSpec } from "../api/types";
import { At } from "../components/time";
import { Copyable } from "../components/copy";
import { millis } from "../lib/format";
import { wanted } from "../lib/metrics";
import { rules } from "../lib/next";

interface Line {
  key: string;
  value: string;
  isDefault: boolean;
}

/** A spec as lines, each said or a default. */
export function lines(spec: Spec, options: Record<string, unknown> | undefined): Line[] {
  const out: Line[] = [
    { key: "minReplicas", value: String(spec.minReplicas ?? 1), isDefault: spec.minReplicas === undefined || spec.minReplicas === null },
    { key: "maxReplicas", value: String(spec.maxReplicas ?? ""), isDefault: false },
  ];
  const metrics = spec.metrics?.length ? spec.metrics : undefined;
  for (const m of metrics ?? []) {
    const w = wanted(m);
    out.push({ key: `${w.type} ${w.name}`, value: w.text, isDefault: false });
  }
  if (!metrics) out.push({ key: "Resource cpu", value: "80 %", isDefault: true });
  for (const way of ["Up", "Down"] as const) {
    const lower = way === "Up" ? "up" : "down";
    const own = way === "Up" ? spec.behavior?.scaleUp : spec.behavior?.scaleDown;
    const r = rules(spec, lower);
    if (!r) {
      out.push({ key: `scale${way}`, value: way === "Up" ? "at most twice, or 4" : "highest of the last 300 s", isDefault: true });
      continue;
    }
    out.push({ key: `scale${way} window`, value: `${r.stabilizationWindowSeconds} s`, isDefault: own?.stabilizationWindowSeconds === undefined || own.stabilizationWindowSeconds === null });
    if (r.selectPolicy === "Disabled") {
      out.push({ key: `scale${way} policy`, value: "Disabled", isDefault: false });
      continue;
    }
    const given = Boolean(own?.policies?.length);
    const each = r.policies.map((p) => `${p.value}${p.type === "Percent" ? " %" : ""} per ${p.periodSeconds} s`);
    const text = each.length > 1 ? `the ${r.selectPolicy === "Min" ? "least" : "most"} of ${each.join(", ")}` : each[0]!;
    out.push({ key: `scale${way} policy`, value: text, isDefault: !given });
    out.push({ key: `scale${way} tolerance`, value: own?.tolerance ?? "0.1", isDefault: !own?.tolerance });
  }
  for (const [key, value] of Object.entries(options ?? {})) {
    if (value !== "" && value !== null && typeof value !== "object") out.push({ key, value: String(value), isDefault: false });
  }
  return out;
}

export function SpecCard(props: { spec: TargetSpec | null | undefined; name: string }) {
  const { spec, name } = props;
  if (spec === undefined) return null;
  if (spec === null || !spec.spec) {
    return (
      <section class="card spec">
        <header><h2>Spec</h2></header>
        <p class="muted">None is stored: callers send the spec with each request. Store it, and this page shows the metrics' targets and the policies, too:</p>
        <Copyable text={`setpoint specs set ${name} -f hpa.yaml`} label="A command to copy" />
      </section>
    );
  }
  return (
    <section class="card spec">
      <header><h2>Spec</h2><span class="faint small">stored <At time={millis(spec.updateTime)} />{spec.updatedBy ? ` by ${spec.updatedBy}` : ""}</span></header>
      <dl>
        {lines(spec.spec, spec.options).map((l, i) => (
          <div key={i} class={l.isDefault ? "by-default" : ""}>
            <dt>{l.key}</dt>
            <dd>{l.value}{l.isDefault && <span class="tag">default</span>}</dd>
          </div>
        ))}
      </dl>
      <details>
        <summary>As JSON</summary>
        <Copyable text={JSON.stringify(spec.spec, null, 2)} label="The spec as JSON" />
      </details>
    </section>
  );
}
