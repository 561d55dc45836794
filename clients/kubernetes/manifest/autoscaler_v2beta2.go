package manifest

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// v2beta2Autoscaler is autoscaling/v2beta2: v2 without the tolerances.
type v2beta2Autoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              v2beta2Spec                                 `json:"spec"`
	Status            autoscalingv2.HorizontalPodAutoscalerStatus `json:"status"`
}

type v2beta2Spec struct {
	ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
	MinReplicas    *int32                                    `json:"minReplicas"`
	MaxReplicas    int32                                     `json:"maxReplicas"`
	Metrics        []autoscalingv2.MetricSpec                `json:"metrics"`
	Behavior       *v2beta2Behavior                          `json:"behavior"`
}

type v2beta2Behavior struct {
	ScaleUp   *v2beta2Rules `json:"scaleUp"`
	ScaleDown *v2beta2Rules `json:"scaleDown"`
}

type v2beta2Rules struct {
	StabilizationWindowSeconds *int32                             `json:"stabilizationWindowSeconds"`
	SelectPolicy               *autoscalingv2.ScalingPolicySelect `json:"selectPolicy"`
	Policies                   []autoscalingv2.HPAScalingPolicy   `json:"policies"`
}

func decodeV2beta2(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	var in v2beta2Autoscaler
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, err
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Status = in.Status
	out.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: in.Spec.ScaleTargetRef,
		MinReplicas:    in.Spec.MinReplicas,
		MaxReplicas:    in.Spec.MaxReplicas,
		Metrics:        in.Spec.Metrics,
	}
	if in.Spec.Behavior != nil {
		out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   in.Spec.Behavior.ScaleUp.toV2(),
			ScaleDown: in.Spec.Behavior.ScaleDown.toV2(),
		}
	}
	return out, nil
}

func (r *v2beta2Rules) toV2() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	return &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: r.StabilizationWindowSeconds,
		SelectPolicy:               r.SelectPolicy,
		Policies:                   r.Policies,
	}
}
