package recommender

import "time"

// Status is a HorizontalPodAutoscalerStatus.
type Status struct {
	// ObservedGeneration is that of the spec that was evaluated last, nil if the
	// profile does not observe it or the request has none; it is never changed in
	// place.
	ObservedGeneration *int64
	// LastScaleTime is zero when the replicas were never changed.
	LastScaleTime   time.Time
	CurrentReplicas int32
	DesiredReplicas int32
	// CurrentMetrics has one entry per metric; a failed one has an empty Type.
	CurrentMetrics []MetricStatus
	// Conditions are in order of first appearance.
	Conditions []Condition
}

// MetricStatus is the last reading of one metric.
type MetricStatus struct {
	Type            MetricType
	Resource        string
	Container       string
	Metric          MetricIdentifier
	DescribedObject ObjectReference
	Current         MetricValue
}

// MetricValue is a reading; each field with a flag that reports whether it is set.
type MetricValue struct {
	// Value is a total, AverageValue an average per replica, milli-units.
	Value, AverageValue int64
	// AverageUtilization is in percent.
	AverageUtilization                               int32
	HasValue, HasAverageValue, HasAverageUtilization bool
	// Binary reports whether quantities print with binary suffixes.
	Binary bool
}

// Condition types, in upstream's words.
const (
	AbleToScale    = "AbleToScale"
	ScalingActive  = "ScalingActive"
	ScalingLimited = "ScalingLimited"
	ScaledToZero   = "ScaledToZero"
)

// Condition statuses.
const (
	ConditionTrue    = "True"
	ConditionFalse   = "False"
	ConditionUnknown = "Unknown"
)

// Condition is one condition of a status.
type Condition struct {
	Type, Status, Reason, Message string
	// LastTransitionTime is when Status last changed.
	LastTransitionTime time.Time
}

// conditionByType returns the condition of that type, nil if there is none.
func conditionByType(conditions []Condition, kind string) *Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// setCondition sets a condition as upstream's setConditionInList does: in place
// or at the end, with a new transition time only if the status changes.
func setCondition(conditions []Condition, now time.Time, kind, status, reason, message string) []Condition {
	c := conditionByType(conditions, kind)
	if c == nil {
		return append(conditions, Condition{kind, status, reason, message, now})
	}
	if c.Status != status {
		c.Status, c.LastTransitionTime = status, now
	}
	c.Reason, c.Message = reason, message
	return conditions
}

// removeCondition removes the condition of that type in place.
func removeCondition(conditions []Condition, kind string) []Condition {
	kept := conditions[:0]
	for _, c := range conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	return kept
}

// Event is an event that upstream's controller would send.
type Event struct {
	// Type is EventNormal or EventWarning.
	Type, Reason, Message string
}

// Event types.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)
