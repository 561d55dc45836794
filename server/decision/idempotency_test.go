package decision_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// sameBytes fails the test unless two answers are the same to the byte.
func sameBytes(tb testing.TB, got, want proto.Message) {
	tb.Helper()
	if !bytes.Equal(servertest.Encoded(tb, got), servertest.Encoded(tb, want)) {
		servertest.SameMessage(tb, got, want)
		tb.Error("the answers differ in their bytes")
	}
}

func TestARetryGetsTheAnswerThatWasRecorded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		req  func() *setpointv1.RecommendRequest
	}{
		{"of a change", func() *setpointv1.RecommendRequest { return servertest.WebRequest(t) }},
		{"of a change, explained", func() *setpointv1.RecommendRequest { return servertest.WebRequest(t, servertest.Explained) }},
		{"of no change", func() *setpointv1.RecommendRequest { return servertest.Queue(servertest.Web, 3, 30) }},
		{"of no change, explained", func() *setpointv1.RecommendRequest {
			return servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.Explained)
		}},
		{"of a count that is held, with events", func() *setpointv1.RecommendRequest {
			return servertest.WebRequest(t, servertest.Explained, func(r *setpointv1.RecommendRequest) {
				r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "the metrics API answered 503"}}
			})
		}},
		{"of a scale that could not be read", func() *setpointv1.RecommendRequest {
			return servertest.WebRequest(t, servertest.Explained, func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Reason: "UnknownKind", Message: "no matches for kind"}
			})
		}},
		{"of several metrics with selectors", func() *setpointv1.RecommendRequest { return manyMetrics(t) }},
		{"of a status that was taken over", func() *setpointv1.RecommendRequest {
			return servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "gone"}
				r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{}
				fatal.If(t, protojson.Unmarshal([]byte(`{"observedGeneration": "7", "lastScaleTime": "2025-12-31T23:00:00.25Z", "currentReplicas": 3, "desiredReplicas": 4, "currentMetrics": [
					{"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "210Mi", "averageUtilization": 0}}}, {"type": ""}],
					"conditions": [{"type": "Custom", "status": "Unknown", "reason": "R", "message": "m"}]}`), r.PreviousStatus))
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			req := servertest.With(tt.req(), servertest.WithID("a"))
			first := s.Recommend(t, req)
			before := s.Target(t, servertest.Web)
			s.Clock.Advance(15 * time.Second)
			sameBytes(t, s.Recommend(t, req), first)
			servertest.SameMessage(t, s.Target(t, servertest.Web), before)

			// Over REST, too, although the request differs by now.
			overREST := &setpointv1.RecommendResponse{}
			a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.With(servertest.Queue(servertest.Web, 9, 1), servertest.WithID("a")))
			a.Expect(t, http.StatusOK)
			a.Into(t, overREST)
			servertest.SameMessage(t, overREST, first)
			if got := len(s.Decisions(t, servertest.Web)); got != 1 {
				t.Errorf("the log has %d decisions, want 1", got)
			}
		})
	}
}

// manyMetrics is a request with a metric of every kind.
func manyMetrics(tb testing.TB) *setpointv1.RecommendRequest {
	tb.Helper()
	req := servertest.WebRequest(tb, servertest.Explained)
	fatal.If(tb, protojson.Unmarshal([]byte(`{
		"minReplicas": 1, "maxReplicas": 30, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
		"metrics": [
			{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
			{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}},
			{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50}}},
			{"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"verb": "GET"}}}, "target": {"type": "AverageValue", "averageValue": "30"}}},
			{"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}, "target": {"type": "Value", "value": "1k"}}},
			{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchExpressions": [{"key": "q", "operator": "In", "values": ["a", "b"]}]}}, "target": {"type": "AverageValue", "averageValue": "30"}}}
		]}`), req.Spec))
	for _, pod := range req.GetPods() {
		req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{
			Metric:          &setpointv1.MetricIdentifier{Name: "rps", Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{"verb": "GET"}}},
			DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: pod.GetName()}, Value: "20",
		})
	}
	req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{
		Metric:          &setpointv1.MetricIdentifier{Name: "hits"},
		DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Ingress", Name: "main", ApiVersion: "networking.k8s.io/v1"}, Value: "2k",
	})
	req.ExternalMetrics = []*setpointv1.ExternalMetric{
		{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Labels: map[string]string{"q": "a"}, Value: "40"},
		{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Labels: map[string]string{"q": "b"}, Value: "50"},
	}
	return req
}

func TestARetryGetsTheSameAnswerAfterTheTargetMovedOn(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.WebRequest(t, servertest.WithID("a"), servertest.Explained)
	first := s.Recommend(t, req)
	s.Report(t, servertest.Web, first.GetRecommendationId(), "APPLIED", "")
	sameBytes(t, s.Recommend(t, req), first)
	for i := range 5 {
		s.Clock.Advance(5 * time.Second)
		s.Recommend(t, servertest.Queue(servertest.Web, 5, int32(50+20*i)))
		s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 5, 10), servertest.WithID(fmt.Sprint("b", i))))
	}
	before := s.Target(t, servertest.Web)
	sameBytes(t, s.Recommend(t, req), first)
	// Also where its instant lies before the newest record by now.
	sameBytes(t, s.Recommend(t, servertest.With(req, servertest.EvaluatedAt(servertest.T0))), first)
	servertest.SameMessage(t, s.Target(t, servertest.Web), before)
}

func TestDefaultRetentionIsThatOfTheContract(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID("a"))
	first := s.Recommend(t, req)
	s.Clock.Advance(2 * time.Minute)
	s.Recommend(t, servertest.With(req, servertest.WithID("b")))
	sameBytes(t, s.Recommend(t, req), first)
}

func TestTheNewestAnswersAreRememberedUpToTheLimit(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.AnswerLimit = 3 })
	var ids []string
	for i := range 4 {
		ids = append(ids, s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID(fmt.Sprint(i)))).GetRecommendationId())
	}
	for i := 3; i >= 1; i-- {
		if got := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID(fmt.Sprint(i)))).GetRecommendationId(); got != ids[i] {
			t.Errorf("answer %d of 4 is forgotten although 3 are kept", i+1)
		}
	}
	if got := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID("0"))).GetRecommendationId(); got == ids[0] {
		t.Error("the first of 4 is remembered although 3 are kept")
	}
}

func TestDryRunsIgnoreRequestIDs(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	tried := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("a"), servertest.DryRun))
	first := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID("a")))
	if tried.GetDesiredReplicas() != 6 || first.GetDesiredReplicas() != 3 {
		t.Errorf("got %d and %d replicas, want 6 and 3: the dry run's answer was remembered", tried.GetDesiredReplicas(), first.GetDesiredReplicas())
	}
	if again := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("a"), servertest.DryRun)); again.GetDesiredReplicas() != 6 || again.GetRecommendationId() != "" {
		t.Errorf("got %v, want a decision of its own", again)
	}
}

// On whatever path, every response, even a repeated one, names its request: a caller
// with many targets notices one that went astray.
func TestAnswersSayToWhichRequest(t *testing.T) {
	t.Parallel()
	for way, ask := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			for _, tt := range []struct {
				name string
				req  *setpointv1.RecommendRequest
				want *string
			}{
				{"of a request", servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("a")), new("a")},
				{"of the same one", servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("a")), new("a")},
				{"of another one", servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("b")), new("b")},
				{"of a dry run", servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("c"), servertest.DryRun), new("c")},
				{"of one that has none", servertest.Queue(servertest.Web, 3, 60), nil},
			} {
				resp, _ := ask(t, s, tt.req)
				if got := resp.RequestId; (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
					t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				}
			}
		})
	}
}

func TestRequestIDsOfOtherTargetsAreIndependent(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for i, target := range []string{servertest.Web, servertest.Web + "2", "clusters/other/namespaces/shop/targets/web", "clusters/demo/namespaces/other/targets/web"} {
		got := s.Recommend(t, servertest.With(servertest.Queue(target, 3, int32(10*(i+4))), servertest.WithID("a"))).GetDesiredReplicas()
		if want := int32(i + 4); got != want {
			t.Errorf("%s: got %d replicas, want %d", target, got, want)
		}
	}
}

func TestRequestsWithoutIDsAllCount(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	first, second := s.Recommend(t, servertest.Queue(servertest.Web, 3, 30)), s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	if first.GetRecommendationId() == second.GetRecommendationId() {
		t.Error("two requests got one recommendation")
	}
	if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 2 {
		t.Errorf("%d recommendations are kept, want 2", got)
	}
}

// An explanation of many pods would make every write of the target large.
func TestLargeExplanationsAreRememberedWithoutTheirPods(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.WebRequest(t, servertest.WithID("a"), servertest.Explained)
	req.Pods, req.PodMetrics = nil, nil
	for i := range 1000 {
		name := fmt.Sprintf("web-%d", i)
		req.Pods = append(req.Pods, &setpointv1.Pod{Name: name, Phase: "Running", Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}}})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{Pod: name, Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": "450m"}}}})
	}
	first, again := s.Recommend(t, req), s.Recommend(t, req)
	if got := len(first.GetExplanation().GetMetrics()[0].GetPods()); got != 1000 || first.GetExplanation().GetTruncated() {
		t.Errorf("the first answer explains %d pods, truncated %t, want all 1000", got, first.GetExplanation().GetTruncated())
	}
	if !again.GetExplanation().GetTruncated() || len(again.GetExplanation().GetMetrics()[0].GetPods()) != 0 {
		t.Error("the retry's explanation has pods, or does not say that they were left out")
	}
	want := proto.CloneOf(first)
	want.Explanation.Truncated, want.Explanation.Metrics[0].Pods = true, nil
	servertest.SameMessage(t, again, want)
	if got := s.Stored(t, servertest.Web); len(got) > 32<<10 {
		t.Errorf("the target takes %d KiB in the store, want the answer bounded", len(got)>>10)
	}
}

// Warnings quote the request: as many as it has quantities.
func TestLargeWarningsAreNotRememberedInFull(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.WebRequest(t, servertest.WithID("a"), servertest.Explained)
	for i := range 5000 {
		req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprintf("nobody-asked-%d", i)}, Value: "1"})
	}
	first, err := s.Recommendations.Recommend(t.Context(), req)
	if err != nil {
		t.Fatalf("a request that decides was refused: %v", err)
	}
	again := s.Recommend(t, req)
	servertest.SameMessage(t, again.GetStatus(), first.GetStatus())
	if got := s.Stored(t, servertest.Web); len(got) > 32<<10 {
		t.Errorf("the target takes %d KiB in the store, want the answer bounded", len(got)>>10)
	}
}

func TestARequestIDThatWasRefusedMayBeUsedAgain(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	_, err := s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, -1, 30), servertest.WithID("a")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
	if got := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID("a"))).GetDesiredReplicas(); got != 3 {
		t.Errorf("got %d replicas, want 3", got)
	}
}
