package v1

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HorizontalPodAutoscaler returns the autoscaler as an object of autoscaling/v2, with its
// metadata and the parts of its spec and status that autoscaling/v2 has. The result shares
// nothing with a.
func (a *Autoscaler) HorizontalPodAutoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{
			APIVersion: autoscalingv2.SchemeGroupVersion.String(),
			Kind:       "HorizontalPodAutoscaler",
		},
		ObjectMeta: *a.ObjectMeta.DeepCopy(),
		Spec:       *a.Spec.HorizontalPodAutoscalerSpec.DeepCopy(),
		Status:     *a.Status.HorizontalPodAutoscalerStatus.DeepCopy(),
	}
}

// SetHorizontalPodAutoscalerStatus takes over the status of the object that
// [Autoscaler.HorizontalPodAutoscaler] returned, and sets what `kubectl get` shows,
// reference, targets and ready, for the spec as it is. Explanation and recommendation id are
// left as they are. It shares nothing with status.
func (a *Autoscaler) SetHorizontalPodAutoscalerStatus(status *autoscalingv2.HorizontalPodAutoscalerStatus) {
	a.Status.HorizontalPodAutoscalerStatus = *status.DeepCopy()
	ref := a.Spec.ScaleTargetRef
	a.Status.Reference = ref.Kind + "/" + ref.Name
	a.Status.Targets = Targets(a.Spec.Metrics, status.CurrentMetrics)
	a.Status.Ready = string(Ready(status.Conditions))
}

// Ready summarizes conditions: "True" if the workload can be scaled (AbleToScale) and its
// metrics determine a count (ScalingActive). Before the first decision, and for a shadow, there
// are no conditions and the result is "".
func Ready(conditions []autoscalingv2.HorizontalPodAutoscalerCondition) corev1.ConditionStatus {
	if len(conditions) == 0 {
		return ""
	}
	met := 0
	for i := range conditions {
		c := &conditions[i]
		if c.Type != autoscalingv2.AbleToScale && c.Type != autoscalingv2.ScalingActive {
			continue
		}
		switch c.Status {
		case corev1.ConditionFalse:
			return corev1.ConditionFalse
		case corev1.ConditionTrue:
			met++
		}
	}
	if met == 2 {
		return corev1.ConditionTrue
	}
	return corev1.ConditionUnknown
}

// SyncPeriod returns the spec's period, or orElse if it sets none.
func (s *AutoscalerSpec) SyncPeriod(orElse time.Duration) time.Duration {
	if s.SyncPeriodSeconds == nil {
		return orElse
	}
	return time.Duration(*s.SyncPeriodSeconds) * time.Second
}
