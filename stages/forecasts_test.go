package stages_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// foreseen is a target whose plan has a forecast, with its past in memory. Its queue proposes what it reads, and it has
// no windows.
type foreseen struct {
	t       testing.TB
	in      recommender.Input
	plan    stages.Plan
	kept    stages.Kept
	history recommender.History
	current int32
}

func foresee(t testing.TB, f *stages.Forecast) *foreseen {
	one, none := int64(1000), int32(0)
	down := recommender.DefaultScaleDown()
	down.StabilizationWindowSeconds = &none
	g := &foreseen{t: t, current: 5, in: recommender.Input{Options: recommender.DefaultOptions(), Namespace: "shop", Spec: recommender.Spec{
		MinReplicas: 1, MaxReplicas: 20,
		Metrics: []recommender.MetricSpec{{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &one},
		}},
		Behavior: &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: down},
	}}}
	g.plan.Metrics = []string{"External:queue"}
	g.plan.Forecast = f
	if f != nil {
		f.Basis = stages.BasisOf(&g.in.Spec, nil)
	}
	return g
}

func floored() *stages.Forecast {
	return &stages.Forecast{Settings: forecast.Settings{Quantile: 90, Lead: 5 * time.Minute, Zone: time.UTC}, Floor: true}
}

// ask decides with a queue, below 0: it can't be read, and applies the answer.
func (g *foreseen) ask(at time.Time, queue int64) recommender.Decision {
	g.t.Helper()
	in := g.in
	in.ID[0]++
	g.in.ID = in.ID
	in.Scale = recommender.Scale{SpecReplicas: g.current, StatusReplicas: g.current}
	if in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: queue * 1000}}}}; queue < 0 {
		in.Readings = []recommender.Readings{{Error: "away"}}
	}
	d, next := g.kept.Recommend(stages.Around{Plan: &g.plan}, at, &in, &g.history)
	g.history, g.current = next, d.Desired
	return d
}

// pass asks in each quarter of an hour up to an instant.
func (g *foreseen) pass(from, to time.Time, queue func(time.Time) int64) {
	for at := from; at.Before(to); at = at.Add(forecast.Length) {
		g.ask(at, queue(at))
	}
}

func steady(n int64) func(time.Time) int64 { return func(time.Time) int64 { return n } }

// toldForecast is the forecast's adjustment.
func toldForecast(t testing.TB, d *recommender.Decision) recommender.Adjustment {
	t.Helper()
	i := slices.IndexFunc(d.Adjusted.Adjustments, func(a recommender.Adjustment) bool { return a.Stage == recommender.StageForecast })
	if i < 0 {
		t.Fatalf("no forecast is told: %+v", d.Adjusted)
	}
	return d.Adjusted.Adjustments[i]
}

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// TestForecastFloor is Q2: metrics want 9, the floor is 14, 9 run. The count goes there by policies, and the forecast is
// named.
func TestForecastFloor(t *testing.T) {
	g := foresee(t, floored())
	at := monday.AddDate(0, 0, 14).Add(8 * time.Hour)
	g.pass(monday, at, steady(14))
	g.current = 9
	d := g.ask(at, 9)
	if d.Desired != 14 || d.Adjusted.Plain != 9 {
		t.Errorf("desired %d, plain %d, want 14 and 9", d.Desired, d.Adjusted.Plain)
	}
	if a := toldForecast(t, &d); a.Rule != "floor" || a.Before != 9 || a.After != 14 || a.Message != "forecast 14 for 08:00 (90 % of 14 days) is above the metrics' 9" {
		t.Errorf("%+v", a)
	}
	// Policies: 4 pods or 100 %, whichever is more.
	g.current = 2
	if d := g.ask(at.Add(time.Minute), 2); d.Desired != 6 {
		t.Errorf("from 2: %d, want 6, which the policies allow", d.Desired)
	}
	g.current = 9
	if d := g.ask(at.Add(2*time.Minute), 16); d.Desired != 16 || toldForecast(t, &d).Rule != "below" {
		t.Errorf("metrics above it: %d, %+v", d.Desired, toldForecast(t, &d))
	}
	g.in.Spec.MaxReplicas = 12
	g.current = 9
	if d := g.ask(at.Add(10*time.Minute), 9); d.Desired != 12 {
		t.Errorf("maxReplicas 12: %d", d.Desired)
	}
}

// TestForecastIsAShareOfTheMaximum is that a forecast is never above its share of maxReplicas, rounded down, says so,
// and that metrics may be.
func TestForecastIsAShareOfTheMaximum(t *testing.T) {
	for _, c := range []struct {
		percent, most, metrics, want int32
		rule, message                string
	}{
		{80, 17, 9, 13, "floor", "forecast 14 for 08:00 (90 % of 14 days), limited to 13 (80 % of maxReplicas 17) is above the metrics' 9"},
		{80, 18, 9, 14, "floor", "forecast 14 for 08:00 (90 % of 14 days) is above the metrics' 9"},
		{80, 12, 9, 9, "below", "forecast 14 for 08:00 (90 % of 14 days), limited to 9 (80 % of maxReplicas 12) is not above the metrics' 9"},
		{80, 17, 16, 16, "below", "forecast 14 for 08:00 (90 % of 14 days), limited to 13 (80 % of maxReplicas 17) is not above the metrics' 16"},
		{100, 13, 9, 13, "floor", "forecast 14 for 08:00 (90 % of 14 days), limited to 13 (100 % of maxReplicas 13) is above the metrics' 9"},
		{1, 99, 9, 9, "below", "forecast 14 for 08:00 (90 % of 14 days), limited to 0 (1 % of maxReplicas 99) is not above the metrics' 9"},
		{0, 13, 9, 13, "floor", "forecast 14 for 08:00 (90 % of 14 days) is above the metrics' 9"},
		{100, math.MaxInt32, 9, 14, "floor", "forecast 14 for 08:00 (90 % of 14 days) is above the metrics' 9"},
	} {
		f := floored()
		f.MostPercent = c.percent
		g := foresee(t, f)
		at := monday.AddDate(0, 0, 14).Add(8 * time.Hour)
		g.pass(monday, at, steady(14))
		g.in.Spec.MaxReplicas, g.current = c.most, 9
		d := g.ask(at, int64(c.metrics))
		if a := toldForecast(t, &d); d.Desired != c.want || a.Rule != c.rule || a.Message != c.message {
			t.Errorf("%d %% of %d, metrics %d: %d, want %d: %+v", c.percent, c.most, c.metrics, d.Desired, c.want, a)
		}
	}
}

// TestForecastGate is Q3, and that the gate opens again when the forecasts are right.
func TestForecastGate(t *testing.T) {
	g := foresee(t, floored())
	day := func(n int) time.Time { return monday.AddDate(0, 0, n) }
	noon := 12 * time.Hour
	g.pass(monday, day(7).Add(noon), steady(14))
	if d := g.ask(day(7).Add(noon), 9); d.Desired != 9 || toldForecast(t, &d).Rule != "closed" || !strings.Contains(toldForecast(t, &d).Message, "compared with 47 quarters") {
		t.Errorf("after 7 days and a half: %d, %+v", d.Desired, toldForecast(t, &d))
	}
	g.pass(day(7).Add(noon), day(12), steady(14))
	if d := g.ask(day(12), 9); d.Desired != 14 || toldForecast(t, &d).Rule != "floor" {
		t.Errorf("after 12 days: %d, %+v", d.Desired, toldForecast(t, &d))
	}
	g.pass(day(12), day(17), steady(8)) // 5 days of 8, and 2 of 14: (5 × 6) ÷ (5 × 8 + 2 × 14) = 44 %
	d := g.ask(day(17), 8)
	if toldForecast(t, &d).Rule != "floor" {
		t.Errorf("after 5 days that needed less: %+v", toldForecast(t, &d))
	}
	g.pass(day(17), day(18), steady(7))
	d = g.ask(day(18), 7) // (5 × 6 + 7) ÷ (5 × 8 + 7 + 14) = 60.7 %
	if a := toldForecast(t, &d); d.Desired != 7 || a.Message != "forecast 14 not used: excess 61 % in 7 days; the metrics' 7 counts" || a.Before >= 0 {
		t.Errorf("after 6 days: %d, %+v", d.Desired, a)
	}
	g.pass(day(18), day(33), steady(8))
	if d := g.ask(day(33), 6); d.Desired != 8 || toldForecast(t, &d).Rule != "floor" {
		t.Errorf("two weeks later: %d, %+v", d.Desired, toldForecast(t, &d))
	}
	g.pass(day(33), day(36), steady(16))
	if d := g.ask(day(36), 6); d.Desired != 6 || !strings.Contains(toldForecast(t, &d).Message, "not used: missed ") {
		t.Errorf("after 3 days that needed more: %d, %+v", d.Desired, toldForecast(t, &d))
	}
}

// TestWhatAForecastSaidDecidesAgain is that what the past said at each decision gives it again without the past, and that
// a forecast of another kind, or of other metrics, does not take it.
func TestWhatAForecastSaidDecidesAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	a, b := foresee(t, floored()), foresee(t, floored())
	rules := map[string]int{}
	var ring stages.Past // as the service gives it: one a decision
	for at := monday; at.Before(monday.AddDate(0, 0, 12)); at = at.Add(5 * time.Minute) {
		queue := int64(9 + 5*(at.Hour()%7)/3 + rng.IntN(3))
		if rng.IntN(50) == 0 {
			queue = -1
		}
		x := a.ask(at, queue)
		ring = *a.kept.Past()
		b.in.ID, b.current = a.in.ID, x.Current
		in := b.in
		in.Scale = recommender.Scale{SpecReplicas: x.Current, StatusReplicas: x.Current}
		if in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: queue * 1000}}}}; queue < 0 {
			in.Readings = []recommender.Readings{{Error: "away"}}
		}
		past := b.plan.Forecast.Beside(ring.Said, b.plan.Forecast)
		if past == nil {
			t.Fatalf("%s: nothing is said: %+v", at, ring.Said)
		}
		y, next := b.kept.Recommend(stages.Around{Plan: &b.plan, Past: past}, at, &in, &b.history)
		b.history = next
		if !reflect.DeepEqual(x, y) || !reflect.DeepEqual(a.history, b.history) {
			t.Fatalf("%s: another decision:\n%+v\n%+v", at, x, y)
		}
		for _, one := range x.Adjusted.Adjustments {
			rules[one.Rule]++
		}
	}
	if rules["floor"] == 0 || rules["below"] == 0 || rules["none"] == 0 || rules["closed"] == 0 {
		t.Errorf("rules %v", rules)
	}
	said := forecast.Said{Replicas: 9, Seasons: 7, Back: forecast.Backtest{Tested: 600, Missed: 3, Excess: 100, Actual: 4000}}
	f := b.plan.Forecast
	for name, change := range map[string]func(*stages.Forecast){
		"season": func(f *stages.Forecast) { f.Season = forecast.Weekly }, "quantile": func(f *stages.Forecast) { f.Quantile = 91 },
		"lead": func(f *stages.Forecast) { f.Lead++ }, "metrics": func(f *stages.Forecast) { f.Basis.Shape++ },
	} {
		other := *f
		if change(&other); f.Beside(said, &other) != nil {
			t.Errorf("%s: what was said of another forecast counts", name)
		}
	}
	if f.Beside(forecast.Said{}, f) != nil {
		t.Error("nothing was said, and counts")
	}
	other := *f
	other.Basis.Targets = []int64{2 * f.Basis.Targets[0]}
	if got := f.Beside(said, &other); got == nil || got.Said.Replicas != 5 || got.Said.Back.MissedPercent() != 1 || got.Said.Back.ExcessPercent() != 3 || got.Said.Seasons != 7 {
		t.Errorf("with twice the target: %+v", got)
	}
}

// TestForecastOnlyTells is that without FLOOR decisions are those of no forecast, apart from what is told.
func TestForecastOnlyTells(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	only := floored()
	only.Floor = false
	for _, method := range []*stages.Combine{nil, {Method: stages.Min}, {Method: stages.Sum}} {
		a, b := foresee(t, only), foresee(t, nil)
		a.plan.Combine, b.plan.Combine = method, method
		rules := map[string]bool{}
		for at := monday; at.Before(monday.AddDate(0, 0, 16)); at = at.Add(5 * time.Minute) {
			queue := int64(rng.IntN(30)) - 2
			x, y := a.ask(at, queue), b.ask(at, queue)
			for _, one := range x.Adjusted.Adjustments {
				rules[one.Rule] = true
				if one.Stage == recommender.StageForecast && (one.Before >= 0 || one.After >= 0) {
					t.Fatalf("%s: it tells of counts that it changed: %+v", at, one)
				}
			}
			x.Adjusted.Adjustments = slices.DeleteFunc(x.Adjusted.Adjustments, func(a recommender.Adjustment) bool { return a.Stage == recommender.StageForecast })
			if len(x.Adjusted.Adjustments) == 0 {
				x.Adjusted.Adjustments = nil
			}
			if len(y.Adjusted.Adjustments) == 0 {
				y.Adjusted.Adjustments = nil
			}
			if !reflect.DeepEqual(x, y) || !reflect.DeepEqual(a.history, b.history) {
				t.Fatalf("%s: another decision:\n%+v\n%+v", at, x, y)
			}
		}
		if !rules["only"] || !rules["none"] {
			t.Errorf("rules %v", rules)
		}
	}
}

// TestForecastWithinBounds is that a floor never leads above the maximum, below what is decided without, or past the
// policies, whatever the metrics say.
func TestForecastWithinBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	acted := 0
	for range 4 {
		g := foresee(t, floored())
		low := int64(rng.IntN(10))
		need := func(at time.Time) int64 { return low + int64(at.Hour())%7*3 }
		g.pass(monday, monday.AddDate(0, 0, 14), need)
		for i := range 500 {
			at := monday.AddDate(0, 0, 14).Add(time.Duration(i) * 5 * time.Minute)
			g.in.Spec.MaxReplicas = int32(5 + rng.IntN(30))
			g.current = int32(1 + rng.IntN(20))
			before := g.current
			if before > g.in.Spec.MaxReplicas { // moved without a look at metrics
				continue
			}
			d := g.ask(at, max(0, need(at)-int64(rng.IntN(8))))
			if toldForecast(t, &d).Rule == "floor" {
				acted++
			}
			switch {
			case d.Desired > g.in.Spec.MaxReplicas:
				t.Fatalf("%d of at most %d", d.Desired, g.in.Spec.MaxReplicas)
			case d.Desired < d.Adjusted.Plain:
				t.Fatalf("%d, without %d: %+v", d.Desired, d.Adjusted.Plain, d.Adjusted)
			case d.Desired > before+max(4, before):
				t.Fatalf("%d → %d is past the policies", before, d.Desired)
			}
		}
	}
	if acted < 200 {
		t.Errorf("it acted %d times", acted)
	}
}

// TestForecastAmongStages is what it makes of failures, other methods, caps, and other targets.
func TestForecastAmongStages(t *testing.T) {
	at := monday.AddDate(0, 0, 14).Add(8 * time.Hour)
	ready := func(t *testing.T) *foreseen {
		g := foresee(t, floored())
		g.pass(monday, at, steady(14))
		g.current = 9
		return g
	}
	t.Run("all metrics fail", func(t *testing.T) {
		if d := ready(t).ask(at, -1); d.Desired != 9 {
			t.Errorf("%d: the count is held", d.Desired)
		}
	})
	t.Run("MIN", func(t *testing.T) {
		g := foresee(t, floored())
		g.plan.Combine = &stages.Combine{Method: stages.Min}
		g.pass(monday, at, steady(14))
		g.current = 9
		if d := g.ask(at, 9); d.Desired != 14 {
			t.Errorf("%d: a floor is above any combined proposal", d.Desired)
		}
	})
	t.Run("a cap", func(t *testing.T) {
		g := ready(t)
		in := g.in
		in.Scale = recommender.Scale{SpecReplicas: 9, StatusReplicas: 9}
		in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: 9000}}}}
		d, _ := g.kept.Recommend(stages.Around{Plan: &g.plan, Proposals: []stages.Proposal{{Name: "p", Role: stages.Cap, Replicas: 11, Expires: at.Add(time.Hour)}}}, at, &in, &g.history)
		if d.Desired != 11 {
			t.Errorf("%d, want the cap's 11", d.Desired)
		}
	})
	t.Run("quarters with a failure do not count", func(t *testing.T) {
		g := foresee(t, floored())
		g.pass(monday, at, func(at time.Time) int64 {
			if at.Hour() == 8 && at.Day()%2 == 0 {
				return -1
			}
			return 14
		})
		g.ask(at, 14)
		d := g.ask(at.Add(15*time.Minute), 9)
		if a := toldForecast(t, &d); !strings.Contains(a.Message, "(90 % of 7 days)") && a.Rule != "none" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("half the target", func(t *testing.T) {
		g := ready(t)
		half := int64(2000)
		g.in.Spec.Metrics[0].Target.AverageValue = &half
		other := *g.plan.Forecast
		other.Basis = stages.BasisOf(&g.in.Spec, nil)
		g.plan.Forecast = &other
		if d := g.ask(at, 9); toldForecast(t, &d).After != 7 && !strings.HasPrefix(toldForecast(t, &d).Message, "forecast 7 ") {
			t.Errorf("%+v", toldForecast(t, &d))
		}
	})
	t.Run("another metric", func(t *testing.T) {
		g := ready(t)
		g.in.Spec.Metrics[0].Metric.Name = "other"
		g.plan.Metrics = []string{"External:other"}
		other := *g.plan.Forecast
		other.Basis = stages.BasisOf(&g.in.Spec, nil)
		g.plan.Forecast = &other
		if d := g.ask(at, 9); toldForecast(t, &d).Rule != "none" || d.Desired != 9 {
			t.Errorf("%d, %+v", d.Desired, toldForecast(t, &d))
		}
	})
	t.Run("the stage goes", func(t *testing.T) {
		g := ready(t)
		g.plan.Forecast = nil
		if d := g.ask(at, 9); d.Desired != 9 || len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("%d, %+v", d.Desired, d.Adjusted)
		}
	})
	t.Run("nothing is known", func(t *testing.T) {
		g := ready(t)
		in := g.in
		in.Scale = recommender.Scale{SpecReplicas: 9, StatusReplicas: 9}
		in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: 9000}}}}
		for _, past := range []*stages.Past{nil, {Problem: "the store does not answer"}, {}} {
			a := stages.Around{Plan: &g.plan, Past: past}
			d, _, _ := a.RecommendIn(nil, at, &in, &g.history, nil)
			if d.Desired != 9 || toldForecast(t, &d).Rule != "none" {
				t.Errorf("%+v: %d, %+v", past, d.Desired, toldForecast(t, &d))
			}
		}
	})
}

// TestForecastDoesNotFeedItself is that the ring keeps what the metrics wanted, not what the forecast made of it: what is
// no longer needed is forgotten.
func TestForecastDoesNotFeedItself(t *testing.T) {
	g := foresee(t, floored())
	day := func(n int) time.Time { return monday.AddDate(0, 0, n) }
	g.pass(monday, day(14), steady(10))
	g.pass(day(14), day(29), steady(8))
	if d := g.ask(day(29), 5); d.Desired != 8 {
		t.Errorf("%d, want 8: nothing else was wanted for two weeks", d.Desired)
	}
	g.in.Spec.MaxReplicas = 3 // bounds are not in the ring
	g.plan.Schedules = []stages.Schedule{always(t, "day", 15, -1)}
	g.plan.Schedules[0].MinPaced = true
	g.pass(day(29), day(44), steady(12))
	g.in.Spec.MaxReplicas, g.plan.Schedules = 20, nil
	if d := g.ask(day(44), 5); toldForecast(t, &d).After != 12 {
		t.Errorf("%+v, want 12", toldForecast(t, &d))
	}
}
