import assert from "node:assert/strict";
import { test } from "node:test";
import { shadowLine } from "./shadows";

test("a shadow in a line", () => {
  assert.equal(shadowLine({ name: "next", problem: 'its metric "External:queue" is none' }), 'off: its metric "External:queue" is none');
  assert.equal(shadowLine({ name: "next" }), "nothing is decided yet");
  assert.equal(shadowLine({ name: "next", desiredReplicas: 12, liveReplicas: 14, comparedDecisions: "1", differentDecisions: "1" }), "12 beside 14, 1 of 1 decisions differ (100 %)");
  assert.equal(
    shadowLine({ name: "next", desiredReplicas: 3, liveReplicas: 3, comparedDecisions: "40", differentDecisions: "3", liveReplicaSeconds: "2000", shadowReplicaSeconds: "1720" }),
    "3 beside 3, 3 of 40 decisions differ (7.5 %), 86 % of the replicas",
  );
});
