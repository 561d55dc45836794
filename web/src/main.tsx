import { render } from "preact";
import { App } from "./app";
import { followLinks } from "./router";
import "./style.css";

followLinks();
render(<App />, document.getElementById("app")!);
