import assert from "node:assert/strict";
import { test } from "node:test";
import { scenarioOf, empty } from "../playground/state";
import { knownZone, timeLabels, timeOfDay } from "./clock";

test("charts have the clock of the zone that they are about", () => {
  const noon = Date.UTC(2026, 0, 5, 12) / 1000;
  assert.equal(timeOfDay(noon, "Asia/Tokyo"), "21:00:00");
  assert.equal(timeOfDay(noon, "UTC"), "12:00:00");
  assert.equal(timeOfDay(noon + 12 * 3600, "UTC"), "00:00:00", "the hours of a day are 0 to 23");
  assert.match(timeOfDay(noon, "UTC", true), /Mon.*12:00:00/);
  assert.equal(timeOfDay(noon, "No/Where", true), timeOfDay(noon, undefined, true), "of a zone that the browser does not know");
  assert.deepEqual(timeLabels([noon, noon + 3600], "Europe/Berlin"), ["13:00", "14:00"]);
  // The beginning of a day is labelled in that zone.
  const labels = timeLabels([noon, noon + 3 * 3600, noon + 6 * 3600], "Asia/Tokyo");
  assert.equal(labels[0], "21:00");
  assert.match(labels[1]!, /6/);
  assert.equal(labels[2], "03:00");
  assert.equal(timeOfDay(noon, "No/Where"), timeOfDay(noon));
  assert.ok(knownZone("Europe/Berlin") && !knownZone("No/Where"));
});

test("several metrics follow one load, each by its own ratio", () => {
  const text = (workload: Record<string, string>) => scenarioOf({ ...structuredClone(empty), workload });
  const two = text({ metric: "cpu, memory, queue", cpu: "500m, 1Gi", perLoad: "10m, 2Mi" });
  assert.match(two, /requests: \{cpu: 500m, memory: 1Gi\}/);
  assert.match(two, /metric: cpu, perLoad: 10m\}\n    - \{metric: memory, perLoad: 2Mi\}\n    - \{metric: queue, perLoad: 0\}/);
  const one = text({ metric: "memory", cpu: "1Gi", perLoad: "2Mi" });
  assert.match(one, /requests: \{memory: 1Gi\}/);
  assert.match(text({ cpu: "500m" }), /requests: \{cpu: 500m\}\n  usage:\n    - \{metric: cpu, perLoad: 10m\}/);
});
