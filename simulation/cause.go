package simulation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/adjusted"
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

// ReasonOf is the reason of a decision in upstream's words, and what stages and overrides say of it.
func ReasonOf(d *recommender.Decision) string {
	if d.Adjusted == nil {
		return d.Reason
	}
	messages := make([]string, 0, len(d.Adjusted.Adjustments))
	for i := range d.Adjusted.Adjustments {
		messages = append(messages, d.Adjusted.Adjustments[i].Message)
	}
	return adjusted.Reason(d.Reason, messages...)
}

// bound is a bound of the spec as a cause, or what moved it: schedule "office".
func bound(d *recommender.Decision, own Cause) Cause {
	if d.Adjusted == nil {
		return own
	}
	for i := range d.Adjusted.Adjustments {
		a := &d.Adjusted.Adjustments[i]
		kind, of, named := strings.Cut(a.Rule, "/")
		if a.Stage == recommender.StageBounds && named && (a.After > a.Before) == (own == CauseMinimum) {
			return Cause(fmt.Sprintf("%s %q", kind, of))
		}
	}
	return own
}

// causeOf returns what determined the count last: an override, else a bound, the spec's or a schedule's, or a policy,
// else a window, else the metrics.
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
		return bound(d, CauseMaximum)
	case recommender.PathBelowMin:
		return bound(d, CauseMinimum)
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
		return bound(d, CauseMaximum)
	case recommender.TooFewReplicas:
		return bound(d, CauseMinimum)
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
