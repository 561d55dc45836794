package telemetry

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Each adjustment counts once, and no name of a user is ever a label.
func TestAdjustmentsAreCountedByKind(t *testing.T) {
	registry := prometheus.NewRegistry()
	decisions := NewDecisions()
	registry.MustRegister(decisions.Collectors()...)
	series := func() (all map[string]float64) {
		families, err := registry.Gather()
		fatal.If(t, err)
		all = make(map[string]float64)
		for _, f := range families {
			if f.GetName() != "setpoint_adjustments_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				labels := m.GetLabel() // sorted by name: rule, stage
				all[labels[1].GetValue()+" "+labels[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
		return all
	}
	before := len(series())
	a := &recommender.Adjusted{}
	for i := range 50 {
		a.Adjustments = append(a.Adjustments,
			recommender.Adjustment{Stage: recommender.StageBounds, Rule: fmt.Sprintf("schedule/s%d", i)},
			recommender.Adjustment{Stage: recommender.StageBounds, Rule: fmt.Sprintf("proposal/hold%d", i)},
			recommender.Adjustment{Stage: recommender.StageSchedule, Rule: fmt.Sprintf("unheard-of/%d", i)},
			recommender.Adjustment{Stage: recommender.StageFallback, Rule: fmt.Sprintf("External:a/%d", i), Metric: fmt.Sprintf("External:a/%d", i)},
			recommender.Adjustment{Stage: recommender.StageOverride, Rule: "hold"},
			recommender.Adjustment{Stage: recommender.StageIdle, Rule: "activation", Metric: "External:a"},
			recommender.Adjustment{Stage: recommender.StageForecast, Rule: "floor", Before: 9, After: 14},
			recommender.Adjustment{Stage: recommender.StageForecast, Rule: "only", Before: -1, After: -1},
			recommender.Adjustment{Stage: recommender.StageForecast, Rule: "none", Before: -1, After: -1},
			recommender.Adjustment{Stage: recommender.Stage(200), Rule: "of a newer version"},
		)
	}
	decisions.Recorded(&recommender.Decision{Adjusted: a})
	decisions.Recorded(&recommender.Decision{})
	after := series()
	if len(after) != before {
		t.Errorf("%d series, before %d", len(after), before)
	}
	for _, name := range []string{"BOUNDS schedule", "BOUNDS proposal", "SCHEDULE other", "FALLBACK metric", "OVERRIDE hold", "IDLE activation", "FORECAST floor"} {
		if after[name] != 50 {
			t.Errorf("%s: %v, want 50", name, after[name])
		}
		delete(after, name)
	}
	for name, n := range after {
		if n != 0 {
			t.Errorf("%s: %v, want 0", name, n)
		}
	}
}
