package agent

import (
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConflictingController is the type of the condition that another controller acts on the
// object. It is a separate condition because the built-in controller rewrites its own
// conditions at each reconcile but leaves others alone.
const ConflictingController autoscalingv2.HorizontalPodAutoscalerConditionType = "ConflictingController"

// prepare prepares a status of the service for storing: it truncates times to whole seconds, as
// the API does, and lets no condition's last transition precede the stored one, which the agent
// itself may have written.
func prepare(next, stored *autoscalingv2.HorizontalPodAutoscalerStatus) {
	if next.LastScaleTime != nil {
		at := next.LastScaleTime.Rfc3339Copy()
		next.LastScaleTime = &at
	}
	now := metav1.Now().Rfc3339Copy()
	for i := range next.Conditions {
		c := &next.Conditions[i]
		c.LastTransitionTime = c.LastTransitionTime.Rfc3339Copy()
		had := conditionOf(stored, c.Type)
		if had == nil && c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = now
		}
		if had == nil || !c.LastTransitionTime.Before(&had.LastTransitionTime) {
			continue
		}
		c.LastTransitionTime = had.LastTransitionTime
		if had.Status != c.Status {
			c.LastTransitionTime = now
		}
	}
}

// withoutOwn returns the status without the conditions that only this service has, which the built-in
// controller would leave as they are.
func withoutOwn(status *autoscalingv2.HorizontalPodAutoscalerStatus) *autoscalingv2.HorizontalPodAutoscalerStatus {
	own := func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == "Overridden" || c.Type == "MetricFallbackActive" || c.Type == "MetricSuspect"
	}
	if !slices.ContainsFunc(status.Conditions, own) {
		return status
	}
	next := status.DeepCopy()
	next.Conditions = slices.DeleteFunc(next.Conditions, own)
	return next
}

// conditionOf returns the condition of that type, nil if there is none.
func conditionOf(status *autoscalingv2.HorizontalPodAutoscalerStatus, kind autoscalingv2.HorizontalPodAutoscalerConditionType) *autoscalingv2.HorizontalPodAutoscalerCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// withHold returns the status with AbleToScale=False for that reason since that time, and
// otherwise unchanged.
func withHold(status *autoscalingv2.HorizontalPodAutoscalerStatus, reason, message string, since time.Time) *autoscalingv2.HorizontalPodAutoscalerStatus {
	next := status.DeepCopy()
	c := conditionOf(next, autoscalingv2.AbleToScale)
	if c == nil {
		next.Conditions = append(next.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: autoscalingv2.AbleToScale})
		c = &next.Conditions[len(next.Conditions)-1]
	}
	if c.Status != corev1.ConditionFalse {
		c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(since).Rfc3339Copy()
	}
	c.Reason, c.Message = reason, message
	return next
}
