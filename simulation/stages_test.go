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

// Freshness leaves readings alone that are measured as they are asked for, and lets those fail that are frozen for too long.
func TestFrozenReadingsAreNotFresh(t *testing.T) {
	scenario := &simulation.Scenario{Start: start, Load: trace(t, 0, 100, 300, 200), Duration: 10 * time.Minute, Workload: web(10), Loop: simulation.Loop{SyncPeriod: 15 * time.Second}}
	scenario.Workload.Usage = []simulation.Usage{offered(0)}
	a := onTotal(2, 50, 10)
	without := counts(t, scenario, a)
	a.Stages = &stages.Plan{Metrics: []string{"External:load"}, Freshness: &stages.Freshness{MaxAge: time.Minute}}
	if fresh := counts(t, scenario, a); !slices.Equal(fresh, without) {
		t.Errorf("with freshness %d,\nwithout %d", fresh, without)
	}
	scenario.Events = at(6*time.Minute, simulation.Event{Kind: simulation.MetricsFrozen, For: time.Hour})
	causes := map[time.Duration]simulation.Cause{}
	if _, err := simulation.Run(scenario, a, func(step *simulation.Step) error {
		causes[step.At] = step.Cause
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if young, old := causes[7*time.Minute], causes[7*time.Minute+15*time.Second]; young != simulation.CauseMetrics || old != "freshness External:load" {
		t.Errorf("frozen for a minute: %q, for longer: %q", young, old)
	}
}
