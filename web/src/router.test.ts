import assert from "node:assert/strict";
import { test } from "node:test";
import { route } from "./router";

test("paths name views", () => {
  assert.deepEqual(route("/ui/"), { view: "targets" });
  assert.deepEqual(route("/ui"), { view: "targets" });
  assert.deepEqual(route("/ui/operations"), { view: "operations" });
  assert.deepEqual(route("/ui/playground"), { view: "playground" });
  assert.deepEqual(route("/ui/clusters/prod/namespaces/shop/targets/web"), { view: "target", cluster: "prod", namespace: "shop", target: "web" });
  assert.deepEqual(route("/ui/clusters/prod/namespaces/shop/targets/web/fleet"), { view: "fleet", cluster: "prod", namespace: "shop", target: "web" });
});

test("what no target is called names nothing", () => {
  for (const path of ["/", "/ui/x", "/ui/clusters/a/namespaces/b/targets/%3Cscript%3E", "/ui/clusters/a/namespaces/b", "/ui/clusters/a/namespaces/b/targets/c/d", "/ui/clusters/a/namespaces/b/targets/c/fleet/x", "/ui/clusters/a/namespaces/b/targets/%3C/fleet"]) {
    assert.deepEqual(route(path), { view: "none" }, path);
  }
});
