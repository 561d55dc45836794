import assert from "node:assert/strict";
import { test } from "node:test";
import type { DecisionJson as Decision } from "@setpoint-dev/client/json";
import { type Bounds, boundsOver, needsRecording, within } from "./bounds";

const decision = (at: number, min?: number, max?: number): Decision => ({ time: new Date(at * 1000).toISOString(), basis: max === undefined ? { proposal: 4 } : { minReplicas: min, maxReplicas: max } });
const at = (at: number, min: number | null, max: number | null): Bounds => ({ at, min, max });

test("bounds are those of each decision, and unknown where one does not say", () => {
  assert.deepEqual(boundsOver([decision(10, 2, 9), decision(20, 2, 9), decision(30), decision(40, 0, 9), decision(50, 3, 12)], undefined), [at(10, 2, 9), at(30, null, null), at(40, 0, 9), at(50, 3, 12)]);
  assert.deepEqual(boundsOver([{ time: new Date(10_000).toISOString() }], undefined), [at(10, null, null)]);
  assert.deepEqual(boundsOver([], undefined), []);
});

test("a recording says what the log left out, as far as it goes", () => {
  // Recorded from 5 to 35, with a gap after 16: the change at 30 is unknown to the log.
  const recorded = { bounds: [[5000, 1, 9], [15000, 2, 9], [16001], [25000, 2, 9], [30000, 3, 9]], counts: [[5000, 4], [35000, 4]] as [number, number][] };
  assert.deepEqual(boundsOver([decision(10, 1, 9), decision(20), decision(30), decision(50), decision(60, 3, 12)], recorded), [
    at(5, 1, 9), at(15, 2, 9), at(16.001, null, null), at(25, 2, 9), at(30, 3, 9), at(50, null, null), at(60, 3, 12),
  ]);
  // In its gap a decision that says so counts.
  assert.deepEqual(boundsOver([decision(20, 4, 8)], recorded).slice(2, 5), [at(16.001, null, null), at(20, 4, 8), at(25, 2, 9)]);
  // Another spec is in force since its last decision.
  assert.deepEqual(boundsOver([decision(35, 3, 9), decision(40, 7, 8)], recorded).at(-1), at(40, 7, 8));
  assert.deepEqual(boundsOver([decision(10, 1, 9)], { bounds: null, counts: null }), [at(10, 1, 9)]);
});

test("a recording is read only where decisions leave a question", () => {
  assert.equal(needsRecording([]), false);
  assert.equal(needsRecording([decision(10)]), false);
  assert.equal(needsRecording([decision(10, 2, 9), decision(20, 2, 9)]), false);
  assert.equal(needsRecording([decision(10, 2, 9), decision(20)]), true);
  assert.equal(needsRecording([decision(10, 2, 9), { ...decision(20), outcome: "PENDING" }]), false);
  assert.equal(needsRecording([decision(10, 2, 9), decision(20, 3, 9)]), true);
});

test("a span begins with the bounds that were in force", () => {
  const all = [at(10, 2, 9), at(30, null, null), at(40, 3, 9)];
  assert.deepEqual(within(all, 20, 35), [at(20, 2, 9), at(30, null, null)]);
  assert.deepEqual(within(all, 0, 10), [at(10, 2, 9)]);
  assert.deepEqual(within(all, 50, 60), [at(50, 3, 9)]);
});
