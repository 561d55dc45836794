// Who holds what, until when, and why.

import { useEffect, useRef, useState } from "preact/hooks";
import { asError, type OverrideJson as Override, type SetpointError } from "@setpoint-dev/client/json";
import { serviceNow } from "../api/client";
import { At } from "../components/time";
import { count, duration, millis, relative } from "../lib/format";
import { current, mayOverride, placeOf, placeWords, what } from "../lib/overrides";
import { plainText } from "../lib/text";
import { targetPath } from "../router";
import { useSession } from "../session";
import { end } from "./store";

interface List {
  overrides: readonly Override[];
  /** The target whose page this is: what acts on it is told in its words. Empty: that of all targets. */
  target: string;
  changed: () => void;
}

export function OverrideList(props: List) {
  const now = serviceNow();
  const all = current(props.overrides, now);
  return (
    <ul class="overrides">
      {all.map(({ override: o, planned }) => <One key={o.name} {...props} override={o} planned={planned} now={now} />)}
    </ul>
  );
}

function One(props: List & { override: Override; planned: boolean; now: number }) {
  const { override: o, planned, target, now } = props;
  const session = useSession();
  const [asks, setAsks] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<SetpointError | undefined>();
  const sure = useRef<HTMLButtonElement>(null);
  const ask = useRef<HTMLButtonElement>(null);
  useEffect(() => sure.current?.focus(), [asks]); // once: not from whoever has gone to another button
  const name = o.name ?? "";
  const place = placeOf(name);
  const stop = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await end(name);
    } catch (e) {
      const refused = asError(e);
      if (refused.code !== "NOT_FOUND") { // which another has ended, or the clock
        setError(refused);
        setBusy(false);
        return;
      }
    }
    props.changed();
  };
  return (
    <li class={planned ? "override planned" : "override"}>
      <div class="o-head">
        <span class={planned ? "chip calm" : "chip held"}><i aria-hidden="true">{planned ? "◷" : "‖"}</i>{what(o)}</span>
        {place === target ? null : place.split("/").length > 4 ? <a href={targetPath(place)} title={place}>{placeWords(place)}</a> : <span title={place}>{placeWords(place)}</span>}
        {!target && place.split("/").length > 2 && <span class="muted small">{place.split("/").slice(1, -2).filter((_, i) => i % 2 === 0).reverse().map((n) => plainText(n, 253)).join(" · ")}</span>}
        <span class="o-when">
          {planned ? <>begins <At time={millis(o.startTime)} /> ({relative(millis(o.startTime), now)}), ends <At time={millis(o.expireTime)} /></>
            : <>until <At time={millis(o.expireTime)} /> (in {duration(millis(o.expireTime) - now)})</>}
        </span>
      </div>
      <p class="o-why"><bdi>{plainText(o.reason, 256)}</bdi></p>
      <div class="o-foot muted small">
        <span>by <bdi>{plainText(o.author, 256) || "somebody"}</bdi> · <span class="mono">{name.split("/").at(-1)}</span></span>
        {mayOverride(session.caller, place) && !asks && (
          <button class="button" ref={ask} aria-label={`${planned ? "Delete" : "End now"}: ${what(o)}, ${placeWords(place)}`} onClick={() => setAsks(true)}>{planned ? "Delete" : "End now"}</button>
        )}
      </div>
      {asks && (
        <div class="o-asks" role="group" aria-label="End this override?">
          <p>{planned ? "It will never begin." : `It ends at once: the next decision ${target ? "" : "of each target "}is made without it. Windows and policies have gone on below it.`}</p>
          <button class="button danger" disabled={busy} ref={sure} onClick={() => void stop()}>{planned ? "Delete it" : "End it"}</button>
          <button class="button" disabled={busy} onClick={() => { setAsks(false); setTimeout(() => ask.current?.focus()); }}>Keep it</button>
          {error && <Refused error={error} what="It was not ended." />}
        </div>
      )}
    </li>
  );
}

/** A refusal, in the service's words. */
export function Refused(props: { error: SetpointError; what: string }) {
  const { error } = props;
  return (
    <p class="refused" role="alert">
      <strong>{props.what}</strong> {plainText(error.problem, 1000)}
      {error.code === "UNAVAILABLE" || error.code === "DEADLINE_EXCEEDED" ? " It may have been done all the same: the list tells. Trying again does no harm." : ""}
    </p>
  );
}

/** "2 overrides in force, 1 planned". */
export function summary(all: readonly Override[]): string {
  const shown = current(all, serviceNow());
  const planned = shown.filter((o) => o.planned).length;
  const parts = [shown.length > planned || !planned ? `${count(shown.length - planned, "override")} in force` : "", planned ? `${planned} planned` : ""];
  return parts.filter(Boolean).join(", ");
}
