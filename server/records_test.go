package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
)

// history returns the history that is stored of a target.
func (s *service) history(tb testing.TB, name string) recommender.History {
	tb.Helper()
	h, err := encoding.DecodeHistory(s.stored(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// Every access of a target removes its expired answers.
func TestAnswersLeaveTheRecordWhenTheirRetentionIsOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		touch func(t *testing.T, s *service, id string)
	}{
		{"a request without an id", func(t *testing.T, s *service, _ string) { s.recommend(t, queue(web, 3, 50)) }},
		{"a dry run", func(t *testing.T, s *service, _ string) { s.recommend(t, with(queue(web, 3, 50), dryRun)) }},
		{"a dry run with an id", func(t *testing.T, s *service, _ string) {
			s.recommend(t, with(queue(web, 3, 50), withID("1"), dryRun))
		}},
		{"a batch", func(t *testing.T, s *service, _ string) { s.batch(t, queue(web, 3, 50)) }},
		{"a batch of dry runs", func(t *testing.T, s *service, _ string) {
			s.batch(t, with(queue(web, 3, 50), dryRun), with(queue(web, 3, 50), dryRun))
		}},
		{"a report", func(t *testing.T, s *service, id string) { s.report(t, web, id, "APPLIED", "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var id string
			for i := range 5 {
				id = s.recommend(t, with(queue(web, 3, 50), withID(fmt.Sprint(i)), explained)).GetRecommendationId()
			}
			with, pending := len(s.stored(t, web)), s.history(t, web).Pending
			s.clock.Advance(2*time.Minute + 1)
			tt.touch(t, s, id)
			h := s.history(t, web)
			if len(h.Answers) != 0 {
				t.Errorf("%d answers are still there; the record takes %d bytes, took %d", len(h.Answers), len(s.stored(t, web)), with)
			}
			if strings.Contains(tt.name, "dry") && (h.Pending == nil || h.Pending.ID != pending.ID || len(h.Recommendations) != 6) {
				t.Errorf("a dry run changed what counts: %+v", h)
			}
		})
	}
}

// A dry run of a later instant removes no answer that still counts.
func TestADryRunOfALaterInstantForgetsNoAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, with(queue(web, 3, 50), withID("a")))
	s.recommend(t, with(queue(web, 3, 50), dryRun, evaluatedAt(t0.Add(time.Hour))))
	if got := len(s.history(t, web).Answers); got != 1 {
		t.Errorf("%d answers are remembered, want 1", got)
	}
}

// manyPods is a request whose explanation is long.
func manyPods(tb testing.TB, n int, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	tb.Helper()
	return webRequest(tb, append(changes, func(r *setpointv1.RecommendRequest) {
		pod, sample := r.GetPods()[0], r.GetPodMetrics()[0]
		r.Pods, r.PodMetrics = nil, nil
		for i := range n {
			name := fmt.Sprintf("web-%d", i)
			p, m := proto.CloneOf(pod), proto.CloneOf(sample)
			p.Name, m.Pod = name, name
			r.Pods, r.PodMetrics = append(r.Pods, p), append(r.PodMetrics, m)
		}
	})...)
}

func TestRememberedAnswersAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	const bound = 64 << 10
	s := start(t)
	var first []*setpointv1.RecommendResponse
	for i := range 32 {
		first = append(first, s.recommend(t, manyPods(t, 60, explained, withID(fmt.Sprint(i)))))
	}
	if got := len(s.stored(t, web)); got > bound+4096 {
		t.Errorf("the record takes %d bytes, want %d and a little at most", got, bound)
	}
	for i := range first {
		again := s.recommend(t, manyPods(t, 60, explained, withID(fmt.Sprint(i))))
		if again.GetRecommendationId() != first[i].GetRecommendationId() || again.GetDesiredReplicas() != first[i].GetDesiredReplicas() {
			t.Errorf("answer %d is forgotten: a retry is decided anew", i)
		}
		if has := again.GetExplanation() != nil; i == len(first)-1 && !has {
			t.Error("the newest answer lost its explanation")
		}
	}
}

// Texts of callers are answered in full, and kept and logged in part.
func TestLongTextsAreClippedWhereTheyAreKept(t *testing.T) {
	t.Parallel()
	const long = 64 << 10
	core, logs := observer.New(zap.DebugLevel)
	s := start(t, func(su *setup) { su.options.Log = zap.New(core) })
	req := queue(web, 3, 50)
	message := "the metrics API says " + strings.Repeat("é", 8000)
	req.ExternalMetrics = nil
	req.MetricErrors = []*setpointv1.MetricError{{Metric: req.GetSpec().GetMetrics()[0].GetExternal().GetMetric().GetName(), Message: message}}
	for i := range 3 {
		resp := s.recommend(t, with(req, withID(fmt.Sprint(i))))
		if !strings.Contains(protojson.Format(resp.GetStatus()), message) || !strings.Contains(resp.GetError(), message) {
			t.Error("the answer does not hold the whole text")
		}
	}
	if got := len(s.stored(t, web)); got > long {
		t.Errorf("the record takes %d bytes", got)
	}
	if got := protojson.Format(s.target(t, web)); !strings.Contains(got, "bytes more)") {
		t.Error("what is kept does not say that it was cut")
	}
	for _, d := range s.decisions(t, web) {
		if n := len(protojson.Format(d)); n > 9<<10 {
			t.Errorf("a logged decision takes %d characters", n)
		}
	}
	s.recommend(t, queue(web, 3, 50))
	for _, line := range logs.All() {
		if n := len(fmt.Sprint(line.ContextMap())); n > 4<<10 {
			t.Errorf("the line %q takes %d characters", line.Message, n)
		}
	}
}

// A history that would be too large is refused, and the stored one stays.
func TestAHistoryThatGrowsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	for _, ask := range []struct {
		name string
		ask  func(t *testing.T, s *service) problem
	}{
		{"Recommend", func(t *testing.T, s *service) problem {
			_, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 50))
			return rpcProblem(err)
		}},
		{"BatchRecommend", func(t *testing.T, s *service) problem { return problemOf(s.batch(t, queue(web, 3, 50))[0].GetError()) }},
	} {
		t.Run(ask.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			huge := recommender.History{Seen: true, Updated: t0}
			for i := range 150 {
				huge.Status.Conditions = append(huge.Status.Conditions, recommender.Condition{
					Type: fmt.Sprint("Foreign", i), Status: "True", Message: strings.Repeat("x", encoding.MaxText), LastTransitionTime: t0,
				})
			}
			value := encoding.AppendHistory(nil, &huge)
			s.put(t, web, value)
			got := ask.ask(t, s)
			wantProblem(t, got, codes.ResourceExhausted, "LIMIT_EXCEEDED")
			if got.metadata["limit"] != "maxHistoryBytes" {
				t.Errorf("the limit is %q", got.metadata["limit"])
			}
			if string(s.stored(t, web)) != string(value) {
				t.Error("what is stored was changed")
			}
		})
	}
}
