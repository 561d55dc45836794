// The theme: the system's preference, unless the user chose one.

export type Theme = "auto" | "dark" | "light";

const key = "setpoint.theme";

/** The theme that was chosen before; "auto" where none was, or storage is refused. */
export function chosenTheme(): Theme {
  try {
    const value = localStorage.getItem(key);
    return value === "dark" || value === "light" ? value : "auto";
  } catch {
    return "auto";
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Keeps the choice, applies it, and tells canvases to draw again. */
export function chooseTheme(theme: Theme): void {
  try {
    if (theme === "auto") localStorage.removeItem(key);
    else localStorage.setItem(key, theme);
  } catch {
    // The choice then lasts until the page is closed.
  }
  applyTheme(theme);
  window.dispatchEvent(new Event("themechange"));
}

// Paper is light, and canvases don't know.
const paper: readonly (readonly [string, () => Theme])[] = [["beforeprint", () => "light"], ["afterprint", chosenTheme]];
for (const [event, theme] of paper) {
  globalThis.addEventListener?.(event, () => {
    applyTheme(theme());
    window.dispatchEvent(new Event("themechange"));
  });
}

const system = (): MediaQueryList => matchMedia("(prefers-color-scheme: dark)");

/** Calls back when colours change: by choice or by the system. Returns how to stop. */
export function onThemeChange(f: () => void): () => void {
  const preference = system();
  preference.addEventListener("change", f);
  window.addEventListener("themechange", f);
  return () => {
    preference.removeEventListener("change", f);
    window.removeEventListener("themechange", f);
  };
}

/** A colour of the style, for canvases, which do not know light-dark(). */
export function color(name: string): string {
  const value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const [, light, dark] = /^light-dark\((.*), *(.*)\)$/.exec(value) ?? [];
  const theme = document.documentElement.dataset.theme ?? (system().matches ? "dark" : "light");
  return (theme === "dark" ? dark : light) ?? value;
}
