package services_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// webAnswer is the answer to webBody on a target without history, but for its id.
const webAnswer = `{
  "desiredReplicas": 5, "currentReplicas": 3, "action": "SCALE_UP",
  "recommendationId": "",
  "reason": "cpu resource utilization (percentage of request) above target",
  "status": {
    "currentReplicas": 3, "desiredReplicas": 5,
    "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                        "current": {"averageUtilization": 90, "averageValue": "450m"}}}],
    "conditions": [
      {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale",
       "message": "recommended size matches current size", "lastTransitionTime": "2026-01-01T00:10:00Z"},
      {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound",
       "message": "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
       "lastTransitionTime": "2026-01-01T00:10:00Z"},
      {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange",
       "message": "the desired count is within the acceptable range", "lastTransitionTime": "2026-01-01T00:10:00Z"}
    ]
  },
  "events": [], "error": "",
  "evaluationTime": "2026-01-01T00:10:00Z"
}`

func TestRecommendAnswersInTheJSONOfTheContract(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	got := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebBody).Expect(t, http.StatusOK)
	if id, _ := got["recommendationId"].(string); len(id) != 32 {
		t.Errorf("recommendationId is %q, want 32 digits", id)
	}
	got["recommendationId"] = ""
	var want map[string]any
	fatal.If(t, json.Unmarshal([]byte(webAnswer), &want))
	if !reflect.DeepEqual(got, want) {
		text, _ := json.MarshalIndent(got, "", "  ")
		t.Errorf("got %s\nwant %s", text, webAnswer)
	}
}

func TestRecommendAnswersTheSameOverBothTransports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		changes []func(*setpointv1.RecommendRequest)
	}{
		{"the request of the contract", nil},
		{"with an explanation", []func(*setpointv1.RecommendRequest){servertest.Explained}},
		{"a dry run", []func(*setpointv1.RecommendRequest){servertest.DryRun}},
		{"at an instant of the caller's", []func(*setpointv1.RecommendRequest){servertest.EvaluatedAt(servertest.T0.Add(time.Hour))}},
		{"with a metric that could not be read", []func(*setpointv1.RecommendRequest){func(r *setpointv1.RecommendRequest) {
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "the metrics API answered 503"}}
		}}},
		{"with a scale that could not be read", []func(*setpointv1.RecommendRequest){func(r *setpointv1.RecommendRequest) {
			r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "no such thing"}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			req := servertest.WebRequest(t, tt.changes...)
			overREST, overGRPC := &setpointv1.RecommendResponse{}, s.Recommend(t, req)
			other := servertest.With(req, servertest.WithTarget("clusters/other/namespaces/shop/targets/web"))
			a := s.Ask(t, http.MethodPost, servertest.RecommendPath(other.GetTarget()), other)
			a.Expect(t, http.StatusOK)
			a.Into(t, overREST)
			servertest.SameMessage(t, servertest.WithoutID(overREST), servertest.WithoutID(overGRPC))
		})
	}
}

func TestRecommendExplainsOnRequestOnly(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	silent := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebRequest(t, servertest.DryRun)).Expect(t, http.StatusOK)
	if e, there := silent["explanation"]; there {
		t.Errorf("without explain there is an explanation: %v", e)
	}
	body := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebRequest(t, servertest.DryRun, servertest.Explained)).Expect(t, http.StatusOK)
	for _, want := range []struct {
		value any
		path  []any
	}{
		{"v1.36", []any{"profile"}},
		{"Metrics", []any{"path"}},
		{"2026-01-01T00:10:00Z", []any{"evaluationTime"}},
		{"Utilization", []any{"metrics", 0, "calculation"}},
		{1.5, []any{"metrics", 0, "usageRatio"}},
		{"1350m", []any{"metrics", 0, "totalUsage"}},
		{"1500m", []any{"metrics", 0, "totalRequests"}},
		{0.1, []any{"metrics", 0, "tolerance", "scaleUp"}},
		{3.0, []any{"metrics", 0, "replicasBase"}},
		{"Proportional", []any{"metrics", 0, "rule"}},
		{5.0, []any{"metrics", 0, "proposal"}},
		{3.0, []any{"metrics", 0, "podCounts", "ready"}},
		{"web-a", []any{"metrics", 0, "pods", 0, "name"}},
		{"Ready", []any{"metrics", 0, "pods", 0, "group"}},
		{"450m", []any{"metrics", 0, "pods", 0, "usage"}},
		{"500m", []any{"metrics", 0, "pods", 0, "request"}},
		{0.0, []any{"proposal", "metricIndex"}},
		{120.0, []any{"stabilization", "windows", 1, "windowSeconds"}},
		{"2026-01-01T00:09:45Z", []any{"rateLimit", "policies", 0, "periodStart"}},
		{7.0, []any{"rateLimit", "limit"}},
		{20.0, []any{"bounds", "maxReplicas"}},
		{"DesiredWithinRange", []any{"bounds", "reason"}},
		{5.0, []any{"desiredReplicas"}},
	} {
		if got := servertest.At(body["explanation"], want.path...); got != want.value {
			t.Errorf("explanation%v is %v, want %v", want.path, got, want.value)
		}
	}
	delete(body, "explanation")
	if !reflect.DeepEqual(body, silent) {
		t.Errorf("explain changed the answer: %v\nwithout it: %v", body, silent)
	}
}

func TestDryRunRecordsNothing(t *testing.T) {
	t.Parallel()
	t.Run("of a target that was never asked for", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t)
		resp := s.Recommend(t, servertest.WebRequest(t, servertest.DryRun, servertest.WithID("a")))
		if resp.GetDesiredReplicas() != 5 || resp.GetRecommendationId() != "" {
			t.Errorf("got %d replicas and the id %q, want 5 and none", resp.GetDesiredReplicas(), resp.GetRecommendationId())
		}
		s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
	})
	t.Run("of a target with a history", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t)
		s.Recommend(t, servertest.WebRequest(t))
		before, decisions := s.Target(t, servertest.Web), len(s.Decisions(t, servertest.Web))
		s.Clock.Advance(15 * time.Second)
		tried := s.Recommend(t, servertest.WebRequest(t, servertest.DryRun))
		servertest.SameMessage(t, s.Target(t, servertest.Web), before)
		if got := len(s.Decisions(t, servertest.Web)); got != decisions {
			t.Errorf("the log went from %d decisions to %d", decisions, got)
		}
		recorded := s.Recommend(t, servertest.WebRequest(t))
		servertest.SameMessage(t, servertest.WithoutID(tried), servertest.WithoutID(recorded))
	})
	// A dry run may remove expired answers from the record, and nothing else.
	t.Run("of a target whose window it begins anew and whose answers have expired", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t)
		ask := func(length int32, changes ...func(*setpointv1.RecommendRequest)) int32 {
			req := servertest.With(servertest.Queue(servertest.Web, 20, length), changes...)
			req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
			return s.Recommend(t, req).GetDesiredReplicas()
		}
		for _, id := range []string{"a", "b"} {
			s.Clock.Advance(time.Second)
			ask(500, servertest.WithID(id))
		}
		s.Clock.Advance(301 * time.Second)
		if got := ask(100, servertest.DryRun, func(r *setpointv1.RecommendRequest) { r.RestartAfterPause = true }); got != 20 {
			t.Errorf("the dry run: %d, want 20", got)
		}
		if got := ask(100); got != 10 {
			t.Errorf("after the dry run: %d, want 10, as without it", got)
		}
	})
}

// A caller that takes over, or was away for longer than the window, may have it begin anew with the current replicas, as
// a restart of the controller does. Otherwise the pause has emptied it.
func TestAWindowBeginsAnewAfterAPause(t *testing.T) {
	t.Parallel()
	const usual = 300 * time.Second
	for _, tt := range []struct {
		name    string
		window  time.Duration
		pause   time.Duration
		restart bool
		slow    bool
		asked   int   // how often before, each second
		want    int32 // after the pause
	}{
		{"as upstream", usual, usual + time.Second, false, false, 2, 10},
		{"restarted", usual, usual + time.Second, true, false, 2, 20},
		{"restarted, on the slow path", usual, usual + time.Second, true, true, 2, 20},
		{"restarted with a long history", usual, usual + time.Second, true, false, 280, 20},
		{"a pause as long as the window", usual, usual, true, false, 2, 10},
		{"a window shorter than the interval", 2 * time.Second, 3 * time.Second, true, false, 2, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			ask := func(length int32, change ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendResponse {
				req := servertest.Queue(servertest.Web, 20, length)
				req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(tt.window.Seconds()))
				if req.RestartAfterPause = tt.restart; tt.slow {
					servertest.TakeSlowPath(req)
				}
				for _, f := range change {
					f(req)
				}
				return s.Recommend(t, req)
			}
			for range tt.asked {
				s.Clock.Advance(time.Second)
				ask(500)
			}
			s.Clock.Advance(tt.pause)
			if got := ask(100, servertest.DryRun).GetDesiredReplicas(); got != tt.want {
				t.Errorf("a dry run after the pause: %d, want %d", got, tt.want)
			}
			if got := ask(100).GetDesiredReplicas(); got != tt.want {
				t.Errorf("after the pause: %d, want %d", got, tt.want)
			}
			if tt.want == 10 {
				return
			}
			s.Clock.Advance(servertest.Period)
			if got := ask(100).GetDesiredReplicas(); got != 20 {
				t.Errorf("a period later: %d, want 20", got)
			}
			s.Clock.Advance(tt.window - servertest.Period)
			if got := ask(100).GetDesiredReplicas(); got != 10 {
				t.Errorf("a window later: %d, want 10", got)
			}
		})
	}
}

func TestTheWorkloadIsShownAsItWasNamed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.WebRequest(t))
	if ref := s.Target(t, servertest.Web).GetScaleTargetRef(); ref != nil {
		t.Errorf("a request that named none shows %v", ref)
	}
	want := &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "front", ApiVersion: "apps/v1"}
	s.Recommend(t, servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) { r.Spec.ScaleTargetRef = want }))
	servertest.SameMessage(t, s.Target(t, servertest.Web).GetScaleTargetRef(), want)
}

func TestPreviousStatusSeedsATargetOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	previous := func(r *setpointv1.RecommendRequest) {
		r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{}
		fatal.If(t, protojson.Unmarshal([]byte(`{"lastScaleTime": "2025-12-31T23:00:00Z", "currentReplicas": 3, "desiredReplicas": 3, "conditions": [
			{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "m", "lastTransitionTime": "2025-12-01T00:00:00Z"},
			{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "m", "lastTransitionTime": "2025-12-02T00:00:00Z"}]}`), r.PreviousStatus))
	}
	first := s.Recommend(t, servertest.WebRequest(t, previous)).GetStatus()
	if got := first.GetLastScaleTime().AsTime(); !got.Equal(time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("lastScaleTime is %v, want that of the previous status", got)
	}
	for i, want := range []time.Time{time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), servertest.T0} {
		c := first.GetConditions()[i]
		if got := c.GetLastTransitionTime().AsTime(); !got.Equal(want) {
			t.Errorf("%s changed at %v, want %v", c.GetType(), got, want)
		}
	}
	again := s.Recommend(t, servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) {
		previous(r)
		r.PreviousStatus.LastScaleTime = nil
	})).GetStatus()
	if got, want := again.GetLastScaleTime(), first.GetLastScaleTime(); got.AsTime() != want.AsTime() {
		t.Errorf("with a history lastScaleTime became %v, want %v as before", got, want)
	}
}
