package stages_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// G1 and G4 with what is kept where there is no record: changes that fail are no turns, and those that the
// next call sees are.
func TestKeptTurns(t *testing.T) {
	for name, c := range map[string]struct {
		outcome recommender.Outcome
		seen    bool
		want    int32
	}{
		"reported as applied": {recommender.Applied, true, 14},
		"seen":                {recommender.Undecided, true, 14},
		"G4 failed":           {recommender.Failed, false, 10},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t)
			none := int32(0)
			g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &none
			around := stages.Around{Plan: &stages.Plan{Reversals: &stages.Reversals{Count: 3, Period: time.Hour, Hold: 10 * time.Minute}}}
			var kept stages.Kept
			var history recommender.History
			at, current := noon, int32(10)
			var last recommender.Decision
			for _, want := range []int64{14, 10, 14, 10, 14, 10} {
				in := g.in
				in.ID[0]++
				g.in.ID = in.ID
				in.Scale = recommender.Scale{SpecReplicas: current, StatusReplicas: current}
				in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: want * 10_000}}}}
				last, history = kept.Recommend(around, at, &in, &history)
				if c.outcome != recommender.Undecided && history.Pending != nil {
					var err error
					_, history, err = kept.Settle(history, "shop", last.ID, c.outcome, "")
					fatal.If(t, err)
				}
				if current = int32(want); c.seen {
					current = last.Desired
				}
				at = at.Add(time.Minute)
			}
			if last.Desired != c.want {
				t.Errorf("%d, want %d", last.Desired, c.want)
			}
		})
	}
}

// A new target has no history: nil, as the engine takes it.
func TestKeptBeginsWithoutAHistory(t *testing.T) {
	for _, plan := range []*stages.Plan{nil, {WindowThroughFailures: true}} {
		g := newTarget(t)
		g.in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: 100_000}}}}
		g.in.Scale = recommender.Scale{SpecReplicas: 4, StatusReplicas: 4}
		var one, other stages.Kept
		want, wantNext := one.Recommend(stages.Around{Plan: plan}, noon, &g.in, &recommender.History{})
		got, next := other.Recommend(stages.Around{Plan: plan}, noon, &g.in, nil)
		if got.Desired != 8 || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(next, wantNext) {
			t.Errorf("%+v: got %+v, %+v\nwant %+v, %+v", plan, got, next, want, wantNext)
		}
	}
}

// What a caller's previous status says of overrides and stages, of which nobody knows any more, goes with the first
// decision that reads the scale; what the engine and others say stays.
func TestConditionsOfAPreviousStatus(t *testing.T) {
	g := newTarget(t)
	g.in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: 100_000}}}}
	g.in.Scale = recommender.Scale{SpecReplicas: 4, StatusReplicas: 4}
	g.in.PreviousStatus = &recommender.Status{}
	own := []string{stages.Overridden, stages.ExternalMetricFallbackActive, stages.MetricFallbackActive, stages.MetricSuspect}
	for _, kind := range append(own, "Other") {
		g.in.PreviousStatus.Conditions = append(g.in.PreviousStatus.Conditions, recommender.Condition{Type: kind, Status: recommender.ConditionTrue, Reason: "R", Message: "m"})
	}
	for name, first := range map[string]*recommender.ScaleError{"at once": nil, "the scale can't be read at first": {Message: "away"}} {
		t.Run(name, func(t *testing.T) {
			var kept stages.Kept
			in := g.in
			in.ScaleError = first
			d, history := kept.Recommend(stages.Around{}, noon, &in, &recommender.History{})
			if first != nil {
				in.ScaleError = nil
				d, history = kept.Recommend(stages.Around{}, noon.Add(time.Minute), &in, &history)
			}
			for _, list := range [][]recommender.Condition{d.Status.Conditions, history.Status.Conditions} {
				has := func(kind string) bool {
					return slices.ContainsFunc(list, func(c recommender.Condition) bool { return c.Type == kind })
				}
				if slices.ContainsFunc(own, has) || !has("Other") || !has(recommender.AbleToScale) || d.Desired != 8 {
					t.Errorf("%d replicas, %v", d.Desired, list)
				}
			}
		})
	}
}
