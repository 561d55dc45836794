package simulation

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Cause is what determined a count: the metrics, or what held or limited them.
type Cause string

// The causes other than windows and policies, whose names contain their numbers, and stages, whose names contain
// what it was: fallback External:queue, schedule "office", override hold.
const (
	CauseMetrics       Cause = "metrics"
	CauseMaximum       Cause = "maxReplicas"
	CauseMinimum       Cause = "minReplicas"
	CauseFailingMetric Cause = "failing metric"
	CauseDisabled      Cause = "disabled at 0"
	CauseReversals     Cause = "reversals"
	CauseForecast      Cause = "forecast"
	// CauseMembers is that of a change of a fleet's count without a decision: a member was lost, or returned.
	CauseMembers Cause = "members"
	CauseOther   Cause = "other"
)

// ReasonOf is the reason of a decision in upstream's words, and what stages and overrides say of it.
func ReasonOf(d *recommender.Decision) string {
	if d.Adjusted == nil {
		return d.Reason
	}
	messages := make([]string, 0, len(d.Adjusted.Adjustments))
	for i := range d.Adjusted.Adjustments {
		if a := &d.Adjusted.Adjustments[i]; !adjusted.Tells(a.Stage.String(), a.Rule) {
			messages = append(messages, a.Message)
		}
	}
	return adjusted.Reason(d.Reason, messages...)
}

// bound is a bound of the spec as a cause, or what moved it: schedule "office".
func bound(d *recommender.Decision, own Cause) Cause {
	moved := stage(d, func(a *recommender.Adjustment) bool {
		return (a.Stage == recommender.StageBounds && strings.Contains(a.Rule, "/") || a.Stage == recommender.StageIdle) && a.After >= 0 && (a.After > a.Before) == (own == CauseMinimum)
	})
	return cmp.Or(moved, own)
}

// stage is the last stage of a decision that is asked for, as a cause; empty: there is none.
func stage(d *recommender.Decision, asked func(*recommender.Adjustment) bool) Cause {
	if d.Adjusted == nil {
		return ""
	}
	for i := len(d.Adjusted.Adjustments) - 1; i >= 0; i-- {
		a := &d.Adjusted.Adjustments[i]
		if !asked(a) {
			continue
		}
		if kind, of, named := strings.Cut(a.Rule, "/"); named && (kind == "schedule" || kind == "proposal") {
			return Cause(fmt.Sprintf("%s %q", kind, of))
		}
		switch a.Stage {
		case recommender.StageReversals:
			return CauseReversals
		case recommender.StageForecast:
			return CauseForecast
		default:
		}
		return Cause(strings.ToLower(strings.ReplaceAll(a.Stage.String(), "_", " ")) + " " + a.Rule)
	}
	return ""
}

// proposing is the stage that made the metrics' proposal.
func proposing(d *recommender.Decision, proposed int32) Cause {
	made := stage(d, func(a *recommender.Adjustment) bool {
		return (a.Stage >= recommender.StageSurge && a.Stage <= recommender.StageCombine || a.Stage == recommender.StageForecast) && (a.After == proposed || a.After == d.Desired)
	})
	if made == "" && d.Adjusted != nil && d.Adjusted.Plain != d.Desired {
		made = stage(d, func(a *recommender.Adjustment) bool {
			return a.Stage == recommender.StageFreshness || a.Stage == recommender.StageZeroGuard || a.Stage == recommender.StageIdle || a.Stage == recommender.StageFallback
		})
	}
	return cmp.Or(made, CauseMetrics)
}

// causeOf returns what determined the count last: an override or a budget of reversals, else a bound, the spec's or a
// schedule's, or a policy, else a window, else the stage that made the proposal, else the metrics.
func causeOf(d *recommender.Decision) Cause {
	if last := stage(d, func(a *recommender.Adjustment) bool {
		return a.Stage == recommender.StageReversals || a.Stage == recommender.StageOverride
	}); last != "" {
		return last
	}
	e := d.Explanation
	if e != nil && d.Current == 0 && d.Desired > e.Bounds.Bounded && d.Path != recommender.PathScaleUnavailable {
		return bound(d, CauseMinimum) // what was scaled to zero returned to a minimum
	}
	switch d.Path {
	case recommender.PathMetricsFailed:
		return cmp.Or(stage(d, func(a *recommender.Adjustment) bool {
			return a.Stage == recommender.StageFreshness && a.Rule != "Resource" || a.Stage == recommender.StageZeroGuard || a.Stage == recommender.StageCombine
		}), CauseFailingMetric)
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
	return proposing(d, e.Stabilization.Proposed)
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
