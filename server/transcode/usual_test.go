package transcode_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// t0 is the instant that the tests decide for.
var t0 = time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)

// podsRequest returns a request with that many pods, of two containers each.
func podsRequest(pods int) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/shop/targets/web",
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
			MinReplicas:    new(int32(2)), MaxReplicas: 5000,
			Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
				Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
			}}},
		},
		Scale: &setpointv1.Scale{SpecReplicas: int32(pods), Selector: "app=web"}, RequestId: "5f0c8a53-1",
	}
	for i := range pods {
		name := fmt.Sprintf("web-7d9c5b8f6d-%05d", i)
		at := t0.Add(-time.Hour + time.Duration(i)*time.Second)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: timestamppb.New(at),
			Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(at.Add(4 * time.Second))},
			Containers: []*setpointv1.Container{
				{Name: "app", Requests: map[string]string{"cpu": "450m", "memory": "512Mi"}},
				{Name: "proxy", Requests: map[string]string{"cpu": "50m", "memory": "64Mi"}},
			},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: name, Timestamp: timestamppb.New(t0.Add(-time.Duration(i%15) * time.Second)), WindowSeconds: 15.5,
			Containers: []*setpointv1.ContainerMetrics{
				{Name: "app", Usage: map[string]string{"cpu": fmt.Sprintf("%dn", 262345678+i), "memory": "215040Ki"}},
				{Name: "proxy", Usage: map[string]string{"cpu": "37654322n", "memory": "9216Ki"}},
			},
		})
	}
	return req
}

// metricsRequest returns a request with metrics of the other kinds, rules for
// scaling, options and a previous status.
func metricsRequest() *setpointv1.RecommendRequest {
	queue := &setpointv1.MetricIdentifier{Name: "queue", Selector: &setpointv1.LabelSelector{
		MatchLabels:      map[string]string{"shard": "1", "tier": "front"},
		MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}},
	}}
	hits := &setpointv1.MetricIdentifier{Name: "hits"}
	route := &setpointv1.CrossVersionObjectReference{Kind: "Ingress", Name: "main", ApiVersion: "networking.k8s.io/v1"}
	average := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("30")}
	req := podsRequest(3)
	req.Spec.Metrics = append(req.Spec.Metrics,
		&setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: queue, Target: average}},
		&setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{
			DescribedObject: route, Metric: hits, Target: &setpointv1.MetricTarget{Type: "Value", Value: new("2k")},
		}},
		&setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: hits, Target: average}},
		&setpointv1.MetricSpec{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{
			Name: "memory", Container: "app", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(80))},
		}},
	)
	req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
		ScaleUp: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new("Max"), Policies: []*setpointv1.HPAScalingPolicy{
			{Type: "Pods", Value: 4, PeriodSeconds: 60}, {Type: "Percent", Value: 100, PeriodSeconds: 15},
		}},
		ScaleDown: &setpointv1.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(120)), Tolerance: new("0.05"),
			Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 2, PeriodSeconds: 60}},
		},
	}
	req.CustomMetrics = []*setpointv1.CustomMetric{
		{Metric: hits, DescribedObject: route, Timestamp: timestamppb.New(t0), Value: "3k"},
		{Metric: hits, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: req.Pods[0].Name, ApiVersion: "v1"}, Value: "35500m", WindowSeconds: new(60.0)},
	}
	req.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: queue, Labels: map[string]string{"shard": "1", "tier": "front", "zone": "a"}, Timestamp: timestamppb.New(t0), Value: "90"}}
	req.Options = &setpointv1.RecommendOptions{Profile: "v1.36", CpuInitializationPeriod: durationpb.New(300 * time.Second), InitialReadinessDelay: durationpb.New(30500 * time.Millisecond)}
	req.EvaluationTime, req.Explain = timestamppb.New(t0), true
	req.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: new(int64(7)), LastScaleTime: timestamppb.New(t0.Add(-time.Hour)), CurrentReplicas: 3, DesiredReplicas: 3,
		Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{
			Type: "AbleToScale", Status: "True", LastTransitionTime: timestamppb.New(t0.Add(-time.Hour)), Reason: "ReadyForNewScale",
			Message: `recommended size "matches" current size`,
		}},
	}
	return req
}

// answer decides on a request and returns the encoded response.
func answer(tb testing.TB, req *setpointv1.RecommendRequest) []byte {
	tb.Helper()
	request, ok := wire.NewDecoder(recommender.DefaultOptions()).Decode(encode(tb, req), nil)
	if !ok {
		tb.Fatal("the request was not decoded")
	}
	defer request.Release()
	decision, _ := recommender.Recommend(t0, &request.Input, &recommender.History{})
	out, ok := wire.AppendResponse(nil, &decision, "")
	if !ok {
		tb.Fatal("the decision was not encoded")
	}
	return out
}

func example(tb testing.TB, file string) []byte {
	tb.Helper()
	return []byte(testpages.Read(tb, file))
}

// usual are usual messages, which must be accepted.
type usual struct {
	name string
	subject
	text, wire []byte
}

func usualRequests(tb testing.TB) []usual {
	requests := subjectOf(&setpointv1.RecommendRequest{})
	of := func(name string, text []byte, m proto.Message) usual {
		u := usual{name: name, subject: requests, text: text}
		if m != nil {
			u.subject, u.text, u.wire = subjectOf(m), write(tb, m), encode(tb, m)
		}
		return u
	}
	return []usual{
		of("pods=10", nil, podsRequest(10)),
		of("pods=1000", nil, podsRequest(1000)),
		of("metrics", nil, metricsRequest()),
		of("batch", nil, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{podsRequest(10), metricsRequest()}}),
		of("report", nil, &setpointv1.ReportScaleRequest{Target: "clusters/demo/namespaces/shop/targets/web", RecommendationId: "01a1fc41", Outcome: "APPLIED"}),
		of("demo", example(tb, "../../deploy/demo/request.json"), nil),
	}
}

func usualAnswers(tb testing.TB) []usual {
	explained := podsRequest(20)
	explained.Explain = true
	responses := subjectOf(&setpointv1.RecommendResponse{})
	var all []usual
	for name, req := range map[string]*setpointv1.RecommendRequest{"pods=10": podsRequest(10), "explained": explained, "metrics": metricsRequest()} {
		all = append(all, usual{name: name, subject: responses, wire: answer(tb, req)})
	}
	response := &setpointv1.RecommendResponse{}
	fatal.If(tb, proto.Unmarshal(answer(tb, explained), response))
	batch := &setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{
		{Result: &setpointv1.BatchRecommendResult_Response{Response: response}}, {},
	}}
	report := &setpointv1.ReportScaleResponse{Status: response.GetStatus(), Events: response.GetEvents(), RecommendationId: response.GetRecommendationId()}
	return append(all,
		usual{name: "batch", subject: subjectOf(batch), wire: encode(tb, batch)},
		usual{name: "report", subject: subjectOf(report), wire: encode(tb, report)},
	)
}

func TestUsualRequestsAreTaken(t *testing.T) {
	for _, u := range usualRequests(t) {
		if !u.toWire(t, u.text) {
			t.Errorf("%s is not taken", u.name)
		}
	}
}

// What usual requests become stays on the fast path further on.
func TestUsualRequestsAreDecoded(t *testing.T) {
	decoder := wire.NewDecoder(recommender.DefaultOptions())
	for _, text := range [][]byte{write(t, podsRequest(10)), write(t, metricsRequest())} {
		out, ok := subjectOf(podsRequest(0)).tables.AppendWire(nil, text)
		if !ok {
			t.Fatalf("not taken: %s", text)
		}
		request, ok := decoder.Decode(out, nil)
		if !ok {
			t.Fatalf("not decoded: %s", text)
		}
		request.Release()
	}
}

func TestUsualAnswersAreTaken(t *testing.T) {
	for _, u := range usualAnswers(t) {
		if !u.toJSON(t, u.wire) {
			t.Errorf("%s is not taken: %x", u.name, u.wire)
		}
	}
}

var block = regexp.MustCompile("(?s)```json\n(.*?)```")

// The answers in the documents are taken.
func TestExamplesAreTaken(t *testing.T) {
	blocks := block.FindAllSubmatch(example(t, "../../docs/start/rest.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("no example")
	}
	for _, b := range blocks {
		if responses := subjectOf(&setpointv1.RecommendResponse{}); !responses.toWire(t, b[1]) {
			t.Errorf("not taken: %s", b[1])
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	out := make([]byte, 0, 1<<20)
	for _, u := range usualRequests(t) {
		if n := testing.AllocsPerRun(20, func() { u.tables.AppendWire(out, u.text) }); n > 0 {
			t.Errorf("request %s: %v allocations", u.name, n)
		}
	}
	for _, u := range usualAnswers(t) {
		if n := testing.AllocsPerRun(20, func() { u.tables.AppendJSON(out, u.wire) }); n > 0 {
			t.Errorf("answer %s: %v allocations", u.name, n)
		}
	}
}
