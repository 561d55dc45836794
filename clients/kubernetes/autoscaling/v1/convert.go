package v1

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HorizontalPodAutoscaler returns the autoscaler as an object of autoscaling/v2, with
// its metadata, the part of its spec and the part of its status that autoscaling/v2
// has. It shares nothing with a: either may be changed.
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
// reference and targets, for the spec as it is. Explanation and recommendation id are
// left as they are. It shares nothing with status.
func (a *Autoscaler) SetHorizontalPodAutoscalerStatus(status *autoscalingv2.HorizontalPodAutoscalerStatus) {
	a.Status.HorizontalPodAutoscalerStatus = *status.DeepCopy()
	ref := a.Spec.ScaleTargetRef
	a.Status.Reference = ref.Kind + "/" + ref.Name
	a.Status.Targets = Targets(a.Spec.Metrics, status.CurrentMetrics)
}

// SyncPeriod returns how often the agent decides anew, or else where the spec does not
// say.
func (s *AutoscalerSpec) SyncPeriod(orElse time.Duration) time.Duration {
	if s.SyncPeriodSeconds == nil {
		return orElse
	}
	return time.Duration(*s.SyncPeriodSeconds) * time.Second
}
