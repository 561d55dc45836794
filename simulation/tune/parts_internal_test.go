package tune

import (
	"math"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

// What lasts beyond the end of the first part goes on in the second one.
func TestEventsGoOnInTheSecondPart(t *testing.T) {
	t.Parallel()
	load, err := simulation.NewTrace([]simulation.Point{{Value: 1}})
	fatal.If(t, err)
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	s := &simulation.Scenario{Duration: time.Hour, Load: load, Loop: simulation.Loop{SyncPeriod: minutes(7), Offset: minutes(20)}, Events: []simulation.Event{
		{At: minutes(20), For: minutes(15), Kind: simulation.MetricsGone}, {At: minutes(20), For: minutes(10), Kind: simulation.MetricsZero},
		{At: minutes(25), Kind: simulation.KillPods, Pods: 1}, {At: minutes(40), For: minutes(5), Kind: simulation.WritesFail},
	}}
	first, second, err := split(s, simulationtest.OnCPU(2, 60, 20))
	fatal.If(t, err)
	want := []simulation.Event{{For: minutes(5), Kind: simulation.MetricsGone}, {At: minutes(10), For: minutes(5), Kind: simulation.WritesFail}}
	if len(first.Events) != 3 || first.Events[0] != s.Events[0] || len(second.Events) != 2 || second.Events[0] != want[0] || second.Events[1] != want[1] {
		t.Errorf("%+v, then %+v, want %+v", first.Events, second.Events, want)
	}
	if got := second.Loop.Offset; got != minutes(4) { // after 20 and 27 minutes it is decided after 34
		t.Errorf("the second part begins to decide after %s", got)
	}
}

// A node fails at the load's peak, also where the load has no point there, or falls at once.
func TestThePeakOfALoad(t *testing.T) {
	t.Parallel()
	at := func(seconds int, value float64) simulation.Point {
		return simulation.Point{At: time.Duration(seconds) * time.Second, Value: value}
	}
	for name, tt := range map[string]struct {
		points []simulation.Point
		want   time.Duration
	}{
		"constant":             {[]simulation.Point{at(-60, 5)}, 0},
		"rises beyond the end": {[]simulation.Point{at(-60, 5), at(3600, 50)}, time.Hour - time.Second},
		"falls from before":    {[]simulation.Point{at(-60, 50), at(3600, 5)}, 0},
		"a point":              {[]simulation.Point{at(0, 5), at(600, 50), at(1200, 5)}, 10 * time.Minute},
		"falls at once":        {[]simulation.Point{at(0, 5), at(600, 50), at(600, 0)}, 10*time.Minute - time.Second},
		"higher after its end": {[]simulation.Point{at(0, 5), at(600, 50), at(601, 5), at(3600, 5), at(4000, 500)}, 10 * time.Minute},
	} {
		load, err := simulation.NewTrace(tt.points)
		fatal.If(t, err)
		if got := peakOf(&simulation.Scenario{Duration: time.Hour, Load: load}); got != tt.want {
			t.Errorf("%s: at %s, want %s", name, got, tt.want)
		}
	}
}

// A candidate without changes in behavior has the given spec's, also where that is absent.
func TestBehaviorsThatDoNotChange(t *testing.T) {
	t.Parallel()
	a := simulationtest.OnCPU(2, 60, 20)
	s := newSpace(a, 0, nil)
	for d, present := range map[int]bool{upWindow: false, downWindow: true, minimum: false, downPolicy: true} {
		point := make([]float64, len(s.steps))
		for i := range point {
			point[i] = -1
		}
		point[d] = 0.5
		if got := s.spec(point); (got.Behavior != nil) != present {
			t.Errorf("dimension %d: %+v", d, got.Behavior)
		}
	}
}

// As many reversals as are allowed pass, and one more does not, however long the run is: a number a day may be off by a
// rounding error.
func TestOneMoreReversalADayIsAllowed(t *testing.T) {
	t.Parallel()
	for length := 2 * time.Minute; length < 60*time.Hour; length += 7 * time.Minute {
		perDay := func(n int) Score { return Score{Reversals: float64(n) * 24 / length.Hours()} }
		days := int(math.Ceil(length.Hours() / 24))
		for given := range 30 {
			limit := new(Goal).allowed(perDay(given), length)
			if !within(perDay(given+days), limit) || within(perDay(given+days+1), limit) {
				t.Fatalf("in %s: %d reversals and %d more are %g a day, %g are allowed", length, given, days, perDay(given+days).Reversals, limit.Reversals)
			}
		}
	}
}
