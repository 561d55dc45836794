import { render } from "preact";
import { App } from "./app";
import { followLinks } from "./router";
import "./style.css";
import "./fleet/fleet.css";

followLinks();
render(<App />, document.getElementById("app")!);
