package servertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// JSON is a message as JSON.
func JSON(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := protojson.Marshal(m)
	fatal.If(t, err)
	return string(b)
}

// Platform is the platform of the agents of a test.
var Platform = strings.Repeat("0a", 32)

// Period is how often Kubernetes' controller evaluates.
const Period = 15 * time.Second

// PodsRequest returns a request with that many pods of two containers, at the
// 60 % of their cpu requests that are wanted.
func PodsRequest(pods int) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{Target: Web, Scale: &setpointv1.Scale{SpecReplicas: int32(pods)}}
	req.Spec = &setpointv1.HorizontalPodAutoscalerSpec{
		MinReplicas: new(int32(2)), MaxReplicas: 5000,
		Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
		}}},
	}
	ready := &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(T0.Add(-WebAge))}
	for i := range pods {
		name := fmt.Sprintf("web-7d9c5b8f6d-%05d", i)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: timestamppb.New(T0.Add(-WebAge)), Ready: ready,
			Containers: []*setpointv1.Container{
				{Name: "app", Requests: map[string]string{"cpu": "450m", "memory": "512Mi"}},
				{Name: "proxy", Requests: map[string]string{"cpu": "50m", "memory": "64Mi"}},
			},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: name, Timestamp: timestamppb.New(T0), WindowSeconds: 30,
			Containers: []*setpointv1.ContainerMetrics{
				{Name: "app", Usage: map[string]string{"cpu": "262345678n", "memory": "215040Ki"}},
				{Name: "proxy", Usage: map[string]string{"cpu": "37654322n", "memory": "9216Ki"}},
			},
		})
	}
	return req
}

// Encoded is a message in the one encoding that it always has.
func Encoded(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	fatal.If(tb, err)
	return data
}

// TakeSlowPath has a request take the slow path: no encoder gives a field twice.
func TakeSlowPath(r *setpointv1.RecommendRequest) {
	r.ProtoReflect().SetUnknown([]byte{15 << 3, 0, 15 << 3, 0})
}

// RecommendPath is the REST path of a target's recommendations.
func RecommendPath(target string) string { return "/v1/" + target + ":recommend" }

// Web is the target that most tests ask for.
const Web = "clusters/demo/namespaces/shop/targets/web"

// WebBody is the request of the API's description: three pods at 90 % of their
// cpu requests, with 60 % wanted.
const WebBody = `{
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

// WebRequest is webBody as a message, changed as given.
func WebRequest(tb testing.TB, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	tb.Helper()
	req := &setpointv1.RecommendRequest{}
	fatal.If(tb, protojson.Unmarshal([]byte(WebBody), req))
	req.Target = Web
	for _, change := range changes {
		change(req)
	}
	return req
}

// Queue returns a request for a target that scales on the length of a queue, ten
// entries per replica: the smallest request that decides. Nothing limits its changes.
func Queue(target string, replicas, length int32) *setpointv1.RecommendRequest {
	req := answertest.Queue(target, replicas, length)
	req.Spec.Behavior.ScaleDown = &setpointv1.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(0)), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 15}},
	}
	return req
}

// WithID gives a request an id.
func WithID(id string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.RequestId = id }
}

// WithTarget makes a request one for another target.
func WithTarget(target string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.Target = target }
}

// Explained asks for an explanation.
func Explained(r *setpointv1.RecommendRequest) { r.Explain = true }

// DryRun has a request change nothing.
func DryRun(r *setpointv1.RecommendRequest) { r.DryRun = true }

// EvaluatedAt makes a request one of that instant.
func EvaluatedAt(t time.Time) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.EvaluationTime = timestamppb.New(t) }
}

// With returns a copy of the request with changes.
func With(req *setpointv1.RecommendRequest, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req = proto.CloneOf(req)
	for _, change := range changes {
		change(req)
	}
	return req
}

// WithoutID returns a copy of the answer without what differs between two that
// are the same otherwise.
func WithoutID(resp *setpointv1.RecommendResponse) *setpointv1.RecommendResponse {
	resp = proto.CloneOf(resp)
	resp.RecommendationId = ""
	return resp
}

// WebAge is how long ago the pods of web started.
const WebAge = 10 * time.Minute

// OverGateway is a header that only the gateway understands.
const OverGateway = "Grpc-Timeout"

// DayOfWeb is a scenario of a day.
const DayOfWeb = `
duration: 24h
load: [{daily: {low: 40, high: 400, peak: "14:00"}}]
workload:
  requests: {cpu: 500m}
  limits: {cpu: "1"}
  startup: 30s
  usage: [{metric: cpu, perLoad: 10m, idle: 20m}]
`

// SimulatedSpec wants a utilization of cpu.
func SimulatedSpec(utilization, most int32) *setpointv1.HorizontalPodAutoscalerSpec {
	return &setpointv1.HorizontalPodAutoscalerSpec{
		MinReplicas: new(int32(2)), MaxReplicas: most,
		Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &utilization},
		}}},
	}
}
