import { lazy } from "./components/lazy";
import { Shell } from "./components/shell";
import { NotFound } from "./components/empty";
import { TargetsView } from "./targets/view";
import { route, usePlace, type Route } from "./router";
import { useSession, whoAmI } from "./session";
import { SignIn } from "./signin";
import { useEffect, useRef } from "preact/hooks";

const TargetView = lazy(() => import("./target/view").then((m) => m.TargetView));
const FleetView = lazy(() => import("./fleet/view").then((m) => m.FleetView));
const OperationsView = lazy(() => import("./operations/view").then((m) => m.OperationsView));
const PlaygroundView = lazy(() => import("./playground/view").then((m) => m.PlaygroundView));

/** What a view shows, for the window's title. */
const titles = { targets: "Targets", playground: "Playground", operations: "Operations", none: "Nothing here" };
const titleOf = (at: Route): string => ("target" in at ? at.target : titles[at.view]);

export function App() {
  const place = usePlace();
  const at = route(place.path);
  const session = useSession();
  useEffect(() => {
    void whoAmI();
  }, [session.generation]);
  useEffect(() => {
    document.title = `${session.wanted ? "Sign in" : titleOf(at)} · Setpoint`;
  }, [place.path, session.wanted]);
  // After navigating with the keyboard or a screen reader, focus starts at the top of
  // the view.
  const before = useRef(place.path);
  useEffect(() => {
    if (before.current === place.path) return;
    before.current = place.path;
    const content = document.getElementById("content");
    content?.focus({ preventScroll: true });
    content?.scrollTo(0, 0);
  }, [place.path]);
  if (session.wanted) {
    return (
      <Shell at={at} caller={undefined}>
        <SignIn />
      </Shell>
    );
  }
  return (
    <Shell at={at} caller={session.caller} key={session.generation}>
      {at.view === "targets" && <TargetsView query={place.query} />}
      {at.view === "target" && <TargetView key={place.path} name={`clusters/${at.cluster}/namespaces/${at.namespace}/targets/${at.target}`} />}
      {at.view === "fleet" && <FleetView key={place.path} name={`clusters/${at.cluster}/namespaces/${at.namespace}/targets/${at.target}`} />}
      {at.view === "playground" && <PlaygroundView />}
      {at.view === "operations" && <OperationsView />}
      {at.view === "none" && <NotFound />}
    </Shell>
  );
}
