package stages

import (
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/recommender"
)

// window tells that the count was recorded although the metrics failed: before what the guards and
// overrides tell, which act later.
func (r *run) window(d *recommender.Decision) {
	if !r.plan.WindowThroughFailures || d.Path != recommender.PathMetricsFailed || len(r.adjusted.Adjustments) >= recommender.MaxAdjustments {
		return
	}
	at := slices.IndexFunc(r.adjusted.Adjustments, func(a recommender.Adjustment) bool { return a.Stage > recommender.StageWindow })
	if at < 0 {
		at = len(r.adjusted.Adjustments)
	}
	r.adjusted.Adjustments = slices.Insert(r.adjusted.Adjustments, at, recommender.Adjustment{
		Stage: recommender.StageWindow, Rule: "failures", Before: -1, After: -1,
		Message: fmt.Sprintf("metrics fail: the current %d replicas are recorded for the stabilization window", d.Current),
	})
}
