import assert from "node:assert/strict";
import { test } from "node:test";
import { shadowLine } from "./shadows";

test("a shadow in a line", () => {
  assert.equal(shadowLine({ name: "next", problem: 'its metric "External:queue" is none' }), 'off: its metric "External:queue" is none');
  assert.equal(shadowLine({ name: "next" }), "nothing is decided yet");
  assert.equal(shadowLine({ name: "next", desiredReplicas: 12, liveReplicas: 14, comparedDecisions: "1", differentDecisions: "1", largestDifference: -2 }), "12 beside 14, 1 of 1 decisions differ (100 %), by up to -2");
  assert.equal(
    shadowLine({ name: "next", desiredReplicas: 3, liveReplicas: 3, comparedDecisions: "40", differentDecisions: "3", largestDifference: 4, liveReplicaSeconds: "2000", shadowReplicaSeconds: "1720", observedDuration: "604800s" }),
    "3 beside 3, 3 of 40 decisions differ (7.5 %), by up to +4; 86 % of the replicas over 7 d",
  );
  // As TestPercent in internal/printable.
  for (const [want, part, of] of [["12.3 %", 49, 400], ["0.0333 %", 1, 3000], ["0 %", 0, 7]] as const) {
    assert.ok(shadowLine({ name: "next", comparedDecisions: String(of), differentDecisions: String(part) }).includes(`differ (${want})`), want);
  }
});
