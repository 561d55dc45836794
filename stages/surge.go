package stages

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/recommender"
)

// surge replaces the observed replicas by the spec's where an average of an Object or External metric is
// within the tolerance, as kubernetes/kubernetes#141134 does: the pods that a rollout adds would else become
// replicas of the spec.
func (r *run) surge(c *recommender.Combining) {
	if !r.plan.IgnoreSurge || c.StatusReplicas == c.Current {
		return
	}
	for i := range c.Metrics {
		e := &c.Metrics[i]
		if e.Failure != nil || e.Ignored || e.Rule != recommender.WithinTolerance || e.Calculation != recommender.AverageValuePerReplicaCalculation {
			continue
		}
		before := e.Proposal
		e.Proposal, c.Edited = c.Current, true
		if i >= len(r.plan.Metrics) {
			continue
		}
		name := MetricName(e.Spec) // old versions have the metrics in another order than the plan
		a := recommender.Adjustment{Stage: recommender.StageSurge, Rule: name, Metric: name, Before: before, After: c.Current}
		a.Message = fmt.Sprintf("%s is within tolerance: %d of the spec, not %d of the status", a.Metric, c.Current, before)
		r.tell(a)
	}
}
