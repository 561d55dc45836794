package answertest

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Queue returns a request for a target that scales on the length of a queue, ten entries per
// replica. Its history keeps each recommendation for an hour.
func Queue(target string, replicas, length int32) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 1000,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 15}}},
				ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(3600))},
			},
		},
		Scale: &setpointv1.Scale{SpecReplicas: replicas},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: fmt.Sprint(length),
		}},
	}
}

// Problem returns a status error with details.
func Problem(code codes.Code, details ...protoadapt.MessageV1) error {
	s, err := status.New(code, "as the test wants it").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// ComeBack is a server's request to retry later.
func ComeBack(after time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}
