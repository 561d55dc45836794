package explain

import (
	"iter"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/replay"
)

// scenarios returns the scenarios of a file of recordings.
func scenarios(tb testing.TB, name string) iter.Seq[*recording.Scenario] {
	return recordingtest.Scenarios(tb, "../clients/kubernetes/recording/testdata/"+name+".jsonl.gz")
}

// curated returns the curated scenario of that name.
func curated(tb testing.TB, name string) *recording.Scenario {
	tb.Helper()
	for scenario := range scenarios(tb, "curated") {
		if scenario.Name == name {
			return scenario
		}
	}
	tb.Fatalf("there is no scenario %s", name)
	return nil
}

// play decides the steps of a scenario in order, applying the recorded changes, and passes each
// to visit.
func play(tb testing.TB, scenario *recording.Scenario, visit func(step int, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse)) {
	tb.Helper()
	engine := replay.NewEngine()
	player := recording.NewPlayer(scenario)
	target := ""
	for i := range scenario.Steps {
		req, err := player.Request(&scenario.Steps[i], "demo")
		if err != nil {
			tb.Fatalf("%s step %d: %v", scenario.Name, i+1, err)
		}
		if req == nil {
			_ = engine.Delete(tb.Context(), target)
			continue
		}
		target = req.GetTarget()
		visit(i+1, req, decide(tb, engine, req, scenario.Steps[i].ScaleUpdateError))
	}
}

// decide requests an explained answer, and reports that it was applied, or why not.
func decide(tb testing.TB, engine *replay.Engine, req *setpointv1.RecommendRequest, failure string) *setpointv1.RecommendResponse {
	tb.Helper()
	req.Explain = true
	resp, err := engine.Recommend(tb.Context(), req)
	fatal.If(tb, err)
	if resp.GetDesiredReplicas() == resp.GetCurrentReplicas() {
		return resp
	}
	report := &setpointv1.ReportScaleRequest{
		Target: req.GetTarget(), RecommendationId: resp.GetRecommendationId(), Outcome: "APPLIED", Message: failure,
	}
	if failure != "" {
		report.Outcome = "FAILED"
	}
	if _, err := engine.ReportScale(tb.Context(), report); err != nil {
		tb.Fatal(err)
	}
	return resp
}
