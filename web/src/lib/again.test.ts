import assert from "node:assert/strict";
import { test } from "node:test";
import { loadAgainWhileIncomplete } from "./again";

class Script {
  constructor(readonly src: string) {}
}

class Link {
  constructor(readonly href: string, readonly rel = "stylesheet") {}
}

/** Loads a page of which that fails, and returns whether it loads itself again and how often it has by then. */
function loaded(of: Script | Link | undefined, before: string | null = null) {
  const heard = new Map<string, (e: unknown) => void>();
  const stored = new Map<string, string>(before === null ? [] : [["setpoint.again", before]]);
  const told: string[] = [];
  let again = false;
  const fakes: Record<string, unknown> = {
    HTMLScriptElement: Script, HTMLLinkElement: Link,
    document: { currentScript: new Script("https://host/below/ui/assets/early.js"), getElementById: () => ({ append: (text: string) => told.push(text) }) },
    sessionStorage: {
      getItem: (key: string) => stored.get(key) ?? null, setItem: (key: string, value: string) => stored.set(key, value), removeItem: (key: string) => stored.delete(key),
    },
    addEventListener: (name: string, f: (e: unknown) => void) => heard.set(name, f), removeEventListener: (name: string) => heard.delete(name),
    setTimeout: (f: () => void) => f(), location: { reload: () => (again = true) },
  };
  const kept = Object.keys(fakes).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const);
  try {
    for (const [name, value] of Object.entries(fakes)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    loadAgainWhileIncomplete();
    if (of) heard.get("error")!({ target: of });
    heard.get("load")!({});
  } finally {
    for (const [name, was] of kept) {
      if (was) Object.defineProperty(globalThis, name, was);
      else delete (globalThis as Record<string, unknown>)[name];
    }
  }
  return { again, times: stored.get("setpoint.again"), told: told.length };
}

test("a page without one of its own files loads itself again, and not for ever", () => {
  for (const lost of [new Script("https://host/below/ui/assets/main-ABCDEFGH.js"), new Link("https://host/below/ui/assets/main-ABCDEFGH.css")]) {
    assert.deepEqual(loaded(lost), { again: true, times: "1", told: 0 });
    assert.deepEqual(loaded(lost, "59"), { again: true, times: "60", told: 0 });
    assert.deepEqual(loaded(lost, "60"), { again: false, times: "60", told: 1 });
  }
  assert.deepEqual(loaded(undefined, "7"), { again: false, times: undefined, told: 0 });
});

test("what a proxy or an extension adds to the page does not count", () => {
  for (const foreign of [
    new Script("https://statistics.example/beacon.js"), new Script("https://host/cdn-cgi/scripts/email.js"), new Script("extension://abc/x.js"), new Script(""),
    new Link("https://fonts.example/x.css"), new Link("https://host/below/ui/assets/chunk-ABCDEFGH.js", "modulepreload"),
  ]) {
    assert.deepEqual(loaded(foreign, "7"), { again: false, times: undefined, told: 0 });
  }
});
