package stages_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// BenchmarkStages measures a decision on three External metrics: by the engine alone, with an empty plan,
// with three stages that change nothing, and with three that do, which takes a second decision for the
// plain count.
func BenchmarkStages(b *testing.B) {
	for _, c := range []struct {
		name   string
		around func(*stages.Around)
	}{
		{"engine", nil},
		{"empty", func(*stages.Around) {}},
		{"three, idle", func(a *stages.Around) {
			a.Plan.Combine = &stages.Combine{Method: stages.Quorum, Quorum: 1}
			a.Plan.Reversals = &stages.Reversals{Count: 15, Period: time.Hour, Hold: time.Minute}
			a.Plan.IgnoreSurge = true
		}},
		{"three, acting", func(a *stages.Around) {
			a.Plan.Combine = &stages.Combine{Method: stages.Quorum, Quorum: 2}
			a.Plan.IgnoreSurge = true
			a.Overrides = []stages.Override{override(stages.Override{Name: "o", Hold: true})}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := several(nil, 3)
			in := g.in
			in.Scale = recommender.Scale{SpecReplicas: 6, StatusReplicas: 6}
			for _, n := range []int64{8, 5, 12} {
				in.Readings = append(in.Readings, recommender.Readings{Values: []recommender.Value{{Milli: n * 1000}}})
			}
			var history recommender.History
			for i := range 20 {
				_, history = recommender.Recommend(noon.Add(time.Duration(i-20)*15*time.Second), &in, &history)
				history.Pending = nil
			}
			if c.around != nil {
				c.around(&g.around)
			}
			var kept []byte
			if c.around != nil { // an override begins once
				_, _, kept = g.around.RecommendIn(nil, noon, &in, &history, nil)
			}
			b.ReportAllocs()
			for b.Loop() {
				if c.around == nil {
					_, _ = recommender.Recommend(noon, &in, &history)
					continue
				}
				_, _, _ = g.around.RecommendIn(nil, noon, &in, &history, kept)
			}
		})
	}
}
