// Routes of the page. All are below /ui/, where the server returns the same page for every
// path.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "targets" }
  | { view: "target" | "fleet"; cluster: string; namespace: string; target: string }
  | { view: "playground" }
  | { view: "operations" }
  | { view: "none" };

/** The path of the service: "/", or what a proxy before it takes away. All scripts are in the same folder. */
export const root = /^(.*\/)ui\/assets\//.exec(new URL(import.meta.url).pathname)?.[1] ?? "/";

export const base = `${root}ui/`;

const segment = /^[A-Za-z0-9._-]{1,253}$/;

/** The route of a path; "none" where it names nothing. */
export function route(path: string): Route {
  if (`${path}/` === base) return { view: "targets" };
  if (!path.startsWith(base)) return { view: "none" };
  const parts = path.slice(base.length).split("/").filter(Boolean);
  if (parts.length === 0) return { view: "targets" };
  if (parts.length === 1 && (parts[0] === "playground" || parts[0] === "operations")) return { view: parts[0] };
  const [a, cluster, b, namespace, c, target, d] = parts;
  const view = parts.length === 6 ? "target" : parts.length === 7 && d === "fleet" ? "fleet" : undefined;
  const named = a === "clusters" && b === "namespaces" && c === "targets";
  if (view && named && [cluster, namespace, target].every((s) => segment.test(s!))) {
    return { view, cluster: cluster!, namespace: namespace!, target: target! };
  }
  return { view: "none" };
}

/** The path of a target's view, by its resource name. */
export const targetPath = (name: string): string => base + name;

/** The path of a fleet's view, by its resource name. */
export const fleetPath = (name: string): string => `${base}${name}/fleet`;

/** Goes to a path of the page. */
export function navigate(path: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", path);
  else history.replaceState(null, "", path);
  window.dispatchEvent(new Event("navigate"));
}

/** Changes parts of the query, and nothing else of the place; "" takes a part away. */
export function changeQuery(change: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [k, v] of Object.entries(change)) {
    if (v) query.set(k, v);
    else query.delete(k);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), "replace");
}

const kept = "setpoint.place";

/** Keeps the place while the user signs in elsewhere: its fragment may hold what was typed, and is for no server. */
export function keepPlace(): void {
  try {
    sessionStorage.setItem(kept, location.pathname + location.search + location.hash);
  } catch {
    // Storage is refused, or too small for it.
  }
}

/** Gives the place the fragment back that it was left with. */
export function restorePlace(): void {
  try {
    const left = sessionStorage.getItem(kept) ?? "";
    sessionStorage.removeItem(kept);
    if (!location.hash && left.startsWith(`${location.pathname}${location.search}#`)) history.replaceState(null, "", left);
  } catch {
    // Storage is refused.
  }
}

/** The place that is shown, path and query; renders again when it changes. */
export function usePlace(): { path: string; query: URLSearchParams; hash: string } {
  const read = () => location.pathname + location.search + location.hash;
  const [, set] = useState(read());
  useEffect(() => {
    const changed = () => set(read());
    window.addEventListener("popstate", changed);
    window.addEventListener("navigate", changed);
    return () => {
      window.removeEventListener("popstate", changed);
      window.removeEventListener("navigate", changed);
    };
  }, []);
  return { path: location.pathname, query: new URLSearchParams(location.search), hash: location.hash };
}

/** Follows clicks on links of the page without loading it again; data-leaves is none of the page. */
export function followLinks(): void {
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const link = (e.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
    if (!link || link.target || link.origin !== location.origin || !link.pathname.startsWith(base)) return;
    if (link.hasAttribute("download") || link.dataset.leaves !== undefined || link.pathname.startsWith(`${base}assets/`)) return;
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return; // an anchor in the page
    e.preventDefault();
    navigate(link.pathname + link.search + link.hash);
  });
}

/** Closes open menus with Escape, whose focus goes back to what opened them, and with a click elsewhere. */
export function closeMenus(): void {
  const open = () => document.querySelectorAll<HTMLDetailsElement>("details:is(.who, .about)[open]");
  document.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    for (const menu of open()) {
      if (menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
      menu.open = false;
    }
  });
  document.addEventListener("click", (e) => {
    for (const menu of open()) if (!menu.contains(e.target as Node)) menu.open = false;
  });
}
