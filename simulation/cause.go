package simulation

import (
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Cause is what determined a count: the metrics, or what held or limited them.
type Cause string

// The causes other than windows and policies, whose names contain their numbers.
const (
	CauseMetrics       Cause = "metrics"
	CauseMaximum       Cause = "maxReplicas"
	CauseMinimum       Cause = "minReplicas"
	CauseFailingMetric Cause = "failing metric"
	CauseDisabled      Cause = "disabled at 0"
	CauseOverride      Cause = "override"
	CauseOther         Cause = "other"
)

// causeOf returns what determined the count last: an override, else a bound or a policy, else a window,
// else the metrics.
func causeOf(d *recommender.Decision) Cause {
	if d.Adjusted != nil && slices.ContainsFunc(d.Adjusted.Adjustments, func(a recommender.Adjustment) bool { return a.Stage == recommender.StageOverride }) {
		return CauseOverride
	}
	switch d.Path {
	case recommender.PathMetricsFailed:
		return CauseFailingMetric
	case recommender.PathScalingDisabled:
		return CauseDisabled
	case recommender.PathAboveMax:
		return CauseMaximum
	case recommender.PathBelowMin:
		return CauseMinimum
	case recommender.PathMetrics:
	default:
		return CauseOther
	}
	e := d.Explanation
	if e == nil {
		return CauseMetrics
	}
	switch e.Bounds.Reason {
	case recommender.TooManyReplicas:
		return CauseMaximum
	case recommender.TooFewReplicas:
		return CauseMinimum
	case recommender.ScaleUpLimit, recommender.ScaleDownLimit:
		return policyOf(&e.RateLimit)
	}
	if s := &e.Stabilization; s.Stabilized != s.Proposed {
		return windowOf(s)
	}
	return CauseMetrics
}

// policyOf names the policy that limited a change.
func policyOf(r *recommender.RateLimit) Cause {
	direction := "scaleUp"
	if r.Direction == recommender.Down {
		direction = "scaleDown"
	}
	if r.SelectPolicy == recommender.NoSelection {
		return Cause(direction + " disabled")
	}
	for _, p := range r.Policies {
		if p.Selected {
			return Cause(fmt.Sprintf("%s policy %s %d/%ds", direction, p.Policy.Type, p.Policy.Value, p.Policy.PeriodSeconds))
		}
	}
	return Cause(direction + " limit")
}

// windowOf names the window that held a count.
func windowOf(s *recommender.Stabilization) Cause {
	direction, name := recommender.Up, "scaleUp"
	if s.Stabilized > s.Proposed {
		direction, name = recommender.Down, "scaleDown"
	}
	for _, window := range s.Windows[:s.WindowsLen] {
		if window.Direction == direction {
			return Cause(fmt.Sprintf("%s window %ds", name, int(window.Length.Seconds())))
		}
	}
	return Cause(name + " window")
}
