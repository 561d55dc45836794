package simulation

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/recommender"
)

// What a stage changed or kept is told as the stage's.
func TestCausesOfStages(t *testing.T) {
	adjustment := func(stage recommender.Stage, rule string, before, after int32) recommender.Adjustment {
		return recommender.Adjustment{Stage: stage, Rule: rule, Before: before, After: after}
	}
	const queue = "External:queue"
	for _, c := range []struct {
		name     string
		path     recommender.Path
		bounds   recommender.LimitReason
		proposed int32
		// desired and plain are the count with and without stages.
		desired, plain int32
		adjustments    []recommender.Adjustment
		want           Cause
	}{
		{"no stage", recommender.PathMetrics, "", 8, 8, 8, nil, "metrics"},
		{"a stage that changed nothing of the count", recommender.PathMetrics, "", 8, 8, 8, []recommender.Adjustment{adjustment(recommender.StageFallback, queue, -1, 3)}, "metrics"},
		{"fallback", recommender.PathMetrics, "", 10, 10, 4, []recommender.Adjustment{adjustment(recommender.StageFallback, queue, -1, 10)}, "fallback External:queue"},
		{"an ignored metric", recommender.PathMetrics, "", 3, 3, 12, []recommender.Adjustment{adjustment(recommender.StageFallback, queue, -1, -1)}, "fallback External:queue"},
		{"combined", recommender.PathMetrics, "", 8, 8, 12, []recommender.Adjustment{adjustment(recommender.StageFallback, queue, -1, 12), adjustment(recommender.StageCombine, "QUORUM", 12, 8)}, "combine QUORUM"},
		{"held by combining", recommender.PathMetricsFailed, "", 0, 6, 8, []recommender.Adjustment{adjustment(recommender.StageCombine, "QUORUM", 8, 6)}, "combine QUORUM"},
		{"surge", recommender.PathMetrics, "", 100, 100, 125, []recommender.Adjustment{adjustment(recommender.StageSurge, queue, 125, 100)}, "surge External:queue"},
		{"a voter", recommender.PathMetrics, "", 9, 9, 4, []recommender.Adjustment{adjustment(recommender.StageProposal, "proposal/forecast", 4, 9)}, `proposal "forecast"`},
		{"a paced maximum", recommender.PathMetrics, "", 5, 5, 12, []recommender.Adjustment{adjustment(recommender.StageSchedule, "schedule/night", 12, 5)}, `schedule "night"`},
		{"a minimum at once", recommender.PathBelowMin, "", 0, 8, 2, []recommender.Adjustment{adjustment(recommender.StageBounds, "schedule/office", 2, 8)}, `schedule "office"`},
		{"a minimum at once, from zero", recommender.PathMetrics, "", 0, 8, 0, []recommender.Adjustment{adjustment(recommender.StageBounds, "schedule/office", 0, 8)}, `schedule "office"`},
		{"a minimum at once, from zero, and metrics fail", recommender.PathMetricsFailed, "", 0, 8, 0, []recommender.Adjustment{adjustment(recommender.StageBounds, "schedule/office", 0, 8)}, `schedule "office"`},
		{"the spec's minimum beside it", recommender.PathMetrics, recommender.TooFewReplicas, 1, 2, 2, []recommender.Adjustment{adjustment(recommender.StageBounds, "schedule/night", 20, 8)}, "minReplicas"},
		{"a replica that waits", recommender.PathMetrics, recommender.TooFewReplicas, 0, 1, 0, []recommender.Adjustment{adjustment(recommender.StageIdle, "cooldown", 0, 1)}, "idle cooldown"},
		{"values that count as none", recommender.PathMetrics, "", 0, 0, 1, []recommender.Adjustment{adjustment(recommender.StageIdle, "activation", -1, -1)}, "idle activation"},
		{"a fall that is not believed", recommender.PathMetricsFailed, "", 0, 12, 2, []recommender.Adjustment{adjustment(recommender.StageZeroGuard, queue, -1, -1)}, "zero guard External:queue"},
		{"an old value", recommender.PathMetricsFailed, "", 0, 12, 2, []recommender.Adjustment{adjustment(recommender.StageFreshness, queue, -1, -1)}, "freshness External:queue"},
		{"old samples", recommender.PathMetrics, "", 6, 6, 8, []recommender.Adjustment{adjustment(recommender.StageFreshness, "Resource", -1, -1)}, "freshness Resource"},
		{"a metric that fails in truth", recommender.PathMetricsFailed, "", 0, 12, 12, []recommender.Adjustment{adjustment(recommender.StageWindow, "failures", -1, -1)}, "failing metric"},
		{"reversals", recommender.PathMetrics, "", 4, 8, 4, []recommender.Adjustment{adjustment(recommender.StageReversals, "budget", 4, 8)}, "reversals"},
		{"an override is last", recommender.PathAboveMax, "", 0, 12, 8,
			[]recommender.Adjustment{adjustment(recommender.StageReversals, "budget", 4, 8), adjustment(recommender.StageOverride, "hold", 8, 12)}, "override hold"},
	} {
		d := &recommender.Decision{Path: c.path, Current: 1, Desired: c.desired, Explanation: &recommender.Explanation{}}
		if strings.Contains(c.name, "from zero") {
			d.Current = 0
		}
		d.Explanation.Stabilization.Proposed, d.Explanation.Stabilization.Stabilized = c.proposed, c.proposed
		d.Explanation.Bounds.Reason = c.bounds
		if c.adjustments != nil {
			d.Adjusted = &recommender.Adjusted{Adjustments: c.adjustments, Plain: c.plain}
		}
		if got := causeOf(d); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
