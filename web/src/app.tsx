import { lazy } from "./components/lazy";
import { Shell } from "./components/shell";
import { NotFound } from "./components/empty";
import { FleetView } from "./fleet/view";
import { route, usePlace } from "./router";

const TargetView = lazy(() => import("./target/view").then((m) => m.TargetView));
const OperationsView = lazy(() => import("./operations/view").then((m) => m.OperationsView));
const PlaygroundView = lazy(() => import("./playground/view").then((m) => m.PlaygroundView));

export function App() {
  const place = usePlace();
  const at = route(place.path);
  return (
    <Shell at={at}>
      {at.view === "fleet" && <FleetView query={place.query} />}
      {at.view === "target" && <TargetView name={`clusters/${at.cluster}/namespaces/${at.namespace}/targets/${at.target}`} />}
      {at.view === "playground" && <PlaygroundView />}
      {at.view === "operations" && <OperationsView />}
      {at.view === "none" && <NotFound />}
    </Shell>
  );
}
