// The playground: specs, a load and a workload on one side, the results on the other. The engine
// is Setpoint's own, in the browser: nothing typed here leaves it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Curve } from "./curve";
import { Editor, type Mark } from "./editor";
import { type Answer, Engine, EngineError, type Finding, type Problem, type Run } from "./engine";
import { LoadPlot, MetricsPlot, QueuePlot, ReplicasPlot } from "./plots";
import { presets } from "./presets";
import { checked, filesOf, fragmentOf, happenings, type Happening, hoursOf, type Part, scenarioOf, shapes, type State, stateOfFragment, workloadFields } from "./state";

const names = ["A", "B"];
const profiles = ["", "v1.37", "v1.36", "v1.28", "v1.19", "v1.15", "cooldown", "design-2015"];
const typing = 250; // ms after the last key

interface Shown {
  spec: number;
  step: number;
  summary: string;
  text: string;
}

export function PlaygroundView(props: { alone?: boolean }) {
  const [state, setState] = useState<State>(() => structuredClone(presets[0]!));
  const [read, setRead] = useState(false);
  const [notice, setNotice] = useState("");
  const [tab, setTab] = useState(0);
  const [answer, setAnswer] = useState<Answer>({});
  const [run, setRun] = useState<Run | undefined>(undefined);
  const [findings, setFindings] = useState<Finding[]>([]);
  const [took, setTook] = useState<number | undefined>(undefined);
  const [busy, setBusy] = useState(true);
  const [failure, setFailure] = useState("");
  const [shown, setShown] = useState<Shown | undefined>(undefined);
  const engine = useRef<Engine | undefined>(undefined);
  engine.current ??= new Engine(props.alone ?? false);
  const change = (part: Partial<State>) => setState((s) => ({ ...s, ...part }));

  useEffect(() => () => engine.current?.stop(), []);
  useEffect(() => {
    const load = () =>
      stateOfFragment(location.hash).then(
        (s) => {
          if (s) {
            setState(s);
            setTab(0);
          }
          setRead(true);
        },
        (e: Error) => {
          setNotice(`The link can't be read: ${e.message}.`);
          setRead(true);
        },
      );
    void load();
    window.addEventListener("hashchange", load);
    return () => window.removeEventListener("hashchange", load);
  }, []);

  const question = useMemo(
    () => ({ scenario: scenarioOf(state), files: filesOf(state), profile: state.profile, specs: state.specs.map((text, i) => ({ name: names[i]!, text })) }),
    [state],
  );

  useEffect(() => {
    if (!read) return;
    let gone = false;
    setBusy(true);
    const timer = setTimeout(() => {
      const begun = performance.now();
      engine
        .current!.askInstead({ ask: "simulate", ...question })
        .then(async (a) => {
          if (gone) return;
          setTook(performance.now() - begun);
          setAnswer(a);
          if (a.run) setRun(a.run);
          setShown(undefined);
          setBusy(false);
          const lint = await engine.current!.ask({ ask: "lint", specs: question.specs, profile: question.profile });
          if (!gone) setFindings(lint.findings ?? []);
        })
        .catch((e: EngineError) => {
          if (gone || e.superseded) return;
          setBusy(false);
          setFailure(e.message);
        });
    }, typing);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [question, read]);

  const explain = (spec: number, step: number) => {
    engine
      .current!.ask({ ask: "step", ...question, spec, step })
      .then((a) => a.step && setShown({ spec, step, ...a.step }))
      .catch(() => undefined);
  };
  const save = (kind: "hpa" | "autoscaler" | "k6") => {
    const at = kind === "k6" ? question : { ...question, specs: [question.specs[tab]!] };
    engine
      .current!.ask({ ask: kind, ...at })
      .then((a) => {
        if (a.export) download(a.export, kind === "k6" ? "load.k6.js" : `${kind}.yaml`);
        else setNotice(`It can't be exported: ${a.problems?.[0]?.text ?? "there is a problem"}`);
      })
      .catch(() => undefined);
  };
  const share = async () => {
    try {
      const fragment = await fragmentOf(state);
      history.replaceState(null, "", fragment);
      await navigator.clipboard?.writeText(location.href).catch(() => undefined);
      setNotice("The link is in the address bar and on the clipboard. What you typed is in it, and no server sees it.");
    } catch (e) {
      setNotice((e as Error).message);
    }
  };
  const open = async (file: File | undefined) => {
    if (!file) return;
    try {
      if (file.size > 5_000_000) throw new Error("it is too large");
      setState(checked(JSON.parse(await file.text())));
      setNotice("");
    } catch (e) {
      setNotice(`The file can't be read: ${(e as Error).message}.`);
    }
  };

  const problems = answer.problems ?? [];
  const outside = problems.filter((p) => !state.specs.some((_, i) => p.in === names[i]));
  const marksOf = (i: number): Mark[] => [
    ...problems.filter((p) => p.in === names[i]).map((p): Mark => ({ line: p.line ?? 1, severity: "error", text: p.path ? `${p.path}: ${p.text}` : p.text })),
    ...findings
      .filter((f) => f.file === names[i] && problems.length === 0)
      .map((f): Mark => ({ line: f.line ?? 1, severity: f.severity === "note" ? "info" : f.severity, text: `${f.message}\n${f.arithmetic}` })),
  ];
  const marks = useMemo(() => state.specs.map((_, i) => marksOf(i)), [answer, findings, state.specs.length]);

  if (failure) return <NoEngine reason={failure} />;
  return (
    <div class="pg">
      <div class="pg-head">
        <h1 class={props.alone ? "visually-hidden" : ""}>Playground</h1>
        <label class="pg-preset">
          <span class="visually-hidden">Example</span>
          <select
            value={presets.findIndex((p) => p.title === state.title)}
            onChange={(e) => {
              const chosen = presets[Number(e.currentTarget.value)];
              if (chosen) {
                setState(structuredClone(chosen));
                setTab(0);
                setNotice("");
              }
            }}
          >
            <option value="-1">Your own</option>
            {presets.map((p, i) => (
              <option key={p.title} value={i}>
                {p.title}
              </option>
            ))}
          </select>
        </label>
        <span class="pg-status" role="status">
          {busy ? "Running…" : problems.length > 0 ? `${problems.length} ${problems.length === 1 ? "problem" : "problems"}` : run && took !== undefined ? `${run.steps.toLocaleString()} evaluations × ${run.runs.length} in ${took < 1000 ? `${Math.round(took)} ms` : `${(took / 1000).toFixed(1)} s`}` : ""}
        </span>
        <div class="pg-actions">
          <button class="button primary" onClick={() => void share()}>
            Share link
          </button>
          <button class="button" onClick={() => download(JSON.stringify(state, null, 1), "playground.json")}>
            Save
          </button>
          <label class="button">
            Open
            <input class="visually-hidden" type="file" accept="application/json,.json" aria-label="Open a file" onChange={(e) => void open(e.currentTarget.files?.[0])} />
          </label>
          <select aria-label="Export" value="" onChange={(e) => { const kind = e.currentTarget.value; e.currentTarget.value = ""; if (kind) save(kind as "hpa"); }}>
            <option value="">Export…</option>
            <option value="hpa">Spec {names[tab]} as HorizontalPodAutoscaler</option>
            <option value="autoscaler">Spec {names[tab]} as Autoscaler</option>
            <option value="k6">Load as a k6 script</option>
          </select>
        </div>
      </div>
      {state.lesson && <p class="pg-lesson">{state.lesson}</p>}
      {notice && (
        <p class="pg-notice" role="alert">
          {notice} <button class="button quiet" aria-label="Dismiss" onClick={() => setNotice("")}>×</button>
        </p>
      )}
      <div class="pg-columns">
        <div class="pg-inputs">
          <section class="pg-card" aria-label="Specs">
            <div class="pg-tabs">
              <div role="tablist" aria-label="Specs">
                {state.specs.map((_, i) => (
                  <button key={i} role="tab" id={`pg-tab-${i}`} aria-selected={tab === i} aria-controls="pg-spec" class={`pg-tab s${i}`} onClick={() => setTab(i)}>
                    Spec {names[i]}
                    {marks[i]?.some((m) => m.severity === "error") && <span class="pg-bad" title="has problems"> !</span>}
                  </button>
                ))}
              </div>
              {state.specs.length < 2 ? (
                <button class="button quiet" onClick={() => { change({ specs: [...state.specs, state.specs[0]!] }); setTab(1); }}>
                  + Compare with another
                </button>
              ) : (
                <button class="button quiet" onClick={() => { change({ specs: state.specs.filter((_, i) => i !== tab) }); setTab(0); }}>
                  Remove {names[tab]}
                </button>
              )}
              <select aria-label="Decide as" title="The controller whose rules hold" value={state.profile} onChange={(e) => change({ profile: e.currentTarget.value })}>
                {profiles.map((p) => (
                  <option key={p} value={p}>
                    {p || "default rules"}
                  </option>
                ))}
              </select>
            </div>
            <div id="pg-spec" role="tabpanel" aria-labelledby={`pg-tab-${tab}`}>
              <Editor key={tab} completes label={`Spec ${names[tab]}, YAML`} value={state.specs[tab] ?? ""} marks={marks[tab] ?? []} onChange={(text) => setState((s) => ({ ...s, specs: s.specs.map((t, i) => (i === tab ? text : t)) }))} />
            </div>
            <Problems problems={problems.filter((p) => p.in === names[tab])} />
            {problems.length === 0 && <Findings findings={findings.filter((f) => f.file === names[tab])} />}
          </section>
          <World state={state} change={change} problems={outside} say={setNotice} />
        </div>
        <div class={busy ? "pg-results pg-stale" : "pg-results"} aria-busy={busy}>
          {run ? <Results run={run} shown={shown} explain={explain} close={() => setShown(undefined)} /> : <div class="loading" role="status" aria-label="Loading the engine" />}
        </div>
      </div>
    </div>
  );
}

function download(text: string, name: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function NoEngine(props: { reason: string }) {
  const absent = props.reason.includes("absent") || props.reason.includes("wasm_exec") || props.reason.includes("importScripts");
  return (
    <div class="empty" role="alert">
      <h2>The playground's engine is not here</h2>
      {absent ? (
        <p>
          This program was built without it. <code>make build</code> and the released images have it; so has <code>setpoint simulate</code> on the command line.
        </p>
      ) : (
        <p>It could not be started: {props.reason}. Load the page again; the browser must run WebAssembly.</p>
      )}
    </div>
  );
}

function Problems(props: { problems: Problem[] }) {
  if (props.problems.length === 0) return null;
  return (
    <ul class="pg-problems">
      {props.problems.slice(0, 8).map((p, i) => (
        <li key={i}>
          {p.line ? <b>line {p.line}: </b> : null}
          {p.path ? <code>{p.path}</code> : null} {p.text}
        </li>
      ))}
    </ul>
  );
}

function Findings(props: { findings: Finding[] }) {
  if (props.findings.length === 0) return null;
  return (
    <ul class="pg-findings" aria-label="What is likely to surprise">
      {props.findings.map((f, i) => (
        <li key={i} class={f.severity}>
          <b>{f.severity}</b> {f.message} <span class="pg-hint">{f.arithmetic}</span>
        </li>
      ))}
    </ul>
  );
}

function Field(props: { label: string; hint?: string; value: string; onChange: (v: string) => void }) {
  return (
    <label class="pg-field" title={props.hint}>
      <span>{props.label}</span>
      <input value={props.value} spellcheck={false} autocomplete="off" onInput={(e) => props.onChange(e.currentTarget.value)} />
    </label>
  );
}

function World(props: { state: State; change: (s: Partial<State>) => void; problems: Problem[]; say: (text: string) => void }) {
  const { state, change } = props;
  const marks = useMemo((): Mark[] => props.problems.filter((p) => p.in === "scenario").map((p) => ({ line: p.line ?? 1, severity: "error", text: p.path ? `${p.path}: ${p.text}` : p.text })), [props.problems]);
  const part = (i: number, p: Partial<Part>) => change({ load: state.load.map((l, k) => (k === i ? { ...l, ...p } : l)) });
  const event = (i: number, e: Partial<Happening>) => change({ events: state.events.map((l, k) => (k === i ? { ...l, ...e } : l)) });
  if (state.text !== undefined) {
    return (
      <section class="pg-card" aria-label="Scenario">
        <div class="pg-tabs">
          <h2>Scenario</h2>
          <button class="button quiet" onClick={() => change({ text: undefined })}>
            Back to the form
          </button>
        </div>
        <Editor label="Scenario, YAML" value={state.text} marks={marks} onChange={(text) => change({ text })} />
        <Problems problems={props.problems} />
      </section>
    );
  }
  return (
    <>
      <section class="pg-card" aria-label="Load">
        <div class="pg-tabs">
          <h2>Load</h2>
          <button class="button quiet" onClick={() => change({ text: scenarioOf(state) })} title="The whole scenario as text, with all that setpoint simulate knows">
            Edit as text
          </button>
        </div>
        {state.load.map((p, i) => (
          <div key={i} class="pg-part">
            <div class="pg-row">
              <select aria-label={`Shape of part ${i + 1}`} value={p.kind} onChange={(e) => change({ load: state.load.map((l, k) => (k === i ? newPart(e.currentTarget.value as Part["kind"], hoursOf(state.duration)) : l)) })}>
                {Object.entries(shapes).map(([kind, s]) => (
                  <option key={kind} value={kind}>
                    {s.label}
                  </option>
                ))}
              </select>
              {state.load.length > 1 && (
                <button class="button quiet" aria-label={`Remove part ${i + 1}`} onClick={() => change({ load: state.load.filter((_, k) => k !== i) })}>
                  ×
                </button>
              )}
            </div>
            {p.kind === "drawn" && <Curve points={p.points ?? []} hours={hoursOf(state.duration)} onChange={(points) => part(i, { points })} />}
            {p.kind === "file" && (
              <label class="pg-file">
                <span>{p.content ? `${p.name ?? "file"}, ${Math.ceil(p.content.length / 1024)} KiB` : "CSV of time and value, or Prometheus' answer to a range query"}</span>
                <input
                  type="file"
                  accept=".csv,.json,text/csv,application/json"
                  onChange={(e) => {
                    const file = e.currentTarget.files?.[0];
                    if (file && file.size > 4_000_000) props.say(`${file.name.slice(0, 200)} is too large: ${Math.ceil(file.size / 1e6)} MB, at most 4 MB. setpoint simulate reads files of up to 64 MiB.`);
                    else if (file) void file.text().then((content) => part(i, { name: file.name.slice(0, 200), content }));
                  }}
                />
              </label>
            )}
            <div class="pg-fields">
              {Object.entries(shapes[p.kind].values).map(([key, [label]]) => (
                <Field key={key} label={label} value={p.values[key] ?? ""} onChange={(v) => part(i, { values: { ...p.values, [key]: v } })} />
              ))}
            </div>
          </div>
        ))}
        <div class="pg-row">
          <button class="button" disabled={state.load.length >= 20} onClick={() => change({ load: [...state.load, newPart("spike", hoursOf(state.duration))] })}>
            Add a part
          </button>
        </div>
        <div class="pg-fields">
          <Field label="Duration" hint="such as 24h, at most 366 days" value={state.duration} onChange={(duration) => change({ duration })} />
          <Field label="Noise" hint="coefficient of variation, 0 to 1, drawn again each minute" value={state.noise} onChange={(noise) => change({ noise })} />
          <Field label="Seed" hint="of the random draws" value={state.seed} onChange={(seed) => change({ seed })} />
        </div>
        <Problems problems={props.problems} />
      </section>
      <section class="pg-card" aria-label="Workload">
        <h2>Workload</h2>
        <div class="pg-fields">
          {Object.entries(workloadFields).map(([key, [label, hint]]) => (
            <Field key={key} label={label} hint={hint} value={state.workload[key] ?? ""} onChange={(v) => change({ workload: { ...state.workload, [key]: v } })} />
          ))}
        </div>
      </section>
      <section class="pg-card" aria-label="Events">
        <div class="pg-tabs">
          <h2>Events</h2>
          <button class="button quiet" disabled={state.events.length >= 50} onClick={() => change({ events: [...state.events, { kind: "kill", at: "2h", for: "5m", value: "3" }] })}>
            + Add one
          </button>
        </div>
        {state.events.length === 0 && <p class="pg-hint">Nothing goes wrong.</p>}
        {state.events.map((e, i) => (
          <div key={i} class="pg-row">
            <select aria-label={`Event ${i + 1}`} value={e.kind} onChange={(x) => event(i, { kind: x.currentTarget.value as Happening["kind"] })}>
              {Object.entries(happenings).map(([kind, h]) => (
                <option key={kind} value={kind}>
                  {h.label}
                </option>
              ))}
            </select>
            <input aria-label="At" title="at" value={e.at} onInput={(x) => event(i, { at: x.currentTarget.value })} />
            {happenings[e.kind].lasts && <input aria-label="For" title="for" value={e.for} onInput={(x) => event(i, { for: x.currentTarget.value })} />}
            {happenings[e.kind].value && <input aria-label={happenings[e.kind].value} title={happenings[e.kind].value} value={e.value} onInput={(x) => event(i, { value: x.currentTarget.value })} />}
            <button class="button quiet" aria-label={`Remove event ${i + 1}`} onClick={() => change({ events: state.events.filter((_, k) => k !== i) })}>
              ×
            </button>
          </div>
        ))}
      </section>
    </>
  );
}

function newPart(kind: Part["kind"], hours: number): Part {
  const values = Object.fromEntries(Object.entries(shapes[kind].values).map(([k, [, v]]) => [k, v]));
  if (kind !== "drawn") return { kind, values };
  return { kind, values, points: [0, 0.25, 0.45, 0.6, 0.75, 1].map((f, i): [number, number] => [Number((f * hours).toFixed(3)), [40, 60, 280, 220, 120, 50][i]!]) };
}

function Results(props: { run: Run; shown: Shown | undefined; explain: (spec: number, step: number) => void; close: () => void }) {
  const { run } = props;
  const top = useMemo(() => Math.max(4, ...run.runs.flatMap((r) => [...r.replicas, ...r.ready])) * 1.1, [run]);
  const format = useMemo(() => {
    const f = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZone: run.zone, ...(run.seconds > 86400 ? { weekday: "short" } : {}) });
    return (at: number) => f.format(new Date((run.start + at) * 1000));
  }, [run]);
  return (
    <>
      <section class="pg-card" aria-label="Figures">
        <div class="pg-scroll" tabIndex={0} role="region" aria-label="Figures side by side">
          <table class="pg-figures">
            <thead>
              <tr>
                <th scope="col">Figure</th>
                {run.runs.map((r, i) => (
                  <th key={r.name} scope="col" class={`s${i}`}>
                    Spec {r.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {run.rows.map((row) => (
                <tr key={row.name} class={row.name.startsWith("decided by") ? "pg-minor" : ""}>
                  <th scope="row">{row.name.trim()}</th>
                  {row.values.map((v, i) => (
                    <td key={i} class={row.best?.includes(i) ? "pg-best" : ""}>
                      {v}
                      {row.best?.includes(i) && <span class="pg-better"> ✓<span class="visually-hidden"> better</span></span>}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section class="pg-card" aria-label="Load over time">
        <h2>Load</h2>
        <LoadPlot run={run} />
      </section>
      {run.runs.map((one, i) => (
        <section key={one.name} class="pg-card" aria-label={`Replicas of spec ${one.name}`}>
          <h2 class={`s${i}`}>
            Replicas, spec {one.name} <span class="pg-hint">click on the picture: why it is so</span>
          </h2>
          <ReplicasPlot run={run} one={one} index={i} top={top} onStep={(step) => props.explain(i, step)} />
          {props.shown?.spec === i && (
            <div class="pg-story" role="region" aria-label="The step, explained" tabIndex={-1} ref={(el) => el?.focus({ preventScroll: true })}>
              <div class="pg-tabs">
                <h3>Why, at {format(Math.min(run.seconds, (props.shown.step / run.steps) * run.seconds))}</h3>
                <button class="button quiet" onClick={() => props.explain(i, Math.max(0, props.shown!.step - 1))} aria-label="The step before">
                  ‹
                </button>
                <button class="button quiet" onClick={() => props.explain(i, Math.min(run.steps - 1, props.shown!.step + 1))} aria-label="The next step">
                  ›
                </button>
                <button class="button quiet" onClick={props.close} aria-label="Close">
                  ×
                </button>
              </div>
              <pre tabIndex={0}>{props.shown.text}</pre>
            </div>
          )}
          <details class="pg-changes">
            <summary>
              {one.actions.length} {one.actions.length === 1 ? "change" : "changes"}
            </summary>
            <ol>
              {one.actions.slice(0, 200).map((a) => (
                <li key={a.step}>
                  <button class="pg-change" onClick={() => props.explain(i, a.step)}>
                    <span class="mono">{format(a.at)}</span>
                    <b class={a.to > a.from ? "up" : "down"}>
                      {a.to > a.from ? "▲" : "▼"} {a.from} → {a.to}
                    </b>
                    <span>{a.cause}</span>
                  </button>
                </li>
              ))}
            </ol>
            {one.actions.length > 200 && <p class="pg-hint">and {one.actions.length - 200} more</p>}
          </details>
        </section>
      ))}
      <section class="pg-card" aria-label="Metrics">
        <h2>
          Metrics <span class="pg-hint">usage over target, as the engine reads it</span>
        </h2>
        <MetricsPlot run={run} />
      </section>
      {run.runs.some((r) => r.queued && r.queued.length > 0) && (
        <section class="pg-card" aria-label="Waiting">
          <h2>Waiting</h2>
          <QueuePlot run={run} />
        </section>
      )}
    </>
  );
}

