package stages_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

func turnsBefore(at time.Time, ago ...time.Duration) (turns []int64) {
	for _, a := range ago {
		turns = append(turns, at.Add(-a).UnixMilli())
	}
	return turns
}

// G1 and G2, and the edges of the budget.
func TestReversals(t *testing.T) {
	four := turnsBefore(noon, 5*time.Minute, 15*time.Minute, 25*time.Minute, 35*time.Minute)
	budget := stages.Reversals{Count: 3, Period: time.Hour, Hold: 10 * time.Minute}
	short := stages.Reversals{Count: 3, Period: 31 * time.Minute, Hold: time.Hour}
	for name, c := range map[string]struct {
		budget  stages.Reversals
		turns   []int64
		at      time.Time
		queue   int64
		maximum int32
		want    int32
		message string
	}{
		"G1 wants 10": {budget, four, noon, 100, 20, 14,
			"4 reversals in 1h0m0s, more than 3: no scale-down until 2026-11-23T12:05:00Z, 14 replicas stay; the recommendation would be 10"},
		"G2 wants 18":            {budget, four, noon, 180, 20, 18, ""},
		"at the end of the hold": {budget, four, noon.Add(5 * time.Minute), 100, 20, 10, ""},
		"before it":              {budget, four, noon.Add(5*time.Minute - time.Second), 100, 20, 14, "4 reversals in 1h0m0s, more than 3: no scale-down until 2026-11-23T12:05:00Z, 14 replicas stay; the recommendation would be 10"},
		"within the budget":      {budget, four[:3], noon, 100, 20, 10, ""},
		"a period ago":           {stages.Reversals{Count: 3, Period: 30 * time.Minute, Hold: time.Hour}, four, noon, 100, 20, 10, ""},
		"within a period, exceeded": {short, four, noon.Add(50 * time.Minute), 100, 20, 14,
			"4 reversals in 31m0s, more than 3: no scale-down until 2026-11-23T12:55:00Z, 14 replicas stay; the recommendation would be 10"},
		"exceeded before the last": {stages.Reversals{Count: 1, Period: 11 * time.Minute, Hold: time.Hour}, turnsBefore(noon, 5*time.Minute, 25*time.Minute, 35*time.Minute), noon, 100, 20, 14,
			"2 reversals in 11m0s, more than 1: no scale-down until 2026-11-23T12:35:00Z, 14 replicas stay; the recommendation would be 10"},
		"above a lowered maximum": {budget, four, noon, 100, 12, 12, ""},
		"none":                    {budget, nil, noon, 100, 20, 10, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t)
			none := int32(0)
			g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &none
			g.in.Spec.MaxReplicas = c.maximum
			g.around.Plan.Reversals, g.around.Turns = &c.budget, c.turns
			d := g.ask(c.at, 14, c.queue)
			if d.Desired != c.want {
				t.Errorf("desired %d, want %d", d.Desired, c.want)
			}
			message := ""
			if a := d.Adjusted.Adjustments; len(a) > 0 {
				if message = a[0].Message; a[0].Stage != recommender.StageReversals || a[0].Before != 10 || a[0].After != 14 || a[0].Until.IsZero() {
					t.Errorf("%+v", a[0])
				}
			}
			if message != c.message {
				t.Errorf("message %q,\nwant %q", message, c.message)
			}
			if len(g.history.ScaleDowns) > 0 && c.want == 14 {
				t.Error("the change that was held is a scale event")
			}
		})
	}
}

// G3: pods of a rollout, within the tolerance and outside.
func TestSurge(t *testing.T) {
	for _, c := range []struct {
		usage          int64
		plain, guarded int32
		message        string
	}{
		{1250, 125, 100, "External:queue is within tolerance: 100 of the spec, not 125 of the status"},
		{1180, 125, 100, "External:queue is within tolerance: 100 of the spec, not 125 of the status"},
		{1380, 138, 138, ""},
	} {
		g := newTarget(t)
		g.in.Spec.MaxReplicas = 200
		g.in.Scale = recommender.Scale{SpecReplicas: 100, StatusReplicas: 125}
		g.in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: c.usage * 1000}}}}
		g.around.Plan.IgnoreSurge = true
		d, _, _ := g.around.RecommendIn(nil, noon, &g.in, nil, nil)
		if d.Desired != c.guarded || d.Adjusted.Plain != c.plain {
			t.Errorf("usage %d: %d, plain %d, want %d and %d", c.usage, d.Desired, d.Adjusted.Plain, c.guarded, c.plain)
		}
		message := ""
		if a := d.Adjusted.Adjustments; len(a) > 0 {
			message = a[0].Message
		}
		if message != c.message {
			t.Errorf("usage %d: message %q,\nwant %q", c.usage, message, c.message)
		}
		g.around.Plan.IgnoreSurge = false
		if d, _, _ := g.around.RecommendIn(nil, noon, &g.in, nil, nil); d.Desired != c.plain || len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("usage %d without the guard: %d, want %d", c.usage, d.Desired, c.plain)
		}
	}
}

// Without a rollout there is nothing to tell.
func TestNoSurge(t *testing.T) {
	g := newTarget(t)
	g.around.Plan.IgnoreSurge = true
	if d := g.ask(noon, 10, 105); d.Desired != 10 || len(d.Adjusted.Adjustments) > 0 {
		t.Errorf("%d, told %v", d.Desired, d.Adjusted.Adjustments)
	}
}

// Version 1.19 has cpu last: the metric that is told is the one that the guard acted on.
func TestSurgeNamesItsMetric(t *testing.T) {
	g := newPods(t, 4, stages.Plan{})
	g.in.Options.Profile, _ = recommender.ProfileByName("v1.19")
	ten := int64(10_000)
	g.in.Spec.Metrics = append(g.in.Spec.Metrics, recommender.MetricSpec{
		Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &ten},
	})
	g.plan(stages.Plan{IgnoreSurge: true}, "Resource:cpu", "External:queue")
	g.uses(500, 0, 0, 0, 0)
	g.in.Scale = recommender.Scale{SpecReplicas: 4, StatusReplicas: 5}
	g.in.Readings = []recommender.Readings{{}, series(50)}
	d, _, _ := g.around.RecommendIn(nil, noon, &g.in, nil, nil)
	if a := d.Adjusted.Adjustments; len(a) != 1 || a[0].Metric != "External:queue" || a[0].Rule != "External:queue" || a[0].Before != 5 || a[0].After != 4 {
		t.Errorf("told %+v", a)
	}
}

// Version 1.19 has cpu last: weights and names are the metrics' all the same.
func TestWeightsFollowTheirMetrics(t *testing.T) {
	for name, want := range map[string]string{
		"v1.19": "WEIGHTED of External:queue 12, Resource:cpu 3: 3; MAX would be 12",
		"v1.36": "WEIGHTED of Resource:cpu 3, External:queue 12: 3; MAX would be 12",
	} {
		g := newPods(t, 4, stages.Plan{})
		g.in.Options.Profile, _ = recommender.ProfileByName(name)
		ten := int64(10_000)
		g.in.Spec.Metrics = append(g.in.Spec.Metrics, recommender.MetricSpec{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &ten},
		})
		g.plan(stages.Plan{Combine: &stages.Combine{Method: stages.Weighted, Weights: []int64{1, 0}}}, "Resource:cpu", "External:queue")
		g.uses(300, 0, 0, 0, 0)
		g.in.Scale = recommender.Scale{SpecReplicas: 4, StatusReplicas: 4}
		g.in.Readings = []recommender.Readings{{}, series(120)}
		d, _, _ := g.around.RecommendIn(nil, noon, &g.in, nil, nil)
		if a := d.Adjusted.Adjustments; len(a) != 1 || a[0].Message != want || a[0].After != 3 {
			t.Errorf("%s: told %+v, want %q", name, a, want)
		}
	}
}
