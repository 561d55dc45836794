import assert from "node:assert/strict";
import { test } from "node:test";
import { forecast } from "./adjustments";

test("a forecast is read from what its stage says", () => {
  const said = (message: string, stage = "FORECAST") => forecast({ adjustments: [{ stage: "BOUNDS", message: "forecast 1 for" }, { stage, message }] });
  assert.equal(said("forecast 14 for 08:15 (90 % of 14 days) is above the metrics' 9"), 14);
  assert.equal(said("forecast 14 not used: excess 62 % in 7 days; the metrics' 9 counts"), 14);
  assert.equal(said("no forecast yet: it needs this time of 7 days"), undefined);
  assert.equal(said("forecast 14 for 08:15", "SCHEDULE"), undefined);
  assert.equal(said("forecast 99999999999 for 08:15"), undefined);
  assert.equal(forecast({}), undefined);
});
