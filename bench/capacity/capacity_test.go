package capacity

import (
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Bounds, in percent: of the model from the simulation, of the simulation from what was
// measured, and of the median of its errors. What was measured was measured beside other
// work, which single points show.
const (
	modelBound  = 10
	openBound   = 20
	costBound   = 30
	rateBound   = 30
	medianBound = 12
	// swapsFactor is how far swaps a round trip may be off.
	swapsFactor = 2.
)

func measured(t *testing.T) (*Measured, map[Kind]*Costs) {
	t.Helper()
	m, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	costs, err := m.fit()
	if err != nil {
		t.Fatal(err)
	}
	return m, costs
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

var comparison = sync.OnceValues(func() ([]row, error) {
	m, err := Committed()
	if err != nil {
		return nil, err
	}
	return m.compare()
})

func compared(t *testing.T) []row {
	t.Helper()
	rows, err := comparison()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func within(t *testing.T, what string, got, want, percent float64) {
	t.Helper()
	if d := math.Abs(off(got, want)); math.IsNaN(d) || d > percent {
		t.Errorf("%s: %.4g, want %.4g to within %v %%", what, got, want, percent)
	}
}

func TestTheModelAndTheSimulationAgree(t *testing.T) {
	t.Parallel()
	rows := compared(t)
	for i := range rows {
		r := &rows[i]
		within(t, r.String()+", rate", r.model.Rate, r.simulated.Rate, modelBound)
		within(t, r.String()+", processor time", r.model.total(), r.simulated.total(), modelBound)
	}
}

// TestTheSimulationMeetsWhatWasMeasured also asks for the median error, which noise in
// single points can't hide.
func TestTheSimulationMeetsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	rows := compared(t)
	var costs, rates []float64
	for i := range rows {
		r := &rows[i]
		within(t, r.String()+", processor time", r.simulated.total(), r.Total(), costBound)
		within(t, r.String()+", rate", r.simulated.Rate, r.Rate, rateBound)
		if r.SwapsATrip > 0 {
			if x := r.simulated.SwapsATrip / r.SwapsATrip; x > swapsFactor || x < 1/swapsFactor {
				t.Errorf("%s: %.1f swaps a round trip, measured were %.1f", r.Load, r.simulated.SwapsATrip, r.SwapsATrip)
			}
		}
		if !calibrates(r.Load) {
			costs = append(costs, math.Abs(off(r.simulated.total(), r.Total())))
			rates = append(rates, math.Abs(off(r.simulated.Rate, r.Rate)))
		}
	}
	if c, r := median(costs), median(rates); c > medianBound || r > medianBound {
		t.Errorf("points that were not fitted: the median error is %.0f %% of processor time and %.0f %% of rates, want %d %% at most", c, r, medianBound)
	}
}

// TestManyMachines holds the formulas for instances and shards, of which nothing was
// measured, against the simulation.
func TestManyMachines(t *testing.T) {
	t.Parallel()
	_, costs := measured(t)
	for _, test := range []struct {
		name     string
		kind     Kind
		requests int
		system   System
	}{
		{"memory, one instance", UnaryMemory, 1, System{Instances: 1, Cores: 4, Speed: 1, Shards: 1}},
		{"unary, one server", UnaryRedis, 1, System{Instances: 3, Cores: 4, Speed: 1, Shards: 1}},
		{"stream, one server", StreamRedis, 1, System{Instances: 4, Cores: 2, Speed: 1, Shards: 1}},
		{"stream, Cluster", StreamRedis, 1, System{Instances: 8, Cores: 4, Speed: 1, Shards: 4}},
		{"batch, one server", BatchRedis, usualBatch, System{Instances: 2, Cores: 4, Speed: 1, Shards: 1}},
		{"batch, Cluster", BatchRedis, usualBatch, System{Instances: 8, Cores: 4, Speed: 1, Shards: 8}},
	} {
		c := costs[test.kind]
		for _, busy := range []float64{.3, .6} {
			rate := test.system.Most(c, test.requests, busy)
			model, simulated := test.system.Open(c, test.requests, rate), test.system.SimulateOpen(c, test.requests, rate)
			within(t, test.name+", rate", simulated.Rate, rate, 5)
			within(t, test.name+", processor time of the service", model.service, simulated.service, openBound)
			if c.onRedis() {
				within(t, test.name+", processor time of Redis", model.redis, simulated.redis, openBound)
			}
			within(t, test.name+", mean time", model.Mean, simulated.Mean, openBound)
		}
	}
}

func TestThePageIsUpToDate(t *testing.T) {
	t.Parallel()
	m, _ := measured(t)
	tables, err := m.Page()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	_, written, _, err := generated(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(written) != strings.TrimSpace(tables) {
		t.Error("the tables in docs/scaling.md are not those of the model: cd bench && go run . capacity -update ../docs/scaling.md")
	}
}
