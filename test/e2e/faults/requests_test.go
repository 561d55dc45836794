package faults

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// current is the current count in requests.
const current = 3

func target(name string) string { return "clusters/demo/namespaces/shop/targets/" + name }

// wants returns a request that wants so many replicas: a queue with ten entries per replica.
// Scale-ups are immediate; scale-downs are stabilized for an hour, so that the history keeps
// every recommendation.
func wants(target, id string, replicas int32) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target, RequestId: id,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 1_000_000,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1_000_000, PeriodSeconds: 1800}}},
				ScaleDown: &setpointv1.HPAScalingRules{
					StabilizationWindowSeconds: new(int32(3600)),
					Policies:                   []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1_000_000, PeriodSeconds: 1800}},
				},
			},
		},
		Scale: &setpointv1.Scale{SpecReplicas: current},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: fmt.Sprint(10 * replicas),
		}},
	}
}

// with returns a copy of the request with changes.
func with(req *setpointv1.RecommendRequest, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req = proto.CloneOf(req)
	for _, change := range changes {
		change(req)
	}
	return req
}

// withoutTarget leaves the target to the path of a REST call.
func withoutTarget(r *setpointv1.RecommendRequest) { r.Target = "" }
