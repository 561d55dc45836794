package stages

import "github.com/setpoint-dev/setpoint/recommender"

// The types of the conditions of failing metrics. They are there once the stage acted, and as long as
// the spec has it. The first is KEP-5679's.
const (
	ExternalMetricFallbackActive = "ExternalMetricFallbackActive"
	MetricFallbackActive         = "MetricFallbackActive"
	MetricSuspect                = "MetricSuspect"
)

// Their reasons.
const (
	FallbackInUse   = "FallbackInUse"
	MetricsValid    = "MetricsValid"
	FallNotBelieved = "FallNotBelieved"
	ValuesBelieved  = "ValuesBelieved"
)

// Report implements recommender.Seam.
func (r *run) Report(c *recommender.Conditions) {
	of := func(external bool) bool {
		for i := range r.plan.Fallbacks {
			m := r.plan.Fallbacks[i].Metric
			if m < len(r.in.Spec.Metrics) && (r.in.Spec.Metrics[m].Type == recommender.ExternalMetric) == external {
				return true
			}
		}
		return false
	}
	const proposed = "in fallback: "
	known := r.combined || !r.finished // that the workload is off, and none acts
	condition(c, ExternalMetricFallbackActive, of(true), known, r.external != "", FallbackInUse, proposed+r.external, MetricsValid, "no external metric is in fallback")
	condition(c, MetricFallbackActive, of(false), known, r.others != "", FallbackInUse, proposed+r.others, MetricsValid, "no metric is in fallback")
	condition(c, MetricSuspect, len(r.plan.ZeroGuards) > 0, true, r.suspicion != "", FallNotBelieved, r.suspicion, ValuesBelieved, "no fall of a metric waits to be believed")
	switch {
	case r.overridden != "":
		c.Set(Overridden, recommender.ConditionTrue, r.overriding, r.overridden)
	case r.unchanged:
		c.Set(Overridden, recommender.ConditionFalse, NotOverriding, "the overrides in force allow the recommendation")
	case c.Has(Overridden):
		c.Remove(Overridden)
	}
}

// condition sets a condition to True, or, where it exists, to False; known reports whether this
// evaluation tells which. Without its stage it is removed.
func condition(c *recommender.Conditions, kind string, staged, known, active bool, reason, message, otherwise, otherMessage string) {
	switch {
	case !staged:
		if c.Has(kind) {
			c.Remove(kind)
		}
	case !known:
	case active:
		c.Set(kind, recommender.ConditionTrue, reason, message)
	case c.Has(kind):
		c.Set(kind, recommender.ConditionFalse, otherwise, otherMessage)
	}
}
