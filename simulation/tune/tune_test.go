package tune_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
	"github.com/setpoint-dev/setpoint/simulation/tune"
	"github.com/setpoint-dev/setpoint/stages"
)

// workload has pods that serve 10 units a second at all of their request, and start in 2 minutes.
func workload() simulation.Workload {
	return simulation.Workload{
		Containers: []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 1000}}}},
		Usage:      []simulation.Usage{{Metric: "cpu", PerLoad: 100}}, Capacity: 10,
		Startup: simulation.Startup{From: 2 * time.Minute},
	}
}

func scenario(t *testing.T, duration time.Duration, points ...simulation.Point) *simulation.Scenario {
	t.Helper()
	load, err := simulation.NewTrace(points)
	fatal.If(t, err)
	return &simulation.Scenario{Start: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), Duration: duration, Load: load, Workload: workload()}
}

func search(t *testing.T, s *simulation.Scenario, a *simulation.Autoscaler, goal tune.Goal, options tune.Options) *tune.Result {
	t.Helper()
	result, err := tune.Run(t.Context(), s, a, goal, options)
	fatal.If(t, err)
	if c, b := result.Cheapest, result.Best; c != nil && b.Searched.Cost < c.Searched.Cost {
		t.Errorf("chosen at %g, cheapest at %g", b.Searched.Cost, c.Searched.Cost)
	}
	beaten := func(by tune.Score) func(tune.Candidate) bool {
		return func(c tune.Candidate) bool { return by.Cost < c.Searched.Cost && by.Short < c.Searched.Short }
	}
	if b := result.Best; b != nil && slices.ContainsFunc(result.Front, beaten(b.Searched)) {
		t.Errorf("chosen %+v, which beats one of the front", b.Searched)
	}
	return result
}

// A constant load of 100 needs 10 pods that serve 10 each: no spec is cheaper, and a target of
// 20 % takes 50.
func TestTheOptimumOfAConstantLoad(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	s := scenario(t, 12*time.Hour, simulation.Point{Value: 100})
	result := search(t, s, simulationtest.OnCPU(12, 60, 20), tune.Goal{}, tune.Options{Candidates: 150, Seed: 1, LeastReplicas: 1})
	if result.Given.Searched.Cost < 45 || !result.Given.Reached {
		t.Errorf("the given spec: %+v", result.Given.Searched)
	}
	if b := result.Cheapest; b == nil || !b.Reached || !b.Holds || b.Searched.Cost > 11.1 || b.Searched.Cost < 10 || b.Searched.Short != 0 {
		t.Errorf("cheapest %+v, want 10 to 11.1 pods and no shortage", b)
	} else if best := result.Best; best.Searched.Cost > 1.05*b.Searched.Cost || best.Searched.Short != 0 {
		t.Errorf("best %+v, cheapest %+v", best, b)
	}
}

// What confirms goes on where the part before it ended: with a constant load nothing changes
// there. Begun with the count of the spec as it was, a wide tolerance kept a replica too many.
func TestTheSecondPartGoesOn(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	s := scenario(t, 12*time.Hour, simulation.Point{Value: 100})
	result := search(t, s, simulationtest.OnCPU(12, 60, 20), tune.Goal{}, tune.Options{Candidates: 150, Seed: 1, LeastReplicas: 1})
	replicas := int32(12)
	s.Workload.Replicas = &replicas
	for _, c := range append(result.Front, *result.Best) {
		whole, err := simulation.Run(s, &simulation.Autoscaler{Namespace: "shop", Spec: c.Spec, Options: recommender.DefaultOptions()}, nil)
		fatal.If(t, err)
		last := float64(whole.Figures.Most)
		if c.Confirmed.Cost > last+0.01 || c.Confirmed.Short > 0 {
			t.Errorf("confirmed %+v, and never more than %g pods over the whole time", c.Confirmed, last)
		}
	}
}

// A load that jumps to 100 for ten minutes of each hour, faster than pods start: without any
// shortage the least is a minimum of 10 pods.
func TestTheOptimumOfJumps(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	var points []simulation.Point
	for h := range 8 {
		at := time.Duration(h) * time.Hour
		points = append(points, simulation.Point{At: at, Value: 10}, simulation.Point{At: at + 40*time.Minute, Value: 10},
			simulation.Point{At: at + 40*time.Minute, Value: 100}, simulation.Point{At: at + 50*time.Minute, Value: 100}, simulation.Point{At: at + 50*time.Minute, Value: 10})
	}
	s := scenario(t, 8*time.Hour, points...)
	result := search(t, s, simulationtest.OnCPU(2, 60, 50), tune.Goal{}, tune.Options{Candidates: 300, Seed: 1})
	if result.Given.Reached {
		t.Error("the given spec is said to be never short")
	}
	if b := result.Best; b == nil || !b.Holds || b.Searched.Cost < 9.9 || b.Searched.Cost > 12.5 {
		t.Errorf("best %+v, want 10 pods, and at most a quarter more", b)
	} else if b.Spec.MinReplicas < 10 {
		t.Errorf("the minimum is %d, want at least 10", b.Spec.MinReplicas)
	}
	// With a tenth of the time allowed it is much cheaper.
	cheaper := search(t, s, simulationtest.OnCPU(2, 60, 50), tune.Goal{MaxShort: 0.1}, tune.Options{Candidates: 300, Seed: 1})
	if b := cheaper.Best; b == nil || b.Searched.Short > 0.1 || b.Searched.Cost > 0.8*result.Best.Searched.Cost {
		t.Errorf("with shortage allowed: %+v, without: %+v", b, result.Best.Searched)
	}
}

// The front is sorted, and no member beats another.
func TestTheFront(t *testing.T) {
	t.Parallel()
	s := scenario(t, 4*time.Hour, simulation.Point{Value: 20}, simulation.Point{At: time.Hour, Value: 200}, simulation.Point{At: 2 * time.Hour, Value: 20}, simulation.Point{At: 4 * time.Hour, Value: 300})
	result := search(t, s, simulationtest.OnCPU(2, 60, 50), tune.Goal{MaxShort: 0.05}, tune.Options{Candidates: 120, Seed: 3})
	f := result.Front
	if len(f) < 2 || len(f) > tune.MaxFront {
		t.Fatalf("%d candidates", len(f))
	}
	for i := 1; i < len(f); i++ {
		if f[i].Searched.Cost <= f[i-1].Searched.Cost || f[i].Searched.Short >= f[i-1].Searched.Short {
			t.Errorf("%+v after %+v", f[i].Searched, f[i-1].Searched)
		}
	}
	// What is told of the best one is what a simulation of it gives.
	a := simulationtest.OnCPU(2, 60, 50)
	a.Spec = result.Best.Spec
	half := *s
	half.Duration = result.Split
	replicas := int32(2)
	half.Workload.Replicas = &replicas
	again, err := simulation.Run(&half, a, nil)
	fatal.If(t, err)
	if got := again.Figures.RunningHours / half.Duration.Hours(); math.Abs(got-result.Best.Searched.Cost) > 1e-9 {
		t.Errorf("costs %g pods, was said to cost %g", got, result.Best.Searched.Cost)
	}
}

// The same seed finds the same, however many workers there are; another one looks elsewhere.
func TestASearchIsRepeatable(t *testing.T) {
	t.Parallel()
	s := scenario(t, 2*time.Hour, simulation.Point{Value: 20}, simulation.Point{At: time.Hour, Value: 200}, simulation.Point{At: 2 * time.Hour, Value: 20})
	of := func(options tune.Options) *tune.Result {
		options.Candidates = 100
		return search(t, s, simulationtest.OnCPU(2, 60, 50), tune.Goal{MaxShort: 0.01}, options)
	}
	one := of(tune.Options{Workers: 1})
	if many := of(tune.Options{Workers: 7}); !reflect.DeepEqual(one, many) {
		t.Error("with other workers it finds something else")
	}
	if reflect.DeepEqual(one, of(tune.Options{Seed: 5})) {
		t.Error("another seed makes no difference")
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := scenario(t, 30*24*time.Hour, simulation.Point{Value: 20})
	_, err := tune.Run(ctx, s, simulationtest.OnCPU(2, 60, 50), tune.Goal{}, tune.Options{Progress: func(int, int) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Where nothing reaches the goal it says so.
// A search that would take too long is refused after its first run.
func TestASearchThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := scenario(t, 4*time.Hour, simulation.Point{Value: 100})
	one, err := simulation.Run(s, simulationtest.OnCPU(1, 50, 60), nil)
	fatal.If(t, err)
	for _, tt := range []struct {
		work int64
		done int
	}{{one.Work, 1}, {10 * one.Work, 1}, {60 * one.Work, 1}} {
		done := 0
		_, err := tune.Run(t.Context(), s, simulationtest.OnCPU(1, 50, 60), tune.Goal{MaxShort: 1}, tune.Options{Candidates: 200, Work: tt.work, Progress: func(n, _ int) { done = n }})
		if !errors.Is(err, simulation.ErrTooMuch) || done != tt.done {
			t.Errorf("%d of work: %v after %d runs, want %d", tt.work, err, done, tt.done)
		}
	}
}

func TestAGoalThatCannotBeReached(t *testing.T) {
	t.Parallel()
	s := scenario(t, 2*time.Hour, simulation.Point{Value: 1000})
	if result := search(t, s, simulationtest.OnCPU(2, 6, 50), tune.Goal{}, tune.Options{Candidates: 40}); result.Best != nil || len(result.Front) == 0 {
		t.Errorf("%+v", result.Best)
	}
}

func TestSearchesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := scenario(t, time.Minute, simulation.Point{Value: 10})
	if _, err := tune.Run(t.Context(), s, simulationtest.OnCPU(2, 6, 50), tune.Goal{}, tune.Options{}); err == nil {
		t.Error("a minute can't be split")
	}
	s = scenario(t, time.Hour, simulation.Point{Value: 10})
	s.Loop.Offset = 30 * time.Minute
	if _, err := tune.Run(t.Context(), s, simulationtest.OnCPU(2, 6, 50), tune.Goal{}, tune.Options{}); !errors.As(err, new(tune.InputError)) {
		t.Errorf("a part to search without a decision is searched: %v", err)
	}
	s.Loop.Offset = 0
	if _, err := tune.Run(t.Context(), s, simulationtest.OnCPU(2, 6, 50), tune.Goal{}, tune.Options{Candidates: tune.MaxCandidates + 1}); err == nil {
		t.Error("too many candidates are tried")
	}
}

// bursts is a daily load with a burst an hour, of four days.
func bursts(t *testing.T) *simulation.Scenario {
	t.Helper()
	var points []simulation.Point
	for h := range 96 {
		at, value := time.Duration(h)*time.Hour, 100+80*math.Sin(2*math.Pi*float64(h)/24)
		points = append(points, simulation.Point{At: at, Value: value}, simulation.Point{At: at + 20*time.Minute, Value: value + 40}, simulation.Point{At: at + 30*time.Minute, Value: value})
	}
	return scenario(t, 96*time.Hour, points...)
}

// What is chosen has no finding that the given spec has not, passes every trial, costs hardly more
// than the cheapest that does, and changes no more of the spec.
func TestTheChosenSpecIsOneToApply(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	s := bursts(t)
	cheap := func(_ context.Context, a *simulation.Autoscaler, _ *simulation.Scenario) ([]string, error) {
		if *a.Spec.Metrics[0].Target.AverageUtilization > 80 {
			return []string{"near-the-limit"}, nil
		}
		return nil, nil
	}
	r := search(t, s, simulationtest.OnCPU(2, 60, 40), tune.Goal{MaxShort: 0.01}, tune.Options{Candidates: 120, Seed: 1, Lint: cheap})
	if !r.Passed || r.Cheapest == nil || r.Best == nil || r.Refused == 0 {
		t.Fatalf("passed %t, best %+v, cheapest %+v, %d refused", r.Passed, r.Best, r.Cheapest, r.Refused)
	}
	b := r.Best
	if target := *b.Spec.Metrics[0].Target.AverageUtilization; target > 80 {
		t.Errorf("the target is %d %%", target)
	}
	if b.Changes > r.Cheapest.Changes || b.Searched.Cost > 1.05*r.Cheapest.Searched.Cost || b.Searched.Cost > 0.8*r.Given.Searched.Cost {
		t.Errorf("%d changes and %.2f pods, the cheapest %d and %.2f, given %.2f", b.Changes, b.Searched.Cost, r.Cheapest.Changes, r.Cheapest.Searched.Cost, r.Given.Searched.Cost)
	}
	if b.Changes > 2 {
		t.Errorf("%d changes of a spec whose target is all that is wrong", b.Changes)
	}
	for i, trial := range b.Trials {
		given := r.Given.Trials[i].Score
		if !trial.Passed || trial.Score.Lost > trial.Allowed.Lost || i < 2 && trial.Score.Reversals > given.Reversals+1 {
			t.Errorf("%+v, given %+v", trial, given)
		}
	}
	if len(b.Trials) != 4 || b.Searched.Reversals > r.Given.Searched.Reversals+1 {
		t.Errorf("%d trials; %+v, given %+v", len(b.Trials), b.Searched, r.Given.Searched)
	}
	// The same without the finding is cheaper, and with it in the given spec it is no new one.
	free := search(t, s, simulationtest.OnCPU(2, 60, 40), tune.Goal{MaxShort: 0.01}, tune.Options{Candidates: 120, Seed: 1})
	if free.Best == nil || free.Best.Searched.Cost > b.Searched.Cost {
		t.Errorf("without lint %+v", free.Best)
	}
	if own := search(t, s, simulationtest.OnCPU(2, 60, 85), tune.Goal{MaxShort: 0.01}, tune.Options{Candidates: 40, Seed: 1, Lint: cheap}); own.Refused != 0 {
		t.Errorf("%d are refused for what the given spec has", own.Refused)
	}
}

// Only what is named is varied.
func TestPartsThatAreVaried(t *testing.T) {
	t.Parallel()
	s := scenario(t, 4*time.Hour, simulation.Point{Value: 20}, simulation.Point{At: time.Hour, Value: 200}, simulation.Point{At: 2 * time.Hour, Value: 20})
	r := search(t, s, simulationtest.OnCPU(2, 60, 20), tune.Goal{MaxShort: 0.5}, tune.Options{Candidates: 60, Vary: []string{"target"}})
	for _, c := range append(r.Front, *r.Best) {
		target := simulationtest.OnCPU(2, 60, *c.Spec.Metrics[0].Target.AverageUtilization)
		if !reflect.DeepEqual(c.Spec, target.Spec) || c.Changes > 1 {
			t.Errorf("%d changes: %+v", c.Changes, c.Spec)
		}
	}
	if _, err := tune.Run(t.Context(), s, simulationtest.OnCPU(2, 60, 20), tune.Goal{}, tune.Options{Vary: []string{"targets"}}); err == nil {
		t.Error("anything can be varied")
	}
}

// A maximum beyond the pods of a simulation, which many specs have, leaves minimums and counts to try.
func TestAMaximumBeyondASimulation(t *testing.T) {
	t.Parallel()
	s := scenario(t, 2*time.Hour, simulation.Point{Value: 20})
	r := search(t, s, simulationtest.OnCPU(2, math.MaxInt32, 60), tune.Goal{MaxShort: 0.5}, tune.Options{Candidates: 40, Seed: 1, Vary: []string{"minReplicas"}, Work: 1e9})
	if r.Best == nil {
		t.Error("nothing is chosen")
	}
}

// Where nothing named can be varied there is nothing to search.
func TestNothingToVary(t *testing.T) {
	t.Parallel()
	a := simulationtest.OnCPU(0, 60, 20)
	a.Stages = &stages.Plan{Idle: &stages.Idle{}}
	_, err := tune.Run(t.Context(), scenario(t, time.Hour, simulation.Point{Value: 20}), a, tune.Goal{MaxShort: 1}, tune.Options{Candidates: 40, Vary: []string{"minReplicas"}})
	if err == nil || !strings.Contains(err.Error(), "nothing to vary") {
		t.Error(err)
	}
}

// The given spec is tried once in each way, also where it is on the front.
func TestTheGivenSpecOnTheFront(t *testing.T) {
	t.Parallel()
	s := scenario(t, 2*time.Hour, simulation.Point{Value: 20})
	s.Workload.Replicas = new(int32(4))
	r := search(t, s, simulationtest.OnCPU(2, 60, 60), tune.Goal{MaxShort: 1}, tune.Options{Candidates: 3, LeastReplicas: 20, Vary: []string{"minReplicas"}})
	if len(r.Front) != 1 || r.Front[0].Changes != 0 || len(r.Front[0].Trials) != 4 || len(r.Given.Trials) != 4 {
		t.Errorf("%+v", r.Front)
	}
}
