package explain

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/replay"
)

var start = time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)

// checkout is the request of a target with that many pods of 500m each; pod i uses usage(i)
// milli-cores; below 0: it has no sample.
func checkout(pods int, name string, usage func(i int) int) *setpointv1.RecommendRequest {
	replicas := int32(pods)
	window := int32(300)
	sixty := int32(60)
	req := &setpointv1.RecommendRequest{
		Target: "clusters/eu-1/namespaces/shop/targets/checkout",
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "checkout", ApiVersion: "apps/v1"},
			MinReplicas:    proto.Int32(2), MaxReplicas: 5000,
			Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
				Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &sixty},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &window},
			},
		},
		Scale:          &setpointv1.Scale{SpecReplicas: replicas},
		EvaluationTime: timestamppb.New(start),
	}
	for i := range pods {
		pod := &setpointv1.Pod{
			Name: fmt.Sprintf(name, i), Phase: "Running", StartTime: timestamppb.New(start.Add(-time.Hour)),
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(start.Add(-time.Hour))},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}},
		}
		req.Pods = append(req.Pods, pod)
		if u := usage(i); u >= 0 {
			req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
				Pod: pod.GetName(), Timestamp: timestamppb.New(start), WindowSeconds: 30,
				Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": fmt.Sprintf("%dm", u)}}},
			})
		}
	}
	return req
}

// thousand is a target with a thousand pods, some of which don't count.
func thousand() *setpointv1.RecommendRequest {
	req := checkout(1000, "checkout-%04d", func(i int) int {
		if i%97 == 0 {
			return -1
		}
		return 200 + i*7%271
	})
	req.Pods[3].Deleting = true
	for i := 100; i < 130; i++ {
		req.Pods[i].Phase = "Pending"
	}
	return req
}

func TestGoldenOptions(t *testing.T) {
	narrow := func() *setpointv1.RecommendRequest {
		return checkout(3, "checkout-frontend-7d4b9c6f5d-with-a-rather-long-suffix-%d", func(i int) int { return 440 + 10*i })
	}
	for _, g := range []struct {
		file string
		req  *setpointv1.RecommendRequest
		opts Options
	}{
		{"many-pods", thousand(), Options{}},
		{"narrow", narrow(), Options{Width: 60}},
		{"color", narrow(), Options{Color: true}},
		{"zone", narrow(), Options{Zone: time.FixedZone("CET", 3600)}},
	} {
		t.Run(g.file, func(t *testing.T) {
			golden(t, g.file, g.req, decide(t, replay.NewEngine(), g.req, ""), g.opts)
		})
	}
}

// For very many pods an answer lists the first ones, over all metrics, and says how many it
// omits.
func TestGoldenPodsLeftOut(t *testing.T) {
	const pods = recommender.DefaultExplainLimit + 12
	req := checkout(pods, "checkout-%05d", func(i int) int { return 280 + i%3*20 })
	req.Spec.MaxReplicas = 2 * pods
	req.Spec.Metrics = append(req.Spec.Metrics, req.Spec.Metrics[0])
	golden(t, "pods-left-out", req, decide(t, replay.NewEngine(), req, ""), Options{})
}

func TestAllPodsListsEach(t *testing.T) {
	req := thousand()
	var out bytes.Buffer
	fatal.If(t, Write(&out, req, decide(t, replay.NewEngine(), req, ""), Options{AllPods: true}))
	for _, pod := range req.GetPods() {
		if !strings.Contains(out.String(), "\n  "+pod.GetName()+"  ") {
			t.Fatalf("%s is not listed", pod.GetName())
		}
	}
}

func TestGoldenPartsMissing(t *testing.T) {
	req := checkout(12, "checkout-%d", func(int) int { return 100 })
	full := decide(t, replay.NewEngine(), req, "")
	without := func(change func(*setpointv1.RecommendResponse)) *setpointv1.RecommendResponse {
		resp := proto.CloneOf(full)
		change(resp)
		return resp
	}
	golden(t, "no-request", nil, full, Options{})
	golden(t, "no-explanation", req, without(func(r *setpointv1.RecommendResponse) { r.Explanation = nil }), Options{})
	golden(t, "truncated", req, without(func(r *setpointv1.RecommendResponse) {
		r.Explanation.Truncated = true
		r.Explanation.Metrics[0].Pods = nil
	}), Options{})
}

func TestNoResponse(t *testing.T) {
	if err := Write(&bytes.Buffer{}, nil, nil, Options{}); err == nil {
		t.Error("no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestWriteError(t *testing.T) {
	if err := Write(broken{}, nil, &setpointv1.RecommendResponse{}, Options{}); err == nil || err.Error() != "closed" {
		t.Error(err)
	}
}

// TestBareSummaries tests answers without an explanation.
func TestBareSummaries(t *testing.T) {
	condition := func(kind, status, reason, message string) *setpointv1.HorizontalPodAutoscalerCondition {
		return &setpointv1.HorizontalPodAutoscalerCondition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	able := condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
	active := condition("ScalingActive", "True", "ValidMetricFound", "valid")
	limited := condition("ScalingLimited", "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
	type conditions = []*setpointv1.HorizontalPodAutoscalerCondition
	for _, test := range []struct {
		name     string
		from, to int32
		reason   string
		status   conditions
		want     string
	}{
		{"steady", 3, 3, "", conditions{able, active}, "stays at 3 replicas: the metrics ask for no change"},
		{"up", 3, 5, "cpu resource above target", conditions{able, active}, "3 → 5 replicas (scale up): cpu resource above target"},
		{
			"up to the maximum", 3, 5, "cpu resource above target",
			conditions{able, active, limited},
			"3 → 5 replicas (scale up): cpu resource above target; the desired replica count is more than the maximum replica count",
		},
		{
			"held", 8, 8, "",
			conditions{condition("AbleToScale", "True", "ScaleDownStabilized", "recent recommendations were higher"), active},
			"stays at 8 replicas: recent recommendations were higher",
		},
		{
			"bounds", 12, 5, "Current number of replicas above Spec.MaxReplicas",
			conditions{able, active, limited},
			"12 → 5 replicas (scale down): Current number of replicas above Spec.MaxReplicas",
		},
		{
			"failed", 3, 3, "",
			conditions{able, condition("ScalingActive", "False", "FailedGetResourceMetric", "unable to compute"), limited},
			"stays at 3 replicas: unable to compute",
		},
		{
			"no scale", 3, 3, "",
			conditions{condition("AbleToScale", "False", "FailedGetScale", "unable to get"), active},
			"left as it is (last known count: 3): unable to get",
		},
		{"never a scale", 0, 0, "", conditions{condition("AbleToScale", "False", "FailedGetScale", "unable to get")}, "left as it is (no count is known): unable to get"},
		{
			"no fleet's decision", 3, 3, "",
			conditions{able, condition("ScalingActive", "Unknown", "FleetUndecided", "the fleet has not decided yet")},
			"stays at 3 replicas: the fleet has not decided yet",
		},
		{"nothing known", 1, 1, "", nil, "stays at 1 replica: the metrics ask for no change"},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp := &setpointv1.RecommendResponse{
				CurrentReplicas: test.from, DesiredReplicas: test.to, Reason: test.reason,
				Status: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: test.status},
			}
			if got := Summary(resp); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// Of a member of a fleet only the share is explained: the computation in the answer is the fleet's, with other counts.
func TestAShareIsNotExplainedWithTheFleetsNumbers(t *testing.T) {
	var out strings.Builder
	err := Write(&out, &setpointv1.RecommendRequest{Target: "clusters/west/namespaces/shop/targets/web"}, &setpointv1.RecommendResponse{
		CurrentReplicas: 12, DesiredReplicas: 8, Action: "SCALE_DOWN", Reason: "share of fleet: 8 of 20", Fleet: &setpointv1.FleetShare{ShareTotal: 20, DesiredReplicas: 20},
		Explanation: &setpointv1.Explanation{Metrics: []*setpointv1.MetricExplanation{{Name: "queue"}}},
	}, Options{})
	if text := out.String(); err != nil || strings.Contains(text, "queue") || !strings.Contains(text, "share of fleet: 8 of 20") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestHostileText checks that the text contains no control sequences.
func TestHostileText(t *testing.T) {
	req := checkout(2, "pod-%d\x1b[31m\r\n\tred\u202e", func(int) int { return 100 })
	resp := decide(t, replay.NewEngine(), req, "")
	resp.Status.Conditions[0].Message = "first\nsecond\x07\x1b]0;title\x07 " + strings.Repeat("long", 100)
	resp.Explanation.Warnings = []string{"a\u00a0b\u2028c"}
	var out bytes.Buffer
	fatal.If(t, Write(&out, req, resp, Options{}))
	for _, problem := range textProblems(out.String(), defaultWidth) {
		t.Error(problem)
	}
	for _, r := range out.String() {
		if r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' || r == '\u2028' {
			t.Errorf("%q is printed", r)
		}
	}
}
