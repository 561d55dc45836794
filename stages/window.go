package stages

import (
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/recommender"
)

// remembers reports whether the count is recorded if failed metrics hold it: where one fails in truth. Whose
// fall is only not believed yet does not count: the window would begin anew with each doubt, and a true fall
// wait for both, one after the other.
func (r *run) remembers(c *recommender.Combining) bool {
	if !r.plan.WindowThroughFailures {
		return false
	}
	failed := 0
	for i := range c.Metrics {
		if e := &c.Metrics[i]; e.Failure != nil && !e.Ignored {
			failed++
		}
	}
	for i, suspect := range r.suspects {
		if e := r.evaluationOf(c, i); suspect && e != nil && e.Failure != nil && !e.Ignored {
			failed--
		}
	}
	return failed > 0
}

// window tells that the count was recorded although the metrics failed: before what the guards and
// overrides tell, which act later.
func (r *run) window(d *recommender.Decision) {
	if !r.remembered || d.Path != recommender.PathMetricsFailed || len(r.adjusted.Adjustments)+len(r.adjusted.Overrides) >= recommender.MaxAdjustments {
		return
	}
	at := slices.IndexFunc(r.adjusted.Adjustments, func(a recommender.Adjustment) bool {
		return a.Stage == recommender.StageReversals || a.Stage == recommender.StageOverride
	})
	if at < 0 {
		at = len(r.adjusted.Adjustments)
	}
	r.adjusted.Adjustments = slices.Insert(r.adjusted.Adjustments, at, recommender.Adjustment{
		Stage: recommender.StageWindow, Rule: "failures", Before: -1, After: -1,
		Message: fmt.Sprintf("metrics fail: the current %d replicas are recorded for the stabilization window", d.Current),
	})
}
