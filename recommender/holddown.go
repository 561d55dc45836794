package recommender

import "time"

// Withheld is a scale-down that was decided but not recommended.
type Withheld struct {
	// Replicas and Reason are what Decision.Desired and Decision.Reason would have been.
	Replicas int32
	Reason   string
}

// withholds reports whether HoldDown prevents a change to that count. The history may
// lack records that other instances made meanwhile: a recommendation that would keep the
// count, or a scale-down that has used up the policies. A count that is too high for a
// while costs less than one that is too low: 5 replicas stay although 3 would do, and
// become 8 if 8 are needed. The controller keeps its history in memory and has no such
// rule.
func (d *decider) withholds(desired int32) bool { return d.in.HoldDown && desired < d.current }

// withhold replaces a count below the current one by the current one. The status' desired
// replicas are then the current ones, as upstream stores them where stabilization holds
// the count. The previous desired replicas would be wrong: they mean, as where metrics
// fail, that the evaluation computed no count.
func (d *decider) withhold(desired int32, reason string, statuses []MetricStatus) {
	d.trace.Withheld = &Withheld{desired, reason}
	d.setCondition(AbleToScale, ConditionFalse, HistoryUnavailable, "the history store can't be reached; a scale-down from "+
		formatReplicas(d.current)+" to "+formatReplicas(desired)+" is withheld until it answers")
	if !d.unableSince.IsZero() {
		// In between it was True only within this evaluation.
		conditionByType(d.next.Status.Conditions, AbleToScale).LastTransitionTime = d.unableSince
	}
	d.setStatus(d.current, statuses)
}

// unableSince returns since when AbleToScale is False; zero: it is not.
func unableSince(conditions []Condition) time.Time {
	if c := conditionByType(conditions, AbleToScale); c != nil && c.Status == ConditionFalse {
		return c.LastTransitionTime
	}
	return time.Time{}
}
