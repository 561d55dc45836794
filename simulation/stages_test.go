package simulation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Stages take part in a simulation: a budget of turns keeps the count of a load that goes up and down, and
// an empty plan changes nothing.
func TestStagesTakePart(t *testing.T) {
	var points []float64
	for i := range 20 {
		load := 100.0
		if i%2 == 1 {
			load = 200
		}
		points = append(points, float64(i*60), load, float64(i*60+59), load)
	}
	scenario := &simulation.Scenario{Start: start, Load: trace(t, points...), Duration: 20 * time.Minute, Workload: web(10), Loop: simulation.Loop{SyncPeriod: 15 * time.Second}}
	scenario.Workload.Usage = []simulation.Usage{offered(0)}
	a := onTotal(2, 50, 10)
	a.Options.DownscaleStabilization = 0
	without := counts(t, scenario, a)
	a.Stages = &stages.Plan{Metrics: []string{"External:load"}}
	if empty := counts(t, scenario, a); !slices.Equal(empty, without) {
		t.Errorf("with an empty plan %d,\nwithout %d", empty, without)
	}
	a.Stages.Reversals = &stages.Reversals{Count: 3, Period: time.Hour, Hold: time.Hour}
	held := counts(t, scenario, a)
	turns := func(counts []int32) (n int) {
		for i, direction := 1, 0; i < len(counts); i++ {
			if next := int(counts[i]) - int(counts[i-1]); next != 0 && next > 0 != (direction > 0) {
				n, direction = n+1, next
			}
		}
		return n
	}
	if turns(without) < 10 || turns(held) > 5 || held[len(held)-1] != 20 {
		t.Errorf("%d turns to %d, without stages %d", turns(held), held[len(held)-1], turns(without))
	}
}
