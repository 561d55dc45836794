package staged

import "github.com/setpoint-dev/setpoint/conformance/generate"

// Stage is what scenarios have around the decision.
type Stage struct {
	// Name is a stage's, or Mixed.
	Name string
	// Edit is what the real controller gets in its place.
	Edit string
	// Left is what of the stage is not compared; empty: nothing.
	Left string
}

// Mixed are scenarios with several stages at once.
const Mixed = "mixed"

// Stages are those that are compared.
var Stages = []Stage{
	{generate.Schedules, "`minReplicas` and `maxReplicas` of each instant, by a walk through the minutes of the zone", "what was scaled to zero returns to the minimum also while all metrics fail, which no controller does: the scenario ends there"},
	{generate.PacedSchedules, "one more External metric that proposes the minimum; for a maximum as `caps`", "tolerances: the controller has none here"},
	{generate.Freshness, "the old samples of pods removed; the client of a metric with an old value fails", "two metrics of one API with one name: the scenario ends there"},
	{generate.ZeroGuards, "the client of the metric fails", "as `freshness`"},
	{generate.Idle, "`minReplicas` 1 until the cooldown is over; values that are not active are 0", "as `freshness`"},
	{generate.Surge, "a controller with the change of kubernetes#141134, which no release has", ""},
	{generate.Fallbacks, "an External metric with that proposal in the place of the failing one; an ignored one is not in the spec", "tolerances. The proposal of `lastGood` is that of a one-metric run"},
	{generate.Voters, "one more External metric that proposes the number", "tolerances"},
	{generate.Floors, "`minReplicas`", "as `schedules`"},
	{generate.Caps, "where the cap counts, External metrics that propose it in the place of all", "tolerances. No controller has caps: the proposals are those of one-metric runs, the smaller one is computed here"},
	{generate.Combine, "External metrics that propose the combined count in the place of all; where it is held, 0, beside the failing ones", "tolerances. No controller has other methods than the largest: the proposals are those of one-metric runs, the combination is computed here, with fractions"},
	{generate.Window, "one more reconcile at the same instant, with a metric that proposes the current count and a scale that can't be written", "tolerances"},
	{generate.Reversals, "updates of the scale to fewer replicas fail", ""},
	{generate.Overrides, "updates of the scale to counts that an override does not allow fail; what it makes of them is another writer's change", "scaling to zero"},
	{Fleets, "all pods, series and replicas of 2 to 8 clusters; package `fleet` gets a digest of each", "a scale that can't be read, and pods that can't be selected: such a member is silent. A member that does not do what it is told: what it keeps is a minimum"},
	{Mixed, "all of these edits, for two to six stages at once", "`surge` together with stages that replace proposals"},
}

// The differences between Setpoint and a controller with the edited input that are intended.
const (
	Conditions = "conditions"
	Renamed    = "names"
	Read       = "readings"
	Remembered = "remembered"
	Held       = "held"
	Replaced   = "replaced"
	Cut        = "cut"
)

// Difference is an intended difference.
type Difference struct {
	Name, Fields, Reason string
}

// Differences are the intended ones. Everything else is compared, in every field.
var Differences = []Difference{
	{Conditions, "conditions `Overridden`, `ExternalMetricFallbackActive`, `MetricFallbackActive`, `MetricSuspect`",
		"No controller has them. They are left out, and the others are compared in their order."},
	{Renamed, "texts that name the metric whose proposal counts",
		"The controller names the External metric that stands for a stage. Its name is replaced by that of the fallback, the proposal, the schedule or the method."},
	{Read, "current metrics, and events of failing metrics, of a step whose metrics were replaced",
		"They are those of the metrics that the spec has, as the one-metric runs of the real controller tell them: a fallback does not hide that its metric fails."},
	{Remembered, "`ScalingActive` and `ScalingLimited` after one more reconcile",
		"It changes both in the controller. In Setpoint they stay as the failing evaluation set them; their times are those of the steps that were compared."},
	{Held, "a prevented change: the event `FailedRescale`, the error, the desired replicas, the reason of `AbleToScale`, and until when that has been True",
		"The controller's update failed. Setpoint does not try: nothing went wrong, the desired replicas are the current ones, and there is nothing to tell but the adjustment."},
	{Replaced, "a change by an override: the written count, the event, `AbleToScale`, the desired replicas; without scaling to zero, that a change removes `ScaledToZero`",
		"For the controller somebody else changes the count, and its own update fails. It records no scale event and no time of a scale, and neither does Setpoint, which is compared."},
	{Cut, "a fleet's texts of more than 256 bytes",
		"A digest has 256 bytes of texts: their beginning is compared."},
}
