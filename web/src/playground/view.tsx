// The playground: specs, a load and a workload on one side, the results on the other. The engine
// is Setpoint's own, in the browser: nothing typed here leaves it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { Copyable } from "../components/copy";
import { timeOfDay } from "../lib/clock";
import { bytes, compact, count, integer } from "../lib/format";
import { copy } from "../lib/copy";
import { save as saveFile } from "../lib/save";
import { Curve } from "./curve";
import { difference, hunks } from "./diff";
import { lazy } from "../components/lazy";
import type { Mark } from "./editor";
import { type Answer, Engine, EngineError, type Finding, type Problem, type Run, titleOf } from "./engine";
import { inTurn } from "../lib/turns";
import { type Layer, layers, LoadPlot, MetricsPlot, QueuePlot, ReplicasPlot } from "./plots";
import { edited, presets, withFile, withSpec } from "./presets";
import { recordedOf } from "./recorded";
import { shared, stateOfFragment } from "./share";
import { checked, filesOf, happenings, type Happening, hoursOf, isUsage, type Part, scenarioOf, shapes, shortened, type State, withUnit, workloadFields } from "./state";

/** Most of the playground's bytes; the rest is there before. */
const Editor = lazy(() => import("./editor").then((m) => m.Editor));

const names = ["A", "B"];
const profiles = ["", "v1.37", "v1.36", "v1.28", "v1.19", "v1.15", "cooldown", "design-2015"];
const typing = 250; // ms after the last key

/** What can be exported, and as what file. */
const exports = {
  png: ["Picture, PNG", "simulation.png"],
  svg: ["Picture, SVG", "simulation.svg"],
  csv: ["Every evaluation, CSV", "simulation.csv"],
  json: ["Every evaluation and the figures, JSON lines", "simulation.jsonl"],
  patch: ["Spec as a kubectl patch", ""],
  hpa: ["Spec as HorizontalPodAutoscaler", "hpa.yaml"],
  autoscaler: ["Spec as Autoscaler", "autoscaler.yaml"],
  k6: ["Load as a k6 script", "load.k6.js"],
} as const;
type Export = keyof typeof exports;

interface Shown {
  spec: number;
  step: number;
  /** s since the start. */
  at: number;
  summary: string;
  text: string;
}

export function PlaygroundView() {
  const [state, setState] = useState<State>(() => structuredClone(presets[0]!));
  const [read, setRead] = useState(false);
  // What is said of a state is said no longer than that is there.
  const [said, setSaid] = useState<{ text: string; of: State } | undefined>(undefined);
  const current = useRef(state);
  current.current = state;
  const setNotice = (text: string, of = current.current) => setSaid({ text, of });
  const [command, setCommand] = useState("");
  const [tab, setTab] = useState(0);
  const [answer, setAnswer] = useState<Answer>({});
  const [run, setRun] = useState<Run | undefined>(undefined);
  const [findings, setFindings] = useState<Finding[]>([]);
  const [took, setTook] = useState<number | undefined>(undefined);
  const [busy, setBusy] = useState(true);
  const [failure, setFailure] = useState("");
  const [shown, setShown] = useState<Shown | undefined>(undefined);
  const engine = useRef<Engine | undefined>(undefined);
  engine.current ??= new Engine();
  const change = (part: Partial<State>) => setState((s) => edited(s, part));
  /** Shows another state. */
  const show = (s: State) => {
    setState(s);
    setTab(0);
  };

  useEffect(() => () => engine.current?.stop(), []);
  useEffect(() => {
    const left = new AbortController();
    const begin = inTurn();
    const load = () => {
      const newest = begin();
      return stateOfFragment(location.hash, (target) => recordedOf(target, engine.current!, (path) => get(path, left.signal))).then(
        (s) => {
          if (!newest()) return; // of a link that was left
          setSaid(undefined);
          if (s) show(s);
          setRead(true);
        },
        (e: Error) => {
          if (!newest()) return;
          setNotice(`The link can't be read: ${e.message.replace(/\.+$/, "")}.`);
          setRead(true);
        },
      );
    };
    void load();
    window.addEventListener("hashchange", load);
    return () => {
      left.abort();
      window.removeEventListener("hashchange", load);
    };
  }, []);

  const question = useMemo(
    () => ({ scenario: scenarioOf(state), files: filesOf(state), recorded: state.recorded?.content ?? "", profile: state.profile, specs: state.specs.map((text, i) => ({ name: names[i]!, text })) }),
    [state],
  );

  useEffect(() => {
    if (!read) return;
    let gone = false;
    let slow: ReturnType<typeof setTimeout> | undefined;
    setBusy(true);
    const timer = setTimeout(() => {
      const begun = performance.now();
      // What was wrong before says nothing about what takes this long. Short runs keep it, so that it does not flicker.
      slow = setTimeout(() => setAnswer({}), 500);
      engine
        .current!.askInstead({ ask: "simulate", ...question })
        .then(async (a) => {
          clearTimeout(slow);
          if (gone) return;
          setTook(performance.now() - begun);
          setAnswer(a);
          if (a.run) setRun(a.run);
          setShown(undefined);
          setBusy(false);
          const lint = await engine.current!.ask({ ask: "lint", specs: question.specs, profile: question.profile, now: new Date().toISOString() });
          if (!gone) setFindings(lint.findings ?? []);
        })
        .catch((e: EngineError) => {
          clearTimeout(slow);
          if (gone || e.superseded) return;
          setBusy(false);
          setFailure(e.message);
        });
    }, typing);
    return () => {
      gone = true;
      clearTimeout(timer);
      clearTimeout(slow);
    };
  }, [question, read]);

  const explain = (spec: number, step: number) => {
    engine
      .current!.ask({ ask: "step", ...question, spec, step })
      .then((a) => a.step && setShown({ spec, step, ...a.step }))
      .catch(() => undefined);
  };
  const save = async (kind: Export) => {
    const ofSpec = kind === "patch" || kind === "hpa" || kind === "autoscaler";
    try {
      const a = await engine.current!.ask({ ask: kind === "png" ? "svg" : kind, ...question, ...(ofSpec ? { specs: [question.specs[tab]!] } : {}) });
      if (!a.export) return setNotice(`It can't be exported: ${a.problems?.[0]?.text ?? "there is a problem"}.`);
      if (kind === "patch") {
        setCommand(a.export.trim());
        await copy(a.export);
      } else if (kind === "png") saveFile(exports.png[1], "image/png", await png(a.export));
      else saveFile(exports[kind][1], "text/plain", a.export);
    } catch (e) {
      if (!(e as EngineError).superseded) setNotice(`It can't be exported: ${(e as Error).message}.`);
    }
  };
  const keep = () => saveFile("playground.json", "text/plain", JSON.stringify(state, null, 1));
  const share = async () => {
    try {
      // Recorded series in their shortest form. What can't be read is told elsewhere, and stays as it is.
      const { files = {} } = await engine.current!.ask({ ask: "files", ...question });
      const link = await shared(shortened(state, files), location.origin.length + location.pathname.length);
      if (link.fragment === undefined) {
        return setNotice(`The data are too large for a link: ${bytes(link.size)}, and chats cut links of more than 4 KiB. Save it as a file and send that: Open reads it.`);
      }
      if (link.digits !== undefined) setState((s) => (s === state ? link.state : s)); // not in place of what was typed meanwhile
      history.replaceState(null, "", link.fragment);
      const copied = await copy(location.href);
      const rounded = link.digits === undefined ? "" : ` So that it is short, recorded values have ${link.digits} digits in it, and now on this page, too.`;
      setNotice(`The link is in the address bar${copied ? " and on the clipboard" : ""}: ${count(link.size, "character")}. It contains everything you typed; no server sees it.${rounded}`, link.digits === undefined ? state : link.state);
    } catch (e) {
      setNotice((e as EngineError).superseded ? "There is no link yet: something was changed while it was made. Share again." : (e as Error).message);
    }
  };
  const open = async (file: File | undefined) => {
    if (!file) return;
    try {
      if (file.size > 5_000_000) throw new Error("it is too large");
      show(checked(json(await file.text())));
    } catch (e) {
      setNotice(`The file can't be read: ${(e as Error).message.replace(/\.+$/, "")}. Open reads what Save has written; a spec belongs into its editor, and a load into Load a file.`);
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
        <h1>Playground</h1>
        <label class="pg-preset">
          <span class="visually-hidden">Example</span>
          <select
            value={presets.findIndex((p) => p.title === state.title)}
            onChange={(e) => {
              const chosen = presets[Number(e.currentTarget.value)];
              if (chosen) show(structuredClone(chosen));
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
          {busy ? "Running…" : problems.length > 0 ? `${problems.length} ${problems.length === 1 ? "problem" : "problems"}` : run && took !== undefined ? `${integer(run.steps)} evaluations × ${run.runs.length} in ${took < 1000 ? `${Math.round(took)} ms` : `${(took / 1000).toFixed(1)} s`}` : ""}
        </span>
        <div class="pg-actions">
          <button class="button primary" onClick={() => void share()}>
            Share link
          </button>
          <button class="button" onClick={keep}>
            Save
          </button>
          <label class="button">
            Open
            <input class="visually-hidden" type="file" accept="application/json,.json" aria-label="Open a file" onChange={(e) => { void open(e.currentTarget.files?.[0]); e.currentTarget.value = ""; }} />
          </label>
          <select aria-label="Export" value="" onChange={(e) => { const kind = e.currentTarget.value; e.currentTarget.value = ""; if (kind) void save(kind as Export); }}>
            <option value="">Export…</option>
            {Object.entries(exports).map(([kind, [label]]) => (
              <option key={kind} value={kind}>{label.replace("Spec", `Spec ${names[tab]}`)}</option>
            ))}
          </select>
        </div>
      </div>
      <p class="pg-lesson" hidden={!state.lesson}>{state.lesson}</p>
      {said?.of === state && (
        <p class="pg-notice" role="alert">
          <span>{said.text}</span> <button class="button quiet" aria-label="Dismiss" onClick={() => setSaid(undefined)}>×</button>
        </p>
      )}
      {command !== "" && (
        <section class="pg-card" aria-label="Command">
          <div class="pg-tabs">
            <h2>Spec {names[tab]} as a kubectl patch <span class="pg-hint">what it scales stays as it is; what the spec leaves out gets the API's default</span></h2>
            <button class="button quiet" aria-label="Close" onClick={() => setCommand("")}>×</button>
          </div>
          <Copyable text={command} label="A command to copy" />
        </section>
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
              <select aria-label="Decide as" title="The version of the controller to decide as" value={state.profile} onChange={(e) => change({ profile: e.currentTarget.value })}>
                {profiles.map((p) => (
                  <option key={p} value={p}>
                    {p || "default rules"}
                  </option>
                ))}
              </select>
            </div>
            <div id="pg-spec" role="tabpanel" aria-labelledby={`pg-tab-${tab}`}>
              <div class="pg-editor-place"><Editor key={tab} completes label={`Spec ${names[tab]}, YAML`} value={state.specs[tab] ?? ""} marks={marks[tab] ?? []} onChange={(text) => setState((s) => withSpec(s, tab, text))} /></div>
            </div>
            <Problems problems={problems.filter((p) => p.in === names[tab])} />
            {problems.length === 0 && <Findings findings={findings.filter((f) => f.file === names[tab])} />}
            {state.specs.length === 2 && <Difference specs={state.specs} />}
          </section>
          <World state={state} change={change} file={(i, name, content) => setState((s) => withFile(s, i, name, content))} asText={() => setState((s) => ({ ...s, text: scenarioOf(s) }))} problems={outside} say={setNotice} />
        </div>
        <div class={busy ? "pg-results pg-stale" : problems.length > 0 ? "pg-results pg-former" : "pg-results"} aria-busy={busy}>
          {!busy && run && problems.length > 0 && <p class="pg-notice">These results are of what was there before the {problems.length === 1 ? "problem" : "problems"}.</p>}
          {run?.unfit && problems.length === 0 && <Unfit of={run.unfit} state={state} choose={(usage) => change({ workload: withUnit(state, usage) })} />}
          {run ? <Results run={run} shown={shown} explain={explain} close={() => setShown(undefined)} /> : problems.length > 0 ? <p class="pg-notice">There are no results before what is wrong is mended.</p> : <div class="loading" role="status" aria-label="Loading the engine" />}
        </div>
      </div>
      <div class="pg-printed">
        {question.specs.map((s) => <pre key={s.name}>{`# Spec ${s.name}\n${s.text}`}</pre>)}
        <pre>{`# Scenario\n${question.scenario}`}</pre>
      </div>
    </div>
  );
}

/** What a text of JSON says; undefined: it is none. */
function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A picture of the engine as PNG, twice as large as it says. */
async function png(svg: string): Promise<Blob> {
  const [, width = "1000", height = "1000"] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg.replace("<svg ", `<svg width="${width}" height="${height}" `))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * Number(width);
  canvas.height = 2 * Number(height);
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((b) => (b ? resolve(b) : reject(new Error("the picture is too large"))), "image/png"));
}

function NoEngine(props: { reason: string }) {
  const absent = props.reason.includes("absent") || props.reason.includes("wasm_exec") || props.reason.includes("importScripts");
  return (
    <div class="empty" role="alert">
      <h2>The playground's engine is missing</h2>
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
    <ul class="pg-findings" aria-label="Findings of lint">
      {props.findings.map((f, i) => (
        <li key={i} class={f.severity}>
          <b>{f.severity}</b> {f.message} <span class="pg-hint">{f.arithmetic}</span>
        </li>
      ))}
    </ul>
  );
}

function Difference(props: { specs: string[] }) {
  const [a = "", b = ""] = props.specs;
  const lines = useMemo(() => difference(a, b), [a, b]);
  const changed = lines.filter((l) => l.of !== undefined).length;
  return (
    <details class="pg-diff">
      <summary>{changed === 0 ? "A and B are the same" : `A and B differ in ${count(changed, "line")}`}</summary>
      {changed > 0 && (
        <pre tabIndex={0} aria-label="Lines of A alone begin with A, of B alone with B">
          {hunks(lines).slice(0, 2000).map((l, i) => (
            <span key={i} class={l?.of === undefined ? "" : `s${l.of}`}>{l ? `${l.of === undefined ? " " : names[l.of]} ${l.text}\n` : "⋯\n"}</span>
          ))}
        </pre>
      )}
    </details>
  );
}

/** That the recorded load does not fit the spec, and the choice of what it holds. */
function Unfit(props: { of: NonNullable<Run["unfit"]>; state: State; choose: (usage: boolean) => void }) {
  const { of, state } = props;
  const usage = isUsage(state);
  const asked = `${compact(of.replicas)} ${of.replicas === 1 ? "replica" : "replicas"} at the target`;
  return (
    <div class="pg-unfit" role="alert">
      <p>
        <b>Does the file have another unit?</b>{" "}
        {of.few ? `Its highest load, ${compact(of.load)}, asks for ${asked}: never more than the minimum, ${of.bound}.` : `Half of the time its load, ${compact(of.load)} and more, asks for ${asked} or more; the maximum is ${of.bound}.`}{" "}
        {state.text === undefined && (usage ? "It is taken for usage of the metric: cores, bytes or items." : `It is taken for load, such as requests a second, of which one uses ${state.workload.perLoad || "10m"} of the metric.`)}
      </p>
      {state.text === undefined && (
        <p class="pg-row">
          {usage ? (
            <button class="button" onClick={() => props.choose(false)}>The file is requests per second</button>
          ) : (
            <>
              <button class="button" onClick={() => props.choose(true)}>The file is usage, in cores</button>
              <button class="button" onClick={() => document.getElementById("pg-per-load")?.focus()}>It is requests per second: set what one uses</button>
            </>
          )}
        </p>
      )}
    </div>
  );
}

/** A button that reads a file of a recorded series. */
function FileButton(props: { label: string; read: (name: string, content: string) => void; say: (text: string) => void }) {
  return (
    <label class="button">
      {props.label}
      <input
        class="visually-hidden"
        type="file"
        accept=".csv,.json,.jsonl,text/csv,application/json"
        onChange={(e) => {
          const file = e.currentTarget.files?.[0];
          if (file && file.size > 4_000_000) props.say(`${file.name.slice(0, 200)} is too large: ${Math.ceil(file.size / 1e6)} MB, at most 4 MB. setpoint simulate reads files of up to 64 MiB.`);
          else if (file) void file.text().then((content) => (content.trim() ? props.read(file.name.slice(0, 200), content) : props.say(`${file.name.slice(0, 200)} is empty.`)), () => props.say(`${file.name.slice(0, 200)} can't be read.`));
          e.currentTarget.value = "";
        }}
      />
    </label>
  );
}

function Field(props: { label: string; hint?: string; id?: string; value: string; onChange: (v: string) => void }) {
  return (
    <label class="pg-field" title={props.hint}>
      <span>{props.label}</span>
      <input id={props.id} value={props.value} spellcheck={false} autocomplete="off" onInput={(e) => props.onChange(e.currentTarget.value)} />
    </label>
  );
}

interface WorldProps {
  state: State;
  change: (s: Partial<State>) => void;
  file: (part: number, name: string, content: string) => void;
  asText: () => void;
  problems: Problem[];
  say: (text: string) => void;
}

function World(props: WorldProps) {
  const { state, change } = props;
  const marks = useMemo((): Mark[] => props.problems.filter((p) => p.in === "scenario").map((p) => ({ line: p.line ?? 1, severity: "error", text: p.path ? `${p.path}: ${p.text}` : p.text })), [props.problems]);
  const part = (i: number, p: Partial<Part>) => change({ load: state.load.map((l, k) => (k === i ? { ...l, ...p } : l)) });
  const hasFile = state.load.some((p) => p.kind === "file" && p.content);
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
        <div class="pg-editor-place"><Editor label="Scenario, YAML" value={state.text} marks={marks} onChange={(text) => change({ text })} /></div>
        <Problems problems={props.problems} />
      </section>
    );
  }
  return (
    <>
      <section class="pg-card" aria-label="Load">
        <div class="pg-tabs">
          <h2>Load</h2>
          <FileButton label="Load a file" read={(name, content) => props.file(-1, name, content)} say={props.say} />
          <button class="button quiet" onClick={props.asText} title="The whole scenario as text, with all that setpoint simulate knows">
            Edit as text
          </button>
        </div>
        {state.load.map((p, i) => (
          <div key={i} class="pg-part">
            <div class="pg-row">
              <select aria-label={`Shape of part ${i + 1}`} value={p.kind} onChange={(e) => {
                const kind = e.currentTarget.value as Part["kind"];
                if (kind === "file") props.file(i, "", "");
                else change({ load: state.load.map((l, k) => (k === i ? newPart(kind, hoursOf(state.duration)) : l)) });
              }}>
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
              <div class="pg-file">
                <span>{p.content ? `${p.name || "file"}, ${bytes(p.content.length)}` : "CSV of time and value, or Prometheus' answer to a range query"}</span>
                <FileButton label={p.content ? "Another file" : "Choose a file"} read={(name, content) => props.file(i, name, content)} say={props.say} />
                <label>
                  It holds{" "}
                  <select value={isUsage(state) ? "usage" : "load"} onChange={(e) => change({ workload: withUnit(state, e.currentTarget.value === "usage") })}>
                    <option value="load">load, such as requests a second</option>
                    <option value="usage">usage of the first metric: cores, bytes, items</option>
                  </select>
                </label>
              </div>
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
          <Field label="Duration" hint="such as 24h, at most 366 days; empty: as long as the file" value={state.duration} onChange={(duration) => change({ duration })} />
          <Field label="Evaluated every" hint="such as 5s, at least 1s; empty: as the controller, 15s" value={state.period} onChange={(period) => change({ period })} />
          <Field label="Time zone" hint="such as Europe/Berlin; empty: UTC" value={state.zone} onChange={(zone) => change({ zone })} />
          <Field label="Noise" hint="coefficient of variation, 0 to 1, drawn again each minute" value={state.noise} onChange={(noise) => change({ noise })} />
          <Field label="Seed" hint="of the random draws" value={state.seed} onChange={(seed) => change({ seed })} />
        </div>
        {(hasFile || state.recorded) && (
          <div class="pg-row">
            <span class="pg-hint">{state.recorded ? `Recorded count: ${state.recorded.name}, ${bytes(state.recorded.content.length)}` : "The count that there really was, to compare with"}</span>
            <FileButton label={state.recorded ? "Another count" : "Add the recorded count"} read={(name, content) => change({ recorded: { name, content } })} say={props.say} />
            {state.recorded && <button class="button quiet" aria-label="Remove the recorded count" onClick={() => change({ recorded: undefined })}>×</button>}
          </div>
        )}
        <Problems problems={props.problems} />
      </section>
      <section class="pg-card" aria-label="Workload">
        <h2>Workload</h2>
        <div class="pg-fields">
          {Object.entries(workloadFields).map(([key, [label, hint]]) => (
            <Field key={key} id={key === "perLoad" ? "pg-per-load" : undefined} label={label} hint={hint} value={state.workload[key] ?? ""} onChange={(v) => change({ workload: { ...state.workload, [key]: v } })} />
          ))}
          <Field label="Price" hint="of a replica-hour, such as 0.04; empty: no cost is told" value={state.price} onChange={(price) => change({ price })} />
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
  const { run, shown } = props;
  const [seen, setSeen] = useState<ReadonlySet<Layer>>(new Set<Layer>(["ready"]));
  const format = (at: number) => timeOfDay(run.start + at, run.zone, run.seconds > 86400);
  const several = run.runs.length > 1;
  return (
    <>
      <section class="pg-card" aria-label="Replicas over time">
        <div class="pg-tabs">
          <h2>
            Replicas <span class="pg-hint">click: why it is so then; drag: zoom, double click: back</span>
          </h2>
          {!shown && <button class="button quiet" onClick={() => props.explain(0, 0)}>Explain the first step</button>}{/* the plot is no button */}
          <div class="pg-layers" role="group" aria-label="Shown beside the count">
            {(Object.keys(layers) as Layer[]).map((l) => (
              <label key={l}>
                <input type="checkbox" checked={seen.has(l)} onChange={() => setSeen(new Set(seen.has(l) ? [...seen].filter((o) => o !== l) : [...seen, l]))} /> {layers[l]}
              </label>
            ))}
          </div>
        </div>
        <ReplicasPlot run={run} shown={seen} chosen={shown?.at} onStep={(step) => props.explain(shown?.spec ?? 0, step)} />
        {run.recorded && (
          <p class="pg-recorded">
            Recorded: {compact(run.recorded.least)} to {compact(run.recorded.most)} replicas, {compact(run.recorded.replicaHours)} replica-hours.{" "}
            {run.runs.map((r, i) => `${titleOf(run, i)} has the same count ${(100 * run.recorded!.same[i]!).toFixed(1)} % of the time.`).join(" ")}
          </p>
        )}
        {shown && <Story run={run} shown={shown} format={format} explain={props.explain} close={props.close} />}
        {run.runs.map((one, i) => (
          <details key={one.name} class="pg-changes">
            <summary>
              {count(one.actions.length, "change")}{several && <>, <b class={`s${i}`}>{titleOf(run, i)}</b></>}
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
            {one.actions.length > 200 && <p class="pg-hint">and {integer(one.actions.length - 200)} more: Export has every evaluation</p>}
          </details>
        ))}
      </section>
      <section class="pg-card" aria-label="Load over time">
        <h2>Load <span class="pg-hint">units a second</span></h2>
        {run.leftOut && <p class="pg-recorded">{count(run.leftOut, "sample")} of the file without a value, or with NaN, {run.leftOut === 1 ? "is" : "are"} left out.</p>}
        {run.covered !== undefined && <p class="pg-recorded">The recorded load covers {(100 * run.covered).toFixed(1)} % of the time; between, there are straight lines.</p>}
        <LoadPlot run={run} />
      </section>
      <section class="pg-card" aria-label="Figures">
        <div class="pg-scroll" tabIndex={0} role="region" aria-label="Figures side by side">
          <table class="pg-figures">
            <thead>
              <tr>
                <th scope="col">Figure</th>
                {run.runs.map((r, i) => (
                  <th key={r.name} scope="col" class={`s${i}`}>
                    {titleOf(run, i)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {run.rows.map((row) => (
                <tr key={row.name}>
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

/** A step, explained, and the ways to others: of the other spec, beside it, and to the changes around it. */
function Story(props: { run: Run; shown: Shown; format: (at: number) => string; explain: (spec: number, step: number) => void; close: () => void }) {
  const { run, shown, explain } = props;
  const { spec, step } = shown;
  const actions = run.runs[spec]?.actions ?? [];
  const before = actions.filter((a) => a.step < step).at(-1);
  const after = actions.find((a) => a.step > step);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.focus({ preventScroll: true }), []);
  const go = (label: string, sign: string, to: number | undefined) => (
    <button class="button quiet" disabled={to === undefined || to < 0 || to >= run.steps} onClick={() => explain(spec, to!)} aria-label={label} title={label}>
      {sign}
    </button>
  );
  return (
    <div class="pg-story" role="region" aria-label="The step, explained" tabIndex={-1} ref={box}>
      <div class="pg-tabs">
        <h3>
          Why, at {props.format(shown.at)}
          {run.runs.length > 1 && `, ${titleOf(run, spec)}`}
        </h3>
        {run.runs.length > 1 && run.runs.map((r, i) => i !== spec && (
          <button key={r.name} class="button quiet" onClick={() => explain(i, step)}>
            {titleOf(run, i)} then
          </button>
        ))}
        {go("The change before", "«", before?.step)}
        {go("The step before", "‹", step - 1)}
        {go("The next step", "›", step + 1)}
        {go("The next change", "»", after?.step)}
        <button class="button quiet" onClick={props.close} aria-label="Close">
          ×
        </button>
      </div>
      <pre tabIndex={0}>{shown.text}</pre>
    </div>
  );
}
