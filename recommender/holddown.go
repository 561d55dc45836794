package recommender

import "time"

// Withheld is a scale-down that was decided and not asked for.
type Withheld struct {
	// Replicas are those it would have come to, Reason is what Decision.Reason
	// would have been.
	Replicas int32
	Reason   string
}

// withholds reports whether HoldDown keeps the count from changing to that one.
// What the history may lack is what others recorded meanwhile: a recommendation
// that would hold the count, or a scale-down that has used up the policies. A
// count that is too high for a while costs less than one that is too low. Of 5
// replicas of which 3 would do 5 stay; where 8 are needed there become 8. The
// controller keeps its history in memory and has no such rule.
func (d *decider) withholds(desired int32) bool { return d.in.HoldDown && desired < d.current }

// withhold ends an evaluation that came to a count below the current one as if it
// had come to the current one. So the status' desired replicas are those, as
// upstream stores them where stabilization holds the count: the status says what
// the workload is asked to have. The desired replicas of before, which stay where
// metrics fail, would be those of an evaluation that came to nothing.
func (d *decider) withhold(desired int32, reason string, statuses []MetricStatus) {
	d.trace.Withheld = &Withheld{desired, reason}
	d.setCondition(AbleToScale, ConditionFalse, HistoryUnavailable, "the history store can't be reached; a scale-down from "+
		formatReplicas(d.current)+" to "+formatReplicas(desired)+" is withheld until it answers")
	if !d.unableSince.IsZero() {
		// In between it was True within this evaluation only.
		conditionByType(d.next.Status.Conditions, AbleToScale).LastTransitionTime = d.unableSince
	}
	d.setStatus(d.current, statuses)
}

// unableSince is since when AbleToScale is False; zero: it is not.
func unableSince(conditions []Condition) time.Time {
	if c := conditionByType(conditions, AbleToScale); c != nil && c.Status == ConditionFalse {
		return c.LastTransitionTime
	}
	return time.Time{}
}
