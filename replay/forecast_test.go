package replay

import (
	"maps"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/stages/forecast"
	"github.com/setpoint-dev/setpoint/store"
)

// TestAForecastThatActedIsDecidedAgain asks for nine days with 14 wanted, and then with less: the floor acts, and what is
// kept of the tenth day gives each decision again, though it has not the past.
func TestAForecastThatActedIsDecidedAgain(t *testing.T) {
	engine, all := kept(t, 1)
	s, at := all[0], servertest.T0.Truncate(forecast.Length)
	foreseen := func(replicas, queue int32) *setpointv1.RecommendResponse {
		req := servertest.Queue(servertest.Web, replicas, queue)
		req.Stages = &setpointv1.Stages{Forecast: &setpointv1.Forecast{Mode: "FLOOR", TimeZone: "UTC"}}
		servertest.EvaluatedAt(at)(req)
		at = at.Add(forecast.Length)
		resp := s.Recommend(t, req)
		if resp.GetDesiredReplicas() != replicas {
			s.Report(t, servertest.Web, resp.GetRecommendationId(), "APPLIED", "")
		}
		return resp
	}
	const before = 9 * 96
	for range before {
		foreseen(14, 140)
	}
	past, err := engine.Part(store.Forecasts, 0)
	fatal.If(t, err)
	servertest.Eventually(t, func() bool {
		r, err := past.Load(t.Context(), servertest.KeyOf(servertest.Web))
		ring, bad := forecast.Decode(r.Value)
		return err == nil && bad == nil && ring.Recent(forecast.BucketOf(at)-before, before) >= before-1
	})
	begin, rules := at, map[string]int{}
	for i, replicas := 0, int32(9); i < 96; i++ {
		resp := foreseen(replicas, []int32{90, 150, 40}[i/2%3])
		for _, a := range resp.GetAdjustments() {
			rules[a.GetRule()]++
		}
		if replicas = resp.GetDesiredReplicas(); i%2 == 1 {
			replicas = 9
		}
	}
	if rules["floor"] == 0 || rules["below"] == 0 {
		t.Fatalf("rules %v", rules)
	}
	s.StopAndWait(t)
	out := Export(servertest.Web, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web)), begin, time.Time{})
	if out.Steps < 96 || len(out.Gaps) > 0 {
		t.Fatalf("%d steps, gaps %v", out.Steps, out.Gaps)
	}
	replayed(t, out)
	// With twice the target half as much is wanted, and was foreseen; another quantile is another forecast, of which the
	// recording says nothing.
	for name, c := range map[string]struct {
		change func(*setpointv1.RecommendRequest)
		want   map[int32]bool
	}{
		"as recorded":      {func(*setpointv1.RecommendRequest) {}, map[int32]bool{14: true, 15: true}},
		"twice the target": {func(r *setpointv1.RecommendRequest) { r.Spec.Metrics[0].External.Target.AverageValue = new("20") }, map[int32]bool{7: true, 8: true}},
		"1 % of 1000":      {func(r *setpointv1.RecommendRequest) { r.Stages.Forecast.MaxPercentOfMax = 1 }, map[int32]bool{10: true, 15: true}},
		"another quantile": {func(r *setpointv1.RecommendRequest) { r.Stages.Forecast.QuantilePercent = 50 }, map[int32]bool{9: true, 15: true, 4: true}},
	} {
		got := map[int32]bool{}
		for _, scenario := range out.Scenarios {
			scenario = reread(t, scenario)
			e := NewEngine()
			fatal.If(t, e.BeginState("replay/shop/web", scenario.State))
			player := recording.NewPlayer(scenario)
			for i := range scenario.Steps {
				step := &scenario.Steps[i]
				req, err := player.Request(step, "replay")
				fatal.If(t, err)
				e.Sum(req.GetTarget(), step.Request, step.Sums)
				req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))}}
				c.change(req)
				resp, err := e.Recommend(t.Context(), req)
				fatal.If(t, err)
				if !step.Time.Before(begin) {
					got[resp.GetDesiredReplicas()] = true
				}
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	// What holds it: without what was said the replay decides otherwise.
	differences := 0
	for _, scenario := range out.Scenarios {
		scenario = reread(t, scenario)
		for i := range scenario.Steps {
			scenario.Steps[i].Sums.Forecast = nil
		}
		fatal.If(t, NewRunner(NewEngine(), Options{}).Run(t.Context(), scenario, func(step *Step) error {
			differences += len(step.Differences)
			return nil
		}))
	}
	if differences == 0 {
		t.Error("without what the forecast said the replay decides the same: this test shows nothing")
	}
}
