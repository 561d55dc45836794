import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { asError, type CallerJson as Caller } from "@setpoint-dev/client/json";
import { base, root, type Route } from "../router";
import { canSignOut, signOut, useSession } from "../session";
import { chosenTheme, chooseTheme, type Theme } from "../theme";

const themes: Theme[] = ["auto", "dark", "light"];

function ThemeSwitch() {
  const [theme, set] = useState(chosenTheme());
  const next = themes[(themes.indexOf(theme) + 1) % themes.length]!;
  return (
    <button
      class="button quiet"
      title={`Colours: ${theme}. Switch to ${next}.`}
      aria-label={`Colours: ${theme}. Switch to ${next}.`}
      onClick={() => {
        chooseTheme(next);
        set(next);
      }}
    >
      {theme === "auto" ? "◐" : theme === "dark" ? "●" : "○"}
    </button>
  );
}

function Tab(props: { href: string; on: boolean; children: ComponentChildren }) {
  return (
    <a class="tab" href={props.href} aria-current={props.on ? "page" : undefined}>
      {props.children}
    </a>
  );
}

function Who(props: { caller: Caller }) {
  const { caller } = props;
  const session = useSession();
  const [problem, tell] = useState("");
  return (
    <details class="who">
      <summary title={caller.name}>{caller.name}</summary>
      <div class="menu">
        <span class="muted small">Signed in as</span>
        <strong>{caller.name}</strong>
        {caller.groups && caller.groups.length > 0 && <span class="muted small">{caller.groups.join(", ")}</span>}
        {session.config?.version && <span class="muted small">Setpoint {session.config.version}</span>}
        {canSignOut(session) && <button class="button" onClick={() => void signOut().catch((e) => tell(asError(e).problem))}>Sign out</button>}
        {problem && <p class="refused" role="alert">You are still signed in. {problem}</p>}
      </div>
    </details>
  );
}

export function Shell(props: { at: Route; caller: Caller | undefined; children: ComponentChildren }) {
  const at = props.at.view;
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href={base} aria-label="Setpoint">
          <img src={`${base}favicon.svg`} alt="" width="22" height="22" />
          <span>Setpoint</span>
        </a>
        <nav aria-label="Views">
          <Tab href={base} on={at === "targets" || at === "target" || at === "fleet"}>Targets</Tab>
          <Tab href={`${base}playground`} on={at === "playground"}>Playground</Tab>
          <Tab href={`${base}operations`} on={at === "operations"}>Operations</Tab>
        </nav>
        <div class="bar-end">
          <a class="docs" href={`${root}docs/`} target="_blank" rel="noreferrer">API</a>
          <ThemeSwitch />
          {props.caller?.name && <Who caller={props.caller} />}
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        {props.children}
      </main>
    </>
  );
}
