// The playground as a standalone page, on any file server.

import { render } from "preact";
import "../style.css";
import "uplot/dist/uPlot.min.css";
import "./playground.css";
import { applyTheme, chosenTheme } from "../theme";
import { ThemeSwitch } from "../components/shell";
import { PlaygroundView } from "./view";

applyTheme(chosenTheme());
render(
  <>
    <header class="bar">
      <span class="brand">
        <img src="favicon.svg" alt="" width="22" height="22" />
        <span>Setpoint playground</span>
      </span>
      <div class="bar-end">
        <ThemeSwitch />
      </div>
    </header>
    <main id="content" tabIndex={-1}>
      <PlaygroundView alone />
    </main>
  </>,
  document.getElementById("app")!,
);
