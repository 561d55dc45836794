import assert from "node:assert/strict";
import { test } from "node:test";
import { listedOverrides } from "../overrides/targets";
import { adjustments } from "./adjustments";
import { current, fromField, instant, made, mayOverride, placesOf, placeWords, sentence, toField, tomorrowMorning, what, wrong, type Draft } from "./overrides";
import { plainText } from "./text";

const target = "clusters/prod/namespaces/shop/targets/cart";
const { namespace, cluster } = placesOf(target);
const now = Date.UTC(2026, 10, 26, 14, 0, 0);
const draft = (more: Partial<Draft> = {}): Draft => ({ kind: "hold", replicas: "", reason: "migration", start: undefined, end: now + 3600e3, ...more });

test("texts of strangers change nothing around them", () => {
  for (const [text, want] of [
    ["\u202egnirts", "\ufffdgnirts"], ["a\u2066b\u2069c", "a\ufffdb\ufffdc"], ["a\nb\tc\u0000", "a\ufffdb\ufffdc\ufffd"], ["\u200bx\ufeff", "\ufffdx\ufffd"],
    ["e\u0301\u0300\u0302\u0303\u0304\u0305\u0306!", "e\u0301\u0300\u0302\u0303!"], ["<b>&amp;", "<b>&amp;"], ["👩‍🚀 مرحبا", "👩‍🚀 مرحبا"], [undefined, ""],
  ] as const) assert.equal(plainText(text), want);
  assert.equal(plainText("👩".repeat(400), 10), `${"👩".repeat(9)}…`, "no half of a character");
  assert.ok(plainText("x".repeat(1e6)).length <= 300);
  assert.equal(adjustments({ adjustments: [{ stage: "OVERRIDE", message: 'held at 3 by \u202eecila until …' }] })[0]!.text, "held at 3 by \ufffdecila until …");
});

test("buttons are for those who have the verb, in the place", () => {
  const may = (permissions: object[], place: string, more: object = {}) => mayOverride({ permissions, ...more }, place);
  const all = [{ verbs: ["read", "override"], clusters: ["*"], namespaces: ["*"] }];
  for (const place of [target, namespace, cluster]) {
    assert.ok(may(all, place));
    assert.ok(!may([{ ...all[0], verbs: ["read", "recommend", "delete", "simulate", "configure", "operate"] }], place), "another verb");
    assert.ok(!may([{ ...all[0], clusters: ["pro", "staging*"] }], place), "another cluster");
    assert.ok(!mayOverride(undefined, place), "nobody known");
    assert.ok(may([], place, { permissionsTruncated: true }), "not all is known: the service decides");
  }
  const shop = [{ verbs: ["override"], clusters: ["pr*"], namespaces: ["sh*p"] }];
  assert.deepEqual([target, namespace, cluster].map((p) => may(shop, p)), [true, true, false], "a cluster needs all its namespaces");
  assert.ok(!may([{ verbs: ["override"], clusters: ["prod"], namespaces: ["sho."] }], target), "a point is a point");
});

test("words of overrides", () => {
  assert.equal(what({ hold: true }), "hold");
  assert.equal(what({ pin: 0 }), "pin 0");
  assert.equal(what({ floor: 2, ceiling: 8, noScaleDown: true, noScaleUp: true }), "floor 2, ceiling 8, no scale-down, no scale-up");
  assert.equal(what({}), "of a newer kind");
  assert.deepEqual([target, namespace, cluster].map(placeWords), ["target cart", "all of namespace shop", "all of cluster prod"]);
});

test("what is in force comes first, what has ended not at all", () => {
  const at = (ms: number) => new Date(now + ms).toISOString();
  const all = [
    { name: "over", startTime: at(-9), expireTime: at(0) }, { name: "later", startTime: at(9), expireTime: at(20) }, { name: "long", startTime: at(-9), expireTime: at(30) },
    { name: "short", startTime: at(0), expireTime: at(10) }, { name: "soon", startTime: at(1), expireTime: at(90) },
  ];
  assert.deepEqual(current(all, now).map((o) => [o.override.name, o.planned]), [["short", false], ["long", false], ["soon", true], ["later", true]]);
});

test("what is wrong is told by field, before the service is asked", () => {
  assert.deepEqual(wrong(draft(), now), {});
  for (const [more, field] of [
    [{ reason: "  " }, "reason"], [{ reason: "a\nb" }, "reason"], [{ reason: "x".repeat(257) }, "reason"], [{ kind: "pin", replicas: "" }, "replicas"], [{ kind: "floor", replicas: "-1" }, "replicas"],
    [{ kind: "ceiling", replicas: "1.5" }, "replicas"], [{ kind: "pin", replicas: "2147483648" }, "replicas"], [{ end: now }, "end"], [{ end: NaN }, "end"],
    [{ start: now + 7200e3 }, "end"], [{ start: NaN }, "start"], [{ end: now + 30 * 86400e3 + 1 }, "end"], [{ start: now + 366 * 86400e3, end: now + 367 * 86400e3 }, "start"],
  ] as [Partial<Draft>, string][]) assert.deepEqual(Object.keys(wrong(draft(more), now)), [field], JSON.stringify(more));
  assert.deepEqual(wrong(draft({ kind: "pin", replicas: "0", end: now + 30 * 86400e3 }), now), {});
});

test("the service gets what was confirmed", () => {
  assert.deepEqual(made(draft({ reason: " why " })), { hold: true, reason: "why", expireTime: "2026-11-26T15:00:00Z" });
  assert.deepEqual(made(draft({ kind: "pin", replicas: " 7 ", start: now + 1000 })), { pin: 7, reason: "migration", startTime: "2026-11-26T14:00:01Z", expireTime: "2026-11-26T15:00:00Z" });
});

test("what will happen is told in the service's words", () => {
  const known = { replicas: 10, min: 2, max: 20 };
  const by = 'by alice until 2026-11-26T15:00:00Z: "migration"';
  for (const [more, want] of [
    [{}, "held at 10"], [{ kind: "pin", replicas: "30" }, "pinned to 30 (limited to maxReplicas 20)"], [{ kind: "pin", replicas: "0" }, "pinned to 0 (limited to minReplicas 2)"],
    [{ kind: "pin", replicas: "6" }, "pinned to 6"], [{ kind: "floor", replicas: "12" }, "raised to the floor of 12"], [{ kind: "ceiling", replicas: "8" }, "lowered to the ceiling of 8"],
    [{ kind: "noScaleUp" }, "held at 10 (no scale-up)"], [{ kind: "noScaleDown" }, "held at 10 (no scale-down)"],
  ] as [Partial<Draft>, string][]) assert.equal(sentence(draft(more), "alice", known), `${want} ${by}`);
  assert.ok(sentence(draft(), "", {}).startsWith("held at the current count by somebody until"));
});

test("instants are on the reader's clock, and in UTC for the service", () => {
  const morning = new Date(tomorrowMorning(now));
  assert.deepEqual([morning.getHours(), morning.getMinutes()], [8, 0]);
  assert.ok(morning.getTime() > now && morning.getTime() < now + 48 * 3600e3);
  assert.equal(fromField(toField(now)), now);
  assert.ok(Number.isNaN(fromField("tomorrow")) && Number.isNaN(fromField("")));
  assert.equal(instant(now), "2026-11-26T14:00:00Z");
});

test("the list has what acts on the targets that are listed", () => {
  const names = [`${target}/overrides/a`, `${namespace}/overrides/b`, `${cluster}/overrides/c`, "clusters/prod/namespaces/pay/overrides/d", "clusters/eu/overrides/e"];
  const listed = { all: names.map((name) => ({ name })), more: false, error: undefined };
  const shown = (rows: string[], all: boolean, text = "") => listedOverrides(listed, rows.map((name) => ({ name })), all, text).map((o) => o.name!.at(-1)).join("");
  assert.equal(shown([], true), "abcde");
  assert.equal(shown([target], false, "cart"), "abc");
  assert.equal(shown([], false, "pay"), "d");
  assert.equal(shown([], false), "");
});
