import assert from "node:assert/strict";
import { test } from "node:test";
import { h, options, render } from "preact";
import { guardTexts, shown } from "./text";

/** As much of a document as rendering needs. */
class Node {
  childNodes: Node[] = [];
  attributes: Record<string, unknown> = {};
  parentNode: Node | undefined;
  constructor(readonly localName: string, readonly data = "") {}
  get firstChild(): Node | undefined { return this.childNodes[0]; }
  get nextSibling(): Node | undefined { return undefined; }
  insertBefore(node: Node): void { this.childNodes.push(node); node.parentNode = this; }
  setAttribute(name: string, value: unknown): void { this.attributes[name] = value; }
  get text(): string { return this.data + this.childNodes.map((n) => n.text).join(""); }
}

test("nothing that is rendered changes how the text around it is shown", (t) => {
  const before = [options.vnode, globalThis.document] as const;
  t.after(() => ([options.vnode, globalThis.document] = before));
  globalThis.document = {
    createTextNode: (text: string) => new Node("", text), createElementNS: (_: string, name: string) => new Node(name),
  } as unknown as Document;
  guardTexts();
  const metric = "q\u202e\u2066\u0000\u009b2J";
  const Told = () => h("pre", { title: metric, "aria-label": metric, placeholder: metric, "data-value": metric }, "a\n\tb ", metric, [metric, h("b", {}, metric)]);
  const root = new Node("main");
  render(h(Told, {}), root as unknown as Element);
  const [pre] = root.childNodes;
  const clean = "q\ufffd\ufffd\ufffd\ufffd2J";
  assert.equal(shown(metric), clean);
  assert.equal(pre!.text, `a\n\tb ${clean.repeat(3)}`);
  assert.deepEqual(pre!.attributes, { title: clean, "aria-label": clean, placeholder: clean, "data-value": metric });
});
