package server_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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

// recommendPath is the REST path of a target's recommendations.
func recommendPath(target string) string { return "/v1/" + target + ":recommend" }

func TestRecommendAnswersInTheJSONOfTheContract(t *testing.T) {
	t.Parallel()
	s := start(t)
	got := s.ask(t, http.MethodPost, recommendPath(web), webBody).expect(t, http.StatusOK)
	if id, _ := got["recommendationId"].(string); len(id) != 32 {
		t.Errorf("recommendationId is %q, want 32 digits", id)
	}
	got["recommendationId"] = ""
	var want map[string]any
	if err := json.Unmarshal([]byte(webAnswer), &want); err != nil {
		t.Fatal(err)
	}
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
		{"with an explanation", []func(*setpointv1.RecommendRequest){explained}},
		{"a dry run", []func(*setpointv1.RecommendRequest){dryRun}},
		{"at an instant of the caller's", []func(*setpointv1.RecommendRequest){evaluatedAt(t0.Add(time.Hour))}},
		{"with a metric that could not be read", []func(*setpointv1.RecommendRequest){func(r *setpointv1.RecommendRequest) {
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "the metrics API answered 503"}}
		}}},
		{"with a scale that could not be read", []func(*setpointv1.RecommendRequest){func(r *setpointv1.RecommendRequest) {
			r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "no such thing"}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			req := webRequest(t, tt.changes...)
			overREST, overGRPC := &setpointv1.RecommendResponse{}, s.recommend(t, req)
			other := with(req, withTarget("clusters/other/namespaces/shop/targets/web"))
			a := s.ask(t, http.MethodPost, recommendPath(other.GetTarget()), other)
			a.expect(t, http.StatusOK)
			a.into(t, overREST)
			sameMessage(t, withoutID(overREST), withoutID(overGRPC))
		})
	}
}

func TestRecommendPrintsZeros(t *testing.T) {
	t.Parallel()
	s := start(t)
	body := s.ask(t, http.MethodPost, recommendPath(web), `{
		"spec": {"maxReplicas": 3, "metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}]},
		"scale": {"specReplicas": 0}, "dryRun": true}`).expect(t, http.StatusOK)
	for _, name := range []string{"desiredReplicas", "currentReplicas"} {
		if body[name] != 0.0 || at(body, "status", name) != 0.0 {
			t.Errorf("%s is %v, in the status %v, want 0 in both", name, body[name], at(body, "status", name))
		}
	}
	for name, want := range map[string]any{"action": "NONE", "recommendationId": "", "reason": "", "error": ""} {
		if got := body[name]; got != want {
			t.Errorf("%s is %v, want %q", name, got, want)
		}
	}
	if events, ok := body["events"].([]any); !ok || len(events) != 0 {
		t.Errorf("events are %v, want an empty list", body["events"])
	}
}

func TestRecommendExplainsOnRequestOnly(t *testing.T) {
	t.Parallel()
	s := start(t)
	silent := s.ask(t, http.MethodPost, recommendPath(web), webRequest(t, dryRun)).expect(t, http.StatusOK)
	if e, there := silent["explanation"]; there {
		t.Errorf("without explain there is an explanation: %v", e)
	}
	body := s.ask(t, http.MethodPost, recommendPath(web), webRequest(t, dryRun, explained)).expect(t, http.StatusOK)
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
		if got := at(body["explanation"], want.path...); got != want.value {
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
		s := start(t)
		resp := s.recommend(t, webRequest(t, dryRun, withID("a")))
		if resp.GetDesiredReplicas() != 5 || resp.GetRecommendationId() != "" {
			t.Errorf("got %d replicas and the id %q, want 5 and none", resp.GetDesiredReplicas(), resp.GetRecommendationId())
		}
		s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
	})
	t.Run("of a target with a history", func(t *testing.T) {
		t.Parallel()
		s := start(t)
		s.recommend(t, webRequest(t))
		before, decisions := s.target(t, web), len(s.decisions(t, web))
		s.clock.Advance(15 * time.Second)
		tried := s.recommend(t, webRequest(t, dryRun))
		sameMessage(t, s.target(t, web), before)
		if got := len(s.decisions(t, web)); got != decisions {
			t.Errorf("the log went from %d decisions to %d", decisions, got)
		}
		recorded := s.recommend(t, webRequest(t))
		sameMessage(t, withoutID(tried), withoutID(recorded))
	})
}

func TestRecommendTakesNumbersForQuantities(t *testing.T) {
	t.Parallel()
	s := start(t)
	numbers := strings.NewReplacer(`"450m"`, "0.45", `"440m"`, "44e-2", `"500m"`, "0.5", `"50m"`, "0.05", `"10m"`, "0.010", `"0.1"`, "0.1").Replace(webBody)
	if numbers == webBody || strings.Contains(numbers, `0m"`) {
		t.Fatalf("not all quantities became numbers: %s", numbers)
	}
	fromNumbers, fromStrings := &setpointv1.RecommendResponse{}, &setpointv1.RecommendResponse{}
	a := s.ask(t, http.MethodPost, recommendPath(web+"-numbers"), numbers)
	a.expect(t, http.StatusOK)
	a.into(t, fromNumbers)
	a = s.ask(t, http.MethodPost, recommendPath(web), webBody)
	a.expect(t, http.StatusOK)
	a.into(t, fromStrings)
	sameMessage(t, withoutID(fromNumbers), withoutID(fromStrings))
}

func TestRecommendRefusesUnknownFieldsByPath(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct{ old, new, path string }{
		{`"scale":`, `"scales":`, "scales"},
		{`"maxReplicas"`, `"maxReplica"`, "spec.maxReplica"},
		{`"averageUtilization"`, `"averageUtilisation"`, "spec.metrics[0].resource.target.averageUtilisation"},
		{`"stabilizationWindowSeconds"`, `"stabilisationWindowSeconds"`, "spec.behavior.scaleDown.stabilisationWindowSeconds"},
		{`"restartable"`, `"restartPolicy"`, "pods[0].initContainers[0].restartPolicy"},
	} {
		body := s.ask(t, http.MethodPost, recommendPath(web), strings.Replace(webBody, tt.old, tt.new, 1)).expect(t, http.StatusBadRequest)
		if got := at(body, "details", 0, "fieldViolations", 0, "field"); got != tt.path {
			t.Errorf("%s: the violation is of %v, want %s", tt.new, got, tt.path)
		}
	}
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
}

func TestReadingsAreMatchedByIdentityAndNotByPosition(t *testing.T) {
	t.Parallel()
	s := start(t)
	req := webRequest(t, explained)
	ahead := s.recommend(t, with(req, dryRun))
	shuffled := with(req, dryRun)
	shuffled.Pods[0], shuffled.Pods[2] = shuffled.GetPods()[2], shuffled.GetPods()[0]
	shuffled.PodMetrics[0], shuffled.PodMetrics[1] = shuffled.GetPodMetrics()[1], shuffled.GetPodMetrics()[0]
	got := s.recommend(t, shuffled)
	sameMessage(t, got.GetStatus(), ahead.GetStatus())
}

func TestReadingsThatBelongToNoMetricAreWarnedOf(t *testing.T) {
	t.Parallel()
	s := start(t)
	stray := func(r *setpointv1.RecommendRequest) {
		r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: "1"}}
	}
	body := s.ask(t, http.MethodPost, recommendPath(web), webRequest(t, stray, explained)).expect(t, http.StatusOK)
	want := `externalMetrics[0]: belongs to no metric of the spec and had no effect (metric "queue-depth"; the spec's are Resource:cpu; name, selector and object must agree)`
	if got := at(body, "explanation", "warnings", 0); got != want {
		t.Errorf("the warning is %v, want %q", got, want)
	}
}

func TestTheWorkloadIsShownAsItWasNamed(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, webRequest(t))
	if ref := s.target(t, web).GetScaleTargetRef(); ref != nil {
		t.Errorf("a request that named none shows %v", ref)
	}
	want := &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "front", ApiVersion: "apps/v1"}
	s.recommend(t, webRequest(t, func(r *setpointv1.RecommendRequest) { r.Spec.ScaleTargetRef = want }))
	sameMessage(t, s.target(t, web).GetScaleTargetRef(), want)
}

func TestPreviousStatusSeedsATargetOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	previous := func(r *setpointv1.RecommendRequest) {
		r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{}
		if err := jsonInto(`{"lastScaleTime": "2025-12-31T23:00:00Z", "currentReplicas": 3, "desiredReplicas": 3, "conditions": [
			{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "m", "lastTransitionTime": "2025-12-01T00:00:00Z"},
			{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "m", "lastTransitionTime": "2025-12-02T00:00:00Z"}]}`, r.PreviousStatus); err != nil {
			t.Fatal(err)
		}
	}
	first := s.recommend(t, webRequest(t, previous)).GetStatus()
	if got := first.GetLastScaleTime().AsTime(); !got.Equal(time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("lastScaleTime is %v, want that of the previous status", got)
	}
	for i, want := range []time.Time{time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), t0} {
		c := first.GetConditions()[i]
		if got := c.GetLastTransitionTime().AsTime(); !got.Equal(want) {
			t.Errorf("%s changed at %v, want %v", c.GetType(), got, want)
		}
	}
	again := s.recommend(t, webRequest(t, func(r *setpointv1.RecommendRequest) {
		previous(r)
		r.PreviousStatus.LastScaleTime = nil
	})).GetStatus()
	if got, want := again.GetLastScaleTime(), first.GetLastScaleTime(); got.AsTime() != want.AsTime() {
		t.Errorf("with a history lastScaleTime became %v, want %v as before", got, want)
	}
}
