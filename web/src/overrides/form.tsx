// Makes an override: first what, until when and why, then what will happen.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { asError, type SetpointError } from "@setpoint-dev/client/json";
import { serviceNow } from "../api/client";
import { capital, localTime, localZone, utc } from "../lib/format";
import { fromField, kinds, mayOverride, mostReason, placesOf, placeWords, made, saidWhen, sentence, toField, tomorrowMorning, what, wrong, type Draft, type Kind, type Known } from "../lib/overrides";
import { useSession } from "../session";
import { Refused } from "./list";
import { create, newId } from "./store";

const ends: readonly { id: string; label: string; of?: (begin: number, now: number) => number }[] = [
  { id: "30m", label: "30 min", of: (begin) => begin + 30 * 60e3 },
  { id: "2h", label: "2 h", of: (begin) => begin + 2 * 3600e3 },
  { id: "tomorrow", label: "Tomorrow 08:00", of: (_, now) => tomorrowMorning(now) },
  { id: "custom", label: "Another time" },
];

/** Both clocks, so that nobody has to compute. */
function Instant(props: { time: number }) {
  return Number.isNaN(props.time) ? <>–</> : <time dateTime={new Date(props.time).toISOString()}>{localZone() === "UTC" ? "" : `${localTime(props.time)} (${localZone()}), `}{utc(props.time)}</time>;
}

/** Whole seconds: the service's texts have no others. */
const whole = (ms: number): number => Math.ceil(ms / 1000) * 1000;

export function OverrideForm(props: { target: string; known: Known; close: (done: boolean) => void }) {
  const { target, known } = props;
  const session = useSession();
  const box = useRef<HTMLDialogElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const id = useId();
  const places = placesOf(target);
  const allowed = [places.target, places.namespace, places.cluster].filter((p) => mayOverride(session.caller, p));
  const [place, setPlace] = useState(allowed[0] ?? target);
  const [kind, setKind] = useState<Kind>("hold");
  const [replicas, setReplicas] = useState(known.replicas === undefined ? "" : String(known.replicas));
  const [reason, setReason] = useState("");
  const [begins, setBegins] = useState<"now" | "at">("now");
  const [startText, setStart] = useState(() => toField(serviceNow() + 3600e3));
  const [endId, setEnd] = useState("2h");
  const [endText, setEndText] = useState(() => toField(serviceNow() + 3600e3));
  const [tried, setTried] = useState(false);
  const [sure, setSure] = useState<{ draft: Draft; id: string } | undefined>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<SetpointError | undefined>();
  useEffect(() => {
    box.current?.showModal();
  }, []);
  useEffect(() => heading.current?.focus(), [sure]);
  const draft = (now: number): Draft => {
    const start = begins === "now" ? undefined : fromField(startText);
    const of = ends.find((e) => e.id === endId)?.of;
    return { kind, replicas, reason, start, end: of ? whole(of(start ?? now, now)) : fromField(endText) };
  };
  const now = serviceNow();
  const shown = draft(now);
  const all = wrong(shown, now);
  const problems = tried ? all : reason ? { reason: all.reason } : {}; // what is typed is told of at once
  const numbered = kinds.find((k) => k.kind === kind)?.number;
  const next = (e: Event) => {
    e.preventDefault();
    setTried(true);
    const at = serviceNow();
    const d = draft(at);
    const bad = Object.keys(wrong(d, at));
    if (bad.length === 0) setSure({ draft: d, id: newId() });
    else setTimeout(() => box.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
  };
  const confirm = async () => {
    if (!sure) return;
    setBusy(true);
    setError(undefined);
    try {
      await create(place, sure.id, made(sure.draft));
      box.current?.close();
      props.close(true);
    } catch (e) {
      setError(asError(e));
      setBusy(false);
    }
  };
  const invalid = (field: keyof typeof problems) => ({ "aria-invalid": problems[field] ? true : undefined, "aria-describedby": problems[field] ? `${id}-${field}` : undefined });
  const problem = (field: keyof typeof problems) => problems[field] && <span class="o-problem" id={`${id}-${field}`}>{problems[field]}</span>;
  return (
    <dialog ref={box} class="override-form" aria-labelledby={id} onCancel={(e) => { if (busy) e.preventDefault(); }} onClose={() => props.close(false)}>
      {sure ? (
        <div class="o-sure">
          <h2 id={id} ref={heading} tabIndex={-1}>{capital(what(made(sure.draft)))}: {placeWords(place)}</h2>
          <dl class="facts">
            <Fact name="For">{place}</Fact>
            <Fact name="Begins">{sure.draft.start === undefined ? "at once" : <Instant time={sure.draft.start} />}</Fact>
            <Fact name="Ends">{<Instant time={sure.draft.end} />}</Fact>
            <Fact name="In the name of"><bdi>{session.caller?.name || "somebody"}</bdi></Fact>
          </dl>
          <p>{saidWhen(sure.draft.kind)}{place === places.target ? "" : ", with the count of each target"}:</p>
          <blockquote class="o-sentence"><bdi>{sentence(sure.draft, session.caller?.name ?? "", place === places.target ? known : {})}</bdi></blockquote>
          <p class="muted small">
            It acts from the next decision on, stays within minReplicas and maxReplicas of the spec, and ends by itself. Windows and policies go on
            below it. It can't be changed, only ended.
          </p>
          {error && <Refused error={error} what="It was not made." />}
          <div class="o-buttons">
            <button class="button" disabled={busy} onClick={() => { setSure(undefined); setError(undefined); }}>Back</button>
            <button class="button primary" disabled={busy} onClick={() => void confirm()}>{capital(what(made(sure.draft)))}</button>
          </div>
        </div>
      ) : (
        <form onSubmit={next} noValidate>
          <h2 id={id} ref={heading} tabIndex={-1}>Override</h2>
          {allowed.length > 1 && (
            <label class="o-field">
              <span>For</span>
              <select value={place} onChange={(e) => setPlace(e.currentTarget.value)}>{allowed.map((p) => <option key={p} value={p}>{placeWords(p)}</option>)}</select>
            </label>
          )}
          <fieldset class="o-kinds">
            <legend>What</legend>
            {kinds.map((k) => (
              <label key={k.kind}><input type="radio" name={`${id}-kind`} value={k.kind} checked={kind === k.kind} onChange={() => setKind(k.kind)} /><span><strong>{k.label}</strong> <span class="muted">{k.help}</span></span></label>
            ))}
          </fieldset>
          {numbered && (
            <label class="o-field">
              <span>Replicas</span>
              <input class="o-number" inputMode="numeric" value={replicas} maxLength={10} onInput={(e) => setReplicas(e.currentTarget.value)} {...invalid("replicas")} />
              {problem("replicas")}
            </label>
          )}
          <label class="o-field">
            <span>Why</span>
            <input value={reason} maxLength={mostReason} dir="auto" placeholder="database migration" onInput={(e) => setReason(e.currentTarget.value)} required {...invalid("reason")} />
            {problem("reason")}
          </label>
          <div class="o-field">
            <span id={`${id}-ends`}>Until</span>
            <div class="segments" role="group" aria-labelledby={`${id}-ends`}>
              {ends.map((e) => <button key={e.id} type="button" aria-pressed={endId === e.id} onClick={() => setEnd(e.id)}>{e.label}</button>)}
            </div>
            {endId === "custom" && <input type="datetime-local" aria-label={`Ends, on your clock (${localZone()})`} value={endText} onInput={(e) => setEndText(e.currentTarget.value)} {...invalid("end")} />}
            {problem("end")}
            <span class="muted small">Ends <Instant time={shown.end} /></span>
          </div>
          <div class="o-field">
            <span id={`${id}-begins`}>From</span>
            <div class="segments" role="group" aria-labelledby={`${id}-begins`}>
              <button type="button" aria-pressed={begins === "now"} onClick={() => setBegins("now")}>Now</button>
              <button type="button" aria-pressed={begins === "at"} onClick={() => setBegins("at")}>Later</button>
            </div>
            {begins === "at" && (
              <>
                <input type="datetime-local" aria-label={`Begins, on your clock (${localZone()})`} value={startText} onInput={(e) => setStart(e.currentTarget.value)} {...invalid("start")} />
                {problem("start")}
                <span class="muted small">Begins <Instant time={shown.start ?? NaN} /></span>
              </>
            )}
          </div>
          <div class="o-buttons">
            <button type="button" class="button" onClick={() => box.current?.close()}>Cancel</button>
            <button type="submit" class="button primary">See what will happen</button>
          </div>
        </form>
      )}
    </dialog>
  );
}

function Fact(props: { name: string; children: ComponentChildren }) {
  return <div><dt>{props.name}</dt><dd>{props.children}</dd></div>;
}
