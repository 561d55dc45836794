package manifest

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// v2beta1Autoscaler is autoscaling/v2beta1. Its metrics have the same shape as those in the
// annotations of autoscaling/v1, so it uses v1's types.
type v2beta1Autoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              v2beta1Spec   `json:"spec"`
	Status            v2beta1Status `json:"status"`
}

type v2beta1Spec struct {
	ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
	MinReplicas    *int32                                    `json:"minReplicas"`
	MaxReplicas    int32                                     `json:"maxReplicas"`
	Metrics        []autoscalingv1.MetricSpec                `json:"metrics"`
}

type v2beta1Status struct {
	ObservedGeneration *int64                                           `json:"observedGeneration"`
	LastScaleTime      *metav1.Time                                     `json:"lastScaleTime"`
	CurrentReplicas    int32                                            `json:"currentReplicas"`
	DesiredReplicas    int32                                            `json:"desiredReplicas"`
	CurrentMetrics     []autoscalingv1.MetricStatus                     `json:"currentMetrics"`
	Conditions         []autoscalingv2.HorizontalPodAutoscalerCondition `json:"conditions"`
}

func decodeV2beta1(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	var in v2beta1Autoscaler
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, err
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: in.Spec.ScaleTargetRef,
		MinReplicas:    in.Spec.MinReplicas,
		MaxReplicas:    in.Spec.MaxReplicas,
		Metrics:        metricSpecsFromV1(in.Spec.Metrics),
	}
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		LastScaleTime:      in.Status.LastScaleTime,
		CurrentReplicas:    in.Status.CurrentReplicas,
		DesiredReplicas:    in.Status.DesiredReplicas,
		CurrentMetrics:     metricStatusesFromV1(in.Status.CurrentMetrics),
		Conditions:         in.Status.Conditions,
	}
	// v2beta1 has no field for behavior and stored it in v1's annotation.
	if err := applyAnnotations(out, behaviorAnnotation); err != nil {
		return nil, err
	}
	return out, nil
}
