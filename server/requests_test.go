package server_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// web is the target that most tests ask for.
const web = "clusters/demo/namespaces/shop/targets/web"

// webBody is the request of the API's description: three pods at 90 % of their
// cpu requests, with 60 % wanted.
const webBody = `{
  "spec": {
    "minReplicas": 2, "maxReplicas": 20,
    "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                 "target": {"type": "Utilization", "averageUtilization": 60}}}],
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 120}}
  },
  "scale": {"specReplicas": 3, "statusReplicas": 3},
  "pods": [
    {"name": "web-a", "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "deleting": false,
     "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:00:20Z"},
     "containers": [{"name": "app", "requests": {"cpu": "450m"}}],
     "initContainers": [{"name": "proxy", "restartable": true, "requests": {"cpu": "50m"}}]},
    {"name": "web-b", "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
     "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:00:20Z"},
     "containers": [{"name": "app", "requests": {"cpu": "500m"}}]},
    {"name": "web-c", "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
     "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:00:20Z"},
     "containers": [{"name": "app", "requests": {"cpu": "500m"}}]}
  ],
  "podMetrics": [
    {"pod": "web-a", "timestamp": "2026-01-01T00:09:50Z", "windowSeconds": 30,
     "containers": [{"name": "app", "usage": {"cpu": "440m", "memory": "210Mi"}}, {"name": "proxy", "usage": {"cpu": "10m", "memory": "9Mi"}}]},
    {"pod": "web-b", "timestamp": "2026-01-01T00:09:50Z", "windowSeconds": 30,
     "containers": [{"name": "app", "usage": {"cpu": "450m", "memory": "210Mi"}}]},
    {"pod": "web-c", "timestamp": "2026-01-01T00:09:50Z", "windowSeconds": 30,
     "containers": [{"name": "app", "usage": {"cpu": "450m", "memory": "210Mi"}}]}
  ],
  "options": {"profile": "v1.36", "tolerance": "0.1", "cpuInitializationPeriod": "300s", "initialReadinessDelay": "30s",
              "downscaleStabilization": "300s", "scaleToZero": false}
}`

// webRequest is webBody as a message, changed as given.
func webRequest(tb testing.TB, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	tb.Helper()
	req := &setpointv1.RecommendRequest{}
	if err := protojson.Unmarshal([]byte(webBody), req); err != nil {
		tb.Fatal(err)
	}
	req.Target = web
	for _, change := range changes {
		change(req)
	}
	return req
}

// queue returns a request for a target that scales on the length of a queue, ten
// entries per replica: the smallest request that decides. Nothing limits its changes.
func queue(target string, replicas, length int32) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 1000,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 15}}},
				ScaleDown: &setpointv1.HPAScalingRules{
					StabilizationWindowSeconds: new(int32(0)),
					Policies:                   []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 15}},
				},
			},
		},
		Scale: &setpointv1.Scale{SpecReplicas: replicas},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: fmt.Sprint(length),
		}},
	}
}

// Changes of requests.

func withID(id string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.RequestId = id }
}

func withTarget(target string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.Target = target }
}

func explained(r *setpointv1.RecommendRequest) { r.Explain = true }

func dryRun(r *setpointv1.RecommendRequest) { r.DryRun = true }

func evaluatedAt(t time.Time) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.EvaluationTime = timestamppb.New(t) }
}

// with returns a copy of the request with changes.
func with(req *setpointv1.RecommendRequest, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req = proto.CloneOf(req)
	for _, change := range changes {
		change(req)
	}
	return req
}

// withoutID returns a copy of the answer without what differs between two that
// are the same otherwise.
func withoutID(resp *setpointv1.RecommendResponse) *setpointv1.RecommendResponse {
	resp = proto.CloneOf(resp)
	resp.RecommendationId = ""
	return resp
}

// webAge is how long ago the pods of web started.
const webAge = 10 * time.Minute

func timestampOf(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }
