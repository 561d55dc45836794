package decision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// history returns the record that is stored of a target.
func history(tb testing.TB, s *servertest.Service, name string) record.Record {
	tb.Helper()
	h, err := record.Decode(s.Stored(tb, name))
	fatal.If(tb, err)
	return h
}

// Every access of a target removes its expired answers.
func TestAnswersLeaveTheRecordWhenTheirRetentionIsOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		touch func(t *testing.T, s *servertest.Service, id string)
	}{
		{"a request without an id", func(t *testing.T, s *servertest.Service, _ string) {
			s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
		}},
		{"a dry run", func(t *testing.T, s *servertest.Service, _ string) {
			s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.DryRun))
		}},
		{"a dry run with an id", func(t *testing.T, s *servertest.Service, _ string) {
			s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("1"), servertest.DryRun))
		}},
		{"a batch", func(t *testing.T, s *servertest.Service, _ string) {
			s.Batch(t, servertest.Queue(servertest.Web, 3, 50))
		}},
		{"a batch of dry runs", func(t *testing.T, s *servertest.Service, _ string) {
			s.Batch(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.DryRun), servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.DryRun))
		}},
		{"a report", func(t *testing.T, s *servertest.Service, id string) { s.Report(t, servertest.Web, id, "APPLIED", "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			var id string
			for i := range 5 {
				id = s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID(fmt.Sprint(i)), servertest.Explained)).GetRecommendationId()
			}
			with, pending := len(s.Stored(t, servertest.Web)), history(t, s, servertest.Web).Pending
			s.Clock.Advance(2*time.Minute + 1)
			tt.touch(t, s, id)
			h := history(t, s, servertest.Web)
			if len(h.Answers) != 0 {
				t.Errorf("%d answers are still there; the record takes %d bytes, took %d", len(h.Answers), len(s.Stored(t, servertest.Web)), with)
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
	s := servertest.Start(t)
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a")))
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.DryRun, servertest.EvaluatedAt(servertest.T0.Add(time.Hour))))
	if got := len(history(t, s, servertest.Web).Answers); got != 1 {
		t.Errorf("%d answers are remembered, want 1", got)
	}
}

// Texts of callers are answered in full, and kept and logged in part.
func TestLongTextsAreClippedWhereTheyAreKept(t *testing.T) {
	t.Parallel()
	const long = 64 << 10
	core, logs := observer.New(zap.DebugLevel)
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.Log = zap.New(core) })
	req := servertest.Queue(servertest.Web, 3, 50)
	message := "the metrics API says " + strings.Repeat("é", 8000)
	req.ExternalMetrics = nil
	req.MetricErrors = []*setpointv1.MetricError{{Metric: req.GetSpec().GetMetrics()[0].GetExternal().GetMetric().GetName(), Message: message}}
	for i := range 3 {
		resp := s.Recommend(t, servertest.With(req, servertest.WithID(fmt.Sprint(i))))
		if !strings.Contains(protojson.Format(resp.GetStatus()), message) || !strings.Contains(resp.GetError(), message) {
			t.Error("the answer does not hold the whole text")
		}
	}
	if got := len(s.Stored(t, servertest.Web)); got > long {
		t.Errorf("the record takes %d bytes", got)
	}
	if got := protojson.Format(s.Target(t, servertest.Web)); !strings.Contains(got, "bytes more)") {
		t.Error("what is kept does not say that it was cut")
	}
	for _, d := range s.Decisions(t, servertest.Web) {
		if n := len(protojson.Format(d)); n > 9<<10 {
			t.Errorf("a logged decision takes %d characters", n)
		}
	}
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
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
		ask  func(t *testing.T, s *servertest.Service) servertest.Problem
	}{
		{"Recommend", func(t *testing.T, s *servertest.Service) servertest.Problem {
			_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
			return servertest.RPCProblem(err)
		}},
		{"BatchRecommend", func(t *testing.T, s *servertest.Service) servertest.Problem {
			return servertest.ProblemOf(s.Batch(t, servertest.Queue(servertest.Web, 3, 50))[0].GetError())
		}},
	} {
		t.Run(ask.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			huge := recommender.History{Seen: true, Updated: servertest.T0}
			for i := range 150 {
				huge.Status.Conditions = append(huge.Status.Conditions, recommender.Condition{
					Type: fmt.Sprint("Foreign", i), Status: "True", Message: strings.Repeat("x", encoding.MaxText), LastTransitionTime: servertest.T0,
				})
			}
			value := encoding.AppendHistory(nil, &huge)
			s.Put(t, servertest.Web, value)
			got := ask.ask(t, s)
			servertest.WantProblem(t, got, codes.ResourceExhausted, "LIMIT_EXCEEDED")
			if got.Metadata["limit"] != "maxHistoryBytes" {
				t.Errorf("the limit is %q", got.Metadata["limit"])
			}
			if string(s.Stored(t, servertest.Web)) != string(value) {
				t.Error("what is stored was changed")
			}
		})
	}
}
