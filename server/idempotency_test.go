package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// bytesOf is a message in the one encoding that it always has.
func bytesOf(tb testing.TB, msg proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// sameBytes fails the test unless two answers are the same to the byte.
func sameBytes(tb testing.TB, got, want proto.Message) {
	tb.Helper()
	if !bytes.Equal(bytesOf(tb, got), bytesOf(tb, want)) {
		sameMessage(tb, got, want)
		tb.Error("the answers differ in their bytes")
	}
}

// recommendations counts the recommendations in a target's history, without the count
// at the first evaluation.
func recommendations(target *setpointv1.Target) int {
	return len(target.GetHistory().GetRecommendations()) - 1
}

func TestARetryGetsTheAnswerThatWasRecorded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		req  func() *setpointv1.RecommendRequest
	}{
		{"of a change", func() *setpointv1.RecommendRequest { return webRequest(t) }},
		{"of a change, explained", func() *setpointv1.RecommendRequest { return webRequest(t, explained) }},
		{"of no change", func() *setpointv1.RecommendRequest { return queue(web, 3, 30) }},
		{"of no change, explained", func() *setpointv1.RecommendRequest { return with(queue(web, 3, 30), explained) }},
		{"of a count that is held, with events", func() *setpointv1.RecommendRequest {
			return webRequest(t, explained, func(r *setpointv1.RecommendRequest) {
				r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "the metrics API answered 503"}}
			})
		}},
		{"of a scale that could not be read", func() *setpointv1.RecommendRequest {
			return webRequest(t, explained, func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Reason: "UnknownKind", Message: "no matches for kind"}
			})
		}},
		{"of several metrics with selectors", func() *setpointv1.RecommendRequest { return manyMetrics(t) }},
		{"of a status that was taken over", func() *setpointv1.RecommendRequest {
			return webRequest(t, func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "gone"}
				r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{}
				if err := jsonInto(`{"observedGeneration": "7", "lastScaleTime": "2025-12-31T23:00:00.25Z", "currentReplicas": 3, "desiredReplicas": 4, "currentMetrics": [
					{"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "210Mi", "averageUtilization": 0}}}, {"type": ""}],
					"conditions": [{"type": "Custom", "status": "Unknown", "reason": "R", "message": "m"}]}`, r.PreviousStatus); err != nil {
					t.Fatal(err)
				}
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			req := with(tt.req(), withID("a"))
			first := s.recommend(t, req)
			before := s.target(t, web)
			s.clock.Advance(15 * time.Second)
			sameBytes(t, s.recommend(t, req), first)
			sameMessage(t, s.target(t, web), before)

			// Over REST, too, although the request differs by now.
			overREST := &setpointv1.RecommendResponse{}
			a := s.ask(t, http.MethodPost, recommendPath(web), with(queue(web, 9, 1), withID("a")))
			a.expect(t, http.StatusOK)
			a.into(t, overREST)
			sameMessage(t, overREST, first)
			if got := len(s.decisions(t, web)); got != 1 {
				t.Errorf("the log has %d decisions, want 1", got)
			}
		})
	}
}

// manyMetrics is a request with a metric of every kind.
func manyMetrics(tb testing.TB) *setpointv1.RecommendRequest {
	tb.Helper()
	req := webRequest(tb, explained)
	if err := jsonInto(`{
		"minReplicas": 1, "maxReplicas": 30, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
		"metrics": [
			{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
			{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}},
			{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50}}},
			{"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"verb": "GET"}}}, "target": {"type": "AverageValue", "averageValue": "30"}}},
			{"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}, "target": {"type": "Value", "value": "1k"}}},
			{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchExpressions": [{"key": "q", "operator": "In", "values": ["a", "b"]}]}}, "target": {"type": "AverageValue", "averageValue": "30"}}}
		]}`, req.Spec); err != nil {
		tb.Fatal(err)
	}
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
	s := start(t)
	req := webRequest(t, withID("a"), explained)
	first := s.recommend(t, req)
	s.report(t, web, first.GetRecommendationId(), "APPLIED", "")
	sameBytes(t, s.recommend(t, req), first)
	for i := range 5 {
		s.clock.Advance(5 * time.Second)
		s.recommend(t, queue(web, 5, int32(50+20*i)))
		s.recommend(t, with(queue(web, 5, 10), withID(fmt.Sprint("b", i))))
	}
	before := s.target(t, web)
	sameBytes(t, s.recommend(t, req), first)
	// Also where its instant lies before the newest record by now.
	sameBytes(t, s.recommend(t, with(req, evaluatedAt(t0))), first)
	sameMessage(t, s.target(t, web), before)
}

func TestAnswersAreForgottenAfterTheRetention(t *testing.T) {
	t.Parallel()
	retention := func(su *setup) { su.options.AnswerRetention = time.Minute }
	req := with(queue(web, 3, 30), withID("a"))
	t.Run("remembered up to it", func(t *testing.T) {
		t.Parallel()
		s := start(t, retention)
		first := s.recommend(t, req)
		s.clock.Advance(time.Minute)
		s.recommend(t, with(req, withID("b")))
		sameBytes(t, s.recommend(t, req), first)
	})
	t.Run("forgotten after it", func(t *testing.T) {
		t.Parallel()
		s := start(t, retention)
		first := s.recommend(t, req)
		s.clock.Advance(time.Minute + 1)
		s.recommend(t, with(req, withID("b")))
		if again := s.recommend(t, req); again.GetRecommendationId() == first.GetRecommendationId() {
			t.Error("the answer is remembered for longer")
		}
	})
	t.Run("forgotten also if nothing else was asked since", func(t *testing.T) {
		t.Parallel()
		s := start(t, retention)
		first := s.recommend(t, req)
		s.clock.Advance(time.Minute)
		sameBytes(t, s.recommend(t, req), first)
		s.clock.Advance(1)
		if again := s.recommend(t, req); again.GetRecommendationId() == first.GetRecommendationId() {
			t.Errorf("the answer still is that of %v", again.GetEvaluationTime().AsTime())
		}
	})
}

func TestDefaultRetentionIsThatOfTheContract(t *testing.T) {
	t.Parallel()
	s := start(t)
	req := with(queue(web, 3, 30), withID("a"))
	first := s.recommend(t, req)
	s.clock.Advance(2 * time.Minute)
	s.recommend(t, with(req, withID("b")))
	sameBytes(t, s.recommend(t, req), first)
}

func TestTheNewestAnswersAreRememberedUpToTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.AnswerLimit = 3 })
	var ids []string
	for i := range 4 {
		ids = append(ids, s.recommend(t, with(queue(web, 3, 30), withID(fmt.Sprint(i)))).GetRecommendationId())
	}
	for i := 3; i >= 1; i-- {
		if got := s.recommend(t, with(queue(web, 3, 30), withID(fmt.Sprint(i)))).GetRecommendationId(); got != ids[i] {
			t.Errorf("answer %d of 4 is forgotten although 3 are kept", i+1)
		}
	}
	if got := s.recommend(t, with(queue(web, 3, 30), withID("0"))).GetRecommendationId(); got == ids[0] {
		t.Error("the first of 4 is remembered although 3 are kept")
	}
}

func TestDryRunsIgnoreRequestIDs(t *testing.T) {
	t.Parallel()
	s := start(t)
	tried := s.recommend(t, with(queue(web, 3, 60), withID("a"), dryRun))
	first := s.recommend(t, with(queue(web, 3, 30), withID("a")))
	if tried.GetDesiredReplicas() != 6 || first.GetDesiredReplicas() != 3 {
		t.Errorf("got %d and %d replicas, want 6 and 3: the dry run's answer was remembered", tried.GetDesiredReplicas(), first.GetDesiredReplicas())
	}
	if again := s.recommend(t, with(queue(web, 3, 60), withID("a"), dryRun)); again.GetDesiredReplicas() != 6 || again.GetRecommendationId() != "" {
		t.Errorf("got %v, want a decision of its own", again)
	}
}

// On whatever path, every response, even a repeated one, names its request: a caller
// with many targets notices one that went astray.
func TestAnswersSayToWhichRequest(t *testing.T) {
	t.Parallel()
	for way, ask := range waysToAsk {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			for _, tt := range []struct {
				name string
				req  *setpointv1.RecommendRequest
				want *string
			}{
				{"of a request", with(queue(web, 3, 60), withID("a")), new("a")},
				{"of the same one", with(queue(web, 3, 60), withID("a")), new("a")},
				{"of another one", with(queue(web, 3, 60), withID("b")), new("b")},
				{"of a dry run", with(queue(web, 3, 60), withID("c"), dryRun), new("c")},
				{"of one that has none", queue(web, 3, 60), nil},
			} {
				got := ask(t, s, tt.req).RequestId
				if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
					t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				}
			}
		})
	}
}

func TestRequestIDsOfOtherTargetsAreIndependent(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i, target := range []string{web, web + "2", "clusters/other/namespaces/shop/targets/web", "clusters/demo/namespaces/other/targets/web"} {
		got := s.recommend(t, with(queue(target, 3, int32(10*(i+4))), withID("a"))).GetDesiredReplicas()
		if want := int32(i + 4); got != want {
			t.Errorf("%s: got %d replicas, want %d", target, got, want)
		}
	}
}

func TestRequestsWithoutIDsAllCount(t *testing.T) {
	t.Parallel()
	s := start(t)
	first, second := s.recommend(t, queue(web, 3, 30)), s.recommend(t, queue(web, 3, 30))
	if first.GetRecommendationId() == second.GetRecommendationId() {
		t.Error("two requests got one recommendation")
	}
	if got := recommendations(s.target(t, web)); got != 2 {
		t.Errorf("%d recommendations are kept, want 2", got)
	}
}

// An explanation of many pods would make every write of the target large.
func TestLargeExplanationsAreRememberedWithoutTheirPods(t *testing.T) {
	t.Parallel()
	s := start(t)
	req := webRequest(t, withID("a"), explained)
	req.Pods, req.PodMetrics = nil, nil
	for i := range 1000 {
		name := fmt.Sprintf("web-%d", i)
		req.Pods = append(req.Pods, &setpointv1.Pod{Name: name, Phase: "Running", Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}}})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{Pod: name, Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": "450m"}}}})
	}
	first, again := s.recommend(t, req), s.recommend(t, req)
	if got := len(first.GetExplanation().GetMetrics()[0].GetPods()); got != 1000 || first.GetExplanation().GetTruncated() {
		t.Errorf("the first answer explains %d pods, truncated %t, want all 1000", got, first.GetExplanation().GetTruncated())
	}
	if !again.GetExplanation().GetTruncated() || len(again.GetExplanation().GetMetrics()[0].GetPods()) != 0 {
		t.Error("the retry's explanation has pods, or does not say that they were left out")
	}
	want := proto.CloneOf(first)
	want.Explanation.Truncated, want.Explanation.Metrics[0].Pods = true, nil
	sameMessage(t, again, want)
	if got := s.stored(t, web); len(got) > 32<<10 {
		t.Errorf("the target takes %d KiB in the store, want the answer bounded", len(got)>>10)
	}
}

// Warnings quote the request: as many as it has quantities.
func TestLargeWarningsAreNotRememberedInFull(t *testing.T) {
	t.Parallel()
	s := start(t)
	req := webRequest(t, withID("a"), explained)
	for i := range 5000 {
		req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprintf("nobody-asked-%d", i)}, Value: "1"})
	}
	first, err := s.recommendations.Recommend(t.Context(), req)
	if err != nil {
		t.Fatalf("a request that decides was refused: %v", err)
	}
	again := s.recommend(t, req)
	sameMessage(t, again.GetStatus(), first.GetStatus())
	if got := s.stored(t, web); len(got) > 32<<10 {
		t.Errorf("the target takes %d KiB in the store, want the answer bounded", len(got)>>10)
	}
}

func TestARequestIDThatWasRefusedMayBeUsedAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, err := s.recommendations.Recommend(t.Context(), with(queue(web, -1, 30), withID("a")))
	wantProblem(t, rpcProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
	if got := s.recommend(t, with(queue(web, 3, 30), withID("a"))).GetDesiredReplicas(); got != 3 {
		t.Errorf("got %d replicas, want 3", got)
	}
}
