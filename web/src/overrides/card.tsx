// The overrides of a target, its namespace and its cluster, and the button that makes one.

import { useEffect, useState } from "preact/hooks";
import { Problem } from "../components/problem";
import { lazy } from "../components/lazy";
import { mayOverride, placesOf, type Known } from "../lib/overrides";
import { useSession } from "../session";
import { OverrideList, summary } from "./list";
import { useOverrides } from "./store";

const OverrideForm = lazy(() => import("./form").then((m) => m.OverrideForm));

/** told is which override the last decision tells of: when it changes, the list is read again. */
export function OverridesCard(props: { target: string; known: Known; told: string; changed: () => void }) {
  const { target, known } = props;
  const [{ all, error }, reload] = useOverrides(target);
  useEffect(reload, [props.told]);
  const { caller } = useSession();
  const [open, setOpen] = useState(false);
  const [said, say] = useState("");
  const may = Object.values(placesOf(target)).some((p) => mayOverride(caller, p));
  useEffect(() => {
    if (may) OverrideForm.ahead(); // it is needed when the service may not answer
  }, [may]);
  if (error?.code === "UNIMPLEMENTED") return null; // of an older service, or one whose store keeps none
  const again = () => {
    reload();
    props.changed();
  };
  return (
    <section class="card overrides-card">
      <header>
        <h2>Overrides</h2>
        {may && <button class="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>Hold or limit…</button>}
      </header>
      {error && <Problem error={error} what={all ? "Not up to date." : "The overrides can't be read."} retry={reload} />}
      <p class="muted small" role="status">{said} {all ? (all.length ? `${summary(all)}.` : "None for this target, its namespace or its cluster.") : error ? "" : "Loading…"}</p>
      {all && all.length > 0 && <OverrideList overrides={all} target={target} changed={() => { say("Ended."); again(); }} />}
      {!may && caller && <p class="faint small">Making them needs the verb «override» of the service's policy file.</p>}
      {open && <OverrideForm target={target} known={known} close={(done: boolean) => { setOpen(false); if (done) { say("Made. It acts from the next decision on."); again(); } }} />}
    </section>
  );
}
