// Runs hooks without a browser, for tests.

import type { TestContext } from "node:test";
import { h, render } from "preact";

/** The page, which is seen or not. */
export const page = Object.assign(new EventTarget(), { visibilityState: "visible", hidden: false });

/** What the service answers to a request, in turn, or for all. */
export type Answer = (path: string, init: RequestInit) => Response | Promise<Response>;

/** A service in place of the real one, until a test ends: what it was asked for. */
export function serve(t: TestContext, answer: Answer): string[] {
  const before = globalThis.fetch;
  const asked: string[] = [];
  Object.assign(globalThis, { location: { origin: "http://page.test", pathname: "/ui/", search: "" }, document: page });
  globalThis.fetch = async (input, init = {}) => {
    const { pathname, search } = new URL(String(input), "http://page.test");
    asked.push(pathname + search);
    return Promise.race([answer(pathname + search, init), new Promise<never>((_, ends) => init.signal?.addEventListener("abort", () => ends(init.signal?.reason)))]);
  };
  t.after(() => (globalThis.fetch = before));
  return asked;
}

/** What a hook returned last; it is used until a test ends. */
export function use<T>(t: TestContext, hook: () => T): { now: T } {
  const seen = {} as { now: T };
  const Probe = () => ((seen.now = hook()), null);
  const root = { childNodes: [], firstChild: null } as unknown as Element;
  render(h(Probe, {}), root);
  t.after(() => render(null, root));
  return seen;
}

/** Takes the place of setTimeout or setInterval until a test ends: what it returns has so many milliseconds pass. */
export function passing(t: TestContext, name: "setTimeout" | "setInterval"): (ms: number) => void {
  let [now, last] = [0, 0];
  const waits = new Map<unknown, { at: number; ms: number; f: () => void }>();
  t.mock.method(globalThis, name, (f: () => void, ms = 0) => (waits.set(++last, { at: now + ms, ms, f }), last));
  const clear = name === "setTimeout" ? "clearTimeout" : "clearInterval";
  const real = globalThis[clear];
  t.mock.method(globalThis, clear, (id: number) => waits.delete(id) || real(id));
  return (ms) => {
    now += ms;
    for (const [id, wait] of [...waits]) {
      if (wait.at > now) continue;
      if (name === "setTimeout") waits.delete(id);
      else wait.at += wait.ms;
      wait.f();
    }
  };
}

/** Waits until something is so; pass is called meanwhile. It gives up after five seconds, without those in which the machine stood still. */
export async function until(what: string, is: () => boolean, pass = () => {}): Promise<void> {
  for (let [waited, last] = [0, performance.now()]; !is(); pass()) {
    if (waited > 5000) throw new Error(`never ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
    const now = performance.now();
    waited += Math.min(now - last, 10);
    last = now;
  }
}
