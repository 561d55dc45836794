package manifest

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// strictSpec is the spec of autoscaling/v2 with the fallback that KEP-5679 adds, for strict reading. It embeds
// nothing, so that errors have the paths of the JSON.
type strictSpec struct {
	ScaleTargetRef autoscalingv2.CrossVersionObjectReference      `json:"scaleTargetRef"`
	MinReplicas    *int32                                         `json:"minReplicas"`
	MaxReplicas    int32                                          `json:"maxReplicas"`
	Metrics        []strictMetric                                 `json:"metrics"`
	Behavior       *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
}

type strictMetric struct {
	Type              autoscalingv2.MetricSourceType               `json:"type"`
	Object            *autoscalingv2.ObjectMetricSource            `json:"object"`
	Pods              *autoscalingv2.PodsMetricSource              `json:"pods"`
	Resource          *autoscalingv2.ResourceMetricSource          `json:"resource"`
	ContainerResource *autoscalingv2.ContainerResourceMetricSource `json:"containerResource"`
	External          *strictExternal                              `json:"external"`
}

type strictExternal struct {
	Metric   autoscalingv2.MetricIdentifier `json:"metric"`
	Target   autoscalingv2.MetricTarget     `json:"target"`
	Fallback *struct {
		FailureDurationSeconds *int32 `json:"failureDurationSeconds"`
		Replicas               int32  `json:"replicas"`
	} `json:"fallback"`
}

// toV2 is the spec without fallbacks.
func (s *strictSpec) toV2() autoscalingv2.HorizontalPodAutoscalerSpec {
	out := autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: s.ScaleTargetRef, MinReplicas: s.MinReplicas, MaxReplicas: s.MaxReplicas, Behavior: s.Behavior}
	if s.Metrics != nil {
		out.Metrics = make([]autoscalingv2.MetricSpec, len(s.Metrics))
	}
	for i, m := range s.Metrics {
		out.Metrics[i] = autoscalingv2.MetricSpec{Type: m.Type, Object: m.Object, Pods: m.Pods, Resource: m.Resource, ContainerResource: m.ContainerResource}
		if e := m.External; e != nil {
			out.Metrics[i].External = &autoscalingv2.ExternalMetricSource{Metric: e.Metric, Target: e.Target}
		}
	}
	return out
}

// withFallbacks adds the fallbacks of a spec in JSON to its stages, which may be nil, and returns how many.
func withFallbacks(spec json.RawMessage, stages *setpointv1.Stages) (with *setpointv1.Stages, n int, err error) {
	if len(spec) == 0 {
		return stages, 0, nil
	}
	var taken []string
	for _, f := range stages.GetFallbacks() {
		taken = append(taken, f.GetMetric())
	}
	fallbacks, err := autoscalingv1.SpecFallbacks(spec, taken)
	if err != nil {
		return nil, 0, fmt.Errorf("spec.%w", err)
	}
	if len(fallbacks) == 0 {
		return stages, 0, nil
	}
	added, err := (&autoscalingv1.Stages{Fallbacks: fallbacks}).ToProto()
	if err != nil || stages == nil {
		return added, len(fallbacks), err
	}
	proto.Merge(stages, added)
	return stages, len(fallbacks), nil
}
