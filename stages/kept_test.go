package stages_test

import (
	"testing"
	"time"

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
					if _, history, err = kept.Settle(history, "shop", last.ID, c.outcome, ""); err != nil {
						t.Fatal(err)
					}
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
