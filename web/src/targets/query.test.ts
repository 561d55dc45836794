import assert from "node:assert/strict";
import { test } from "node:test";

import { columns, order, orders, parseQuery } from "./query";

test("every order that a link may have has a name on narrow screens", () => {
  const texts = ["", ...columns, ...columns.map((c) => `-${c}`)].map((sort) => order(parseQuery(new URLSearchParams({ sort }))));
  assert.deepEqual(texts.filter((text) => !orders.some(([value]) => value === text)), []);
  assert.equal(new Set(orders.map(([, label]) => label)).size, orders.length);
  assert.equal(orders[0]![0], texts[0]);
});
