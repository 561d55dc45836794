import { render } from "preact";
import { App } from "./app";
import { guardTexts } from "./lib/text";
import { closeMenus, followLinks, restorePlace } from "./router";
import "./style.css";
import "uplot/dist/uPlot.min.css";
import "./targets/targets.css";
import "./target/target.css";
import "./fleet/fleet.css";
import "./overrides/overrides.css";
import "./operations/operations.css";
import "./playground/playground.css";
import "./signin.css";

guardTexts();
followLinks();
closeMenus();
restorePlace();
const root = document.getElementById("app")!;
root.replaceChildren(); // the bar shown while this loads
render(<App />, root);
