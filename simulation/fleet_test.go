package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
	"github.com/setpoint-dev/setpoint/stages"
)

const minute = time.Minute

// clusters is a scenario of members a, b, c, … of equal weight, each with a load of its own, if there is one.
func clusters(duration time.Duration, w simulation.Workload, load *simulation.Trace, own ...*simulation.Trace) *simulation.Scenario {
	s := &simulation.Scenario{Start: start, Duration: duration, Seed: 1, Load: load, Workload: w, Fleet: &simulation.Fleet{}}
	for i := range own {
		s.Fleet.Members = append(s.Fleet.Members, simulation.FleetMember{Name: string(rune('a' + i)), Weight: 1, Max: -1, Own: own[i]})
	}
	return s
}

// round is what a test looks at.
type round struct {
	at              time.Duration
	desired         int32
	shares, running []int32
	short           bool
}

// rounds runs a fleet and returns its evaluations.
func rounds(t testing.TB, s *simulation.Scenario, a *simulation.Autoscaler, rule simulation.FleetRule) ([]round, *simulation.Result) {
	t.Helper()
	var list []round
	result, err := simulation.RunFleet(t.Context(), s, a, rule, func(step *simulation.Step) error {
		r := round{at: step.At, desired: step.Decision.Desired, short: step.Load > step.Capacity}
		for _, m := range step.Members {
			r.shares, r.running = append(r.shares, m.Share), append(r.running, m.Ready)
		}
		list = append(list, r)
		return nil
	})
	fatal.If(t, err)
	return list, result
}

// when returns the evaluation at an instant.
func when(t testing.TB, list []round, at time.Duration) round {
	t.Helper()
	i := slices.IndexFunc(list, func(r round) bool { return r.at == at })
	if i < 0 {
		t.Fatalf("no evaluation at %s", at)
	}
	return list[i]
}

// M8: a and b at 60 % of a target of 50, c silent with four pods: 12 remain, where Karmada has 15. Then c is
// lost, and a and b have its load: 1.8 × 8 makes 15 of theirs, or six pods in place of the silent ones.
func TestFleetDoesNotExtrapolateOverASilentMember(t *testing.T) {
	t.Parallel()
	moved := func() *simulation.Trace { return trace(t, 360, 100, 360, 120, 900, 120, 900, 180) }
	for _, tt := range []struct {
		rule         simulation.FleetRule
		stale, moved int32
		shares       []int32
	}{
		{simulation.Hold, 12, 15, []int32{6, 5, 4}},
		{simulation.Shift, 12, 15, []int32{8, 7, 0}},
		{simulation.Karmada, 15, 22, nil},
	} {
		s := clusters(16*minute, web(12), trace(t, 0, 0), moved(), moved(), trace(t, 900, 100, 900, 0))
		s.Events = at(5*minute, simulation.Event{Kind: simulation.CallsGone, Member: "c", For: time.Hour})
		list, _ := rounds(t, s, onCPU(3, 60, 50), tt.rule)
		for _, silence := range []time.Duration{0, 5 * minute, 6 * minute} {
			if r := when(t, list, silence); r.desired != 12 {
				t.Errorf("%v at %s: %d, want 12", tt.rule, silence, r.desired)
			}
		}
		if r := when(t, list, 8*minute); r.desired != tt.stale {
			t.Errorf("%v, c is stale: %d, want %d", tt.rule, r.desired, tt.stale)
		}
		r := list[len(list)-1]
		if tt.shares != nil && (r.desired != tt.moved || !slices.Equal(r.shares, tt.shares)) {
			t.Errorf("%v, c is lost: %d as %v, want %d as %v", tt.rule, r.desired, r.shares, tt.moved, tt.shares)
		}
	}
}

// As in the service, freshness is of a member's readings: what they are too old for is unknown, and not gone.
func TestFreshnessIsOfTheMembersReadings(t *testing.T) {
	t.Parallel()
	w := web(12)
	w.Usage = []simulation.Usage{offered(0)}
	falls := func() *simulation.Trace { return trace(t, 0, 40, 240, 40, 240, 10) }
	for freshness, want := range map[*stages.Freshness]int32{nil: 6, {MaxAge: time.Minute}: 12, {MaxAge: time.Hour}: 6} {
		s := clusters(8*minute, w, trace(t, 0, 0), falls(), falls(), falls())
		s.Fleet.Rules = []simulation.FleetRule{simulation.Hold}
		s.Events = at(2*minute, simulation.Event{Kind: simulation.MetricsFrozen, Member: "c", For: time.Hour})
		a := onTotal(2, 50, 10)
		a.Options.DownscaleStabilization, a.Stages = 0, &stages.Plan{Metrics: []string{"External:load"}, Freshness: freshness}
		if list, _ := rounds(t, s, a, simulation.Hold); list[len(list)-1].desired != want {
			t.Errorf("%v: %d, want %d", freshness, list[len(list)-1].desired, want)
		}
	}
}

// tight is 12 pods of three clusters at 80 %: without four of them the others can't serve the load.
func tight(t testing.TB, events ...simulation.Event) *simulation.Scenario {
	w := web(12)
	w.Capacity, w.Startup = 50, simulation.Startup{From: 45 * time.Second}
	w.Usage[0].PerLoad = 10
	s := clusters(40*minute, w, trace(t, 0, 480), nil, nil, nil)
	s.Events = events
	return s
}

// A member that is killed keeps its share with HOLD, gives it to the others with SHIFT, and with replicas to
// spare nothing is short.
func TestAKilledMember(t *testing.T) {
	t.Parallel()
	dead := simulation.Event{Kind: simulation.ClusterDown, At: 10 * minute, Member: "c", For: 15 * minute}
	short := map[simulation.FleetRule]time.Duration{}
	for rule := simulation.Hold; rule <= simulation.Independent; rule++ {
		list, result := rounds(t, tight(t, dead), onCPU(3, 60, 80), rule)
		short[rule] = result.Figures.ShortTime
		silent, back := when(t, list, 20*minute), list[len(list)-1]
		switch rule {
		case simulation.Hold:
			if silent.shares[2] != 4 || sum(silent.shares) < 12 || result.Figures.Moved != 0 {
				t.Errorf("hold: %v, moved %d", silent.shares, result.Figures.Moved)
			}
		case simulation.Shift:
			if silent.shares[2] != 0 || result.Figures.Moved != 4 {
				t.Errorf("shift: %v, moved %d, want 4", silent.shares, result.Figures.Moved)
			}
		}
		if silent.running[2] != 0 || back.running[2] == 0 {
			t.Errorf("%v: c has %d pods while it is down, and %d later", rule, silent.running[2], back.running[2])
		}
		if math.Abs(result.Figures.Offered-480*40*60) > 1e-6 {
			t.Errorf("%v: a load of %g was offered, want all: it arrives where pods are", rule, result.Figures.Offered)
		}
	}
	if short[simulation.SurviveOne] != 0 || short[simulation.Hold] == 0 || short[simulation.Independent] == 0 {
		t.Errorf("short of capacity: %v", short)
	}
}

func sum(list []int32) (n int32) {
	for _, v := range list {
		n += v
	}
	return n
}

// A member that only does not call serves on. With HOLD nothing changes, with SHIFT the others get its share in
// addition, and clusters that decide alone do not notice.
func TestASilentMember(t *testing.T) {
	t.Parallel()
	silent := simulation.Event{Kind: simulation.CallsGone, At: 10 * minute, Member: "c", For: 15 * minute}
	for _, tt := range []struct {
		rule  simulation.FleetRule
		moved int
		most  int32
	}{{simulation.Hold, 0, 12}, {simulation.Shift, 4, 16}, {simulation.Independent, 0, 12}, {simulation.Karmada, 0, 12}} {
		_, result := rounds(t, tight(t, silent), onCPU(3, 60, 80), tt.rule)
		if f := &result.Figures; f.Moved != tt.moved || f.Most != tt.most || f.ShortTime != 0 {
			t.Errorf("%v: moved %d, at most %d, short for %s; want %d, %d and 0s", tt.rule, f.Moved, f.Most, f.ShortTime, tt.moved, tt.most)
		}
	}
}

// Calls and writes that are late are false alarms: nothing moves. What is late comes; but one whose calls are
// older than 45 s is stale, so that the others get what is added.
func TestASlowMember(t *testing.T) {
	t.Parallel()
	for _, e := range []simulation.Event{
		{Kind: simulation.CallsLate, By: 30 * time.Second}, {Kind: simulation.CallsLate, By: 2 * minute},
		{Kind: simulation.WritesLate, By: 30 * time.Second}, {Kind: simulation.WritesLate, By: 2 * minute},
	} {
		e.At, e.For, e.Member = 5*minute, 15*minute, "c"
		s := tight(t, e)
		_, result := rounds(t, s, onCPU(3, 60, 80), simulation.Shift)
		if result.Figures.Moved != 0 || result.Figures.Ups+result.Figures.Downs != 0 {
			t.Errorf("%+v: moved %d, %d changes", e, result.Figures.Moved, result.Figures.Ups+result.Figures.Downs)
		}
		s.Load = trace(t, 600, 480, 600, 640) // c's part of four more comes later, and comes
		list, _ := rounds(t, s, onCPU(3, 60, 80), simulation.Shift)
		soon := when(t, list, 10*minute+105*time.Second)
		if e.By == 2*minute && soon.running[2] != 4 {
			t.Errorf("%+v: c has %d pods after less than two minutes", e, soon.running[2])
		}
		want := int32(5)
		if e.Kind == simulation.CallsLate && e.By > 45*time.Second {
			want = 4
		}
		if last := list[len(list)-1]; sum(last.running) < 15 || last.running[2] != want {
			t.Errorf("%+v: at last %v", e, last.running)
		}
	}
}

// A call on its way from a cluster that is killed meanwhile does not arrive: it is lost five minutes after the last
// one that did.
func TestCallsOfTheDeadDoNotArrive(t *testing.T) {
	t.Parallel()
	s := tight(t, simulation.Event{Kind: simulation.CallsLate, At: 5 * minute, By: 40 * time.Second, For: 30 * minute, Member: "c"},
		simulation.Event{Kind: simulation.ClusterDown, At: 10 * minute, For: 20 * minute, Member: "c"})
	list, _ := rounds(t, s, onCPU(3, 60, 80), simulation.Shift)
	if r := when(t, list, 15*minute+15*time.Second); r.shares[2] != 0 {
		t.Errorf("after 5m15s: %v", r.shares)
	}
}

// Each member starts its pods in its own time, and keeps to its bounds.
func TestMembersDiffer(t *testing.T) {
	t.Parallel()
	s := tight(t)
	s.Load = trace(t, 600, 480, 600, 800)
	s.Fleet.Members[0].Max = 5
	s.Fleet.Members[1].Startup = &simulation.Startup{From: 5 * minute}
	s.Fleet.Members[2].Weight = 3
	s.Fleet.Members[2].Replicas = new(int32(4))
	for _, rule := range []simulation.FleetRule{simulation.Hold, simulation.SurviveOne} {
		list, _ := rounds(t, s, onCPU(3, 60, 80), rule)
		for _, r := range list {
			if r.shares[0] > 5 {
				t.Fatalf("%v at %s: a has %d, at most 5", rule, r.at, r.shares[0])
			}
		}
		before, soon := when(t, list, 10*minute), when(t, list, 14*minute)
		if soon.running[1] != before.running[1] || soon.running[2] <= before.running[2] {
			t.Errorf("%v: four minutes after the rise %v are ready, before %v", rule, soon.running, before.running)
		}
	}
}

// Load that belongs to one member does not move to another: that one may be short alone.
func TestOwnLoadStays(t *testing.T) {
	t.Parallel()
	w := web(8)
	w.Capacity = 50
	s := clusters(10*minute, w, trace(t, 0, 0), trace(t, 300, 100, 300, 240), trace(t, 0, 100))
	s.Events = at(0, simulation.Event{Kind: simulation.WritesFail, For: time.Hour})
	_, result := rounds(t, s, onCPU(2, 60, 50), simulation.Hold)
	f := &result.Figures
	if f.ShortTime != 5*minute || f.Members[0].Figures.ShortTime != 5*minute || f.Members[1].Figures.ShortTime != 0 {
		t.Errorf("short for %s, a %s, b %s; want 5m, 5m and 0s", f.ShortTime, f.Members[0].Figures.ShortTime, f.Members[1].Figures.ShortTime)
	}
	if f.Lost != 40*300 || f.FailedWrites == 0 {
		t.Errorf("lost %g, want 12000; %d writes failed", f.Lost, f.FailedWrites)
	}
}

// Karmada's own arithmetic (replica_calculator.go): visible proposals are divided by the visible part.
func TestKarmadaModel(t *testing.T) {
	t.Parallel()
	of := func(own float64) *simulation.Trace { return trace(t, 0, own) }
	gone := func(names ...string) (events []simulation.Event) {
		for _, name := range names {
			events = append(events, simulation.Event{Kind: simulation.CallsGone, Member: name, For: time.Hour})
		}
		return events
	}
	for _, tt := range []struct {
		name   string
		events []simulation.Event
		usage  float64 // of each cluster
		want   int32   // after the first decision with samples
	}{
		{"all are seen: as HPA", nil, 120, 15},    // 1.2 × 12 = 14.4
		{"two of three", gone("c"), 120, 15},      // 1.2 × 8 ÷ (8/12) = 14.4
		{"one of three", gone("b", "c"), 180, 22}, // 1.8 × 4 ÷ (4/12) = 21.6
		{"less than before", gone("c"), 50, 6},    // 0.5 × 8 ÷ (8/12)
		{"within tolerance", gone("c"), 105, 12},  // 1.05
		{"none: it does nothing", gone("a", "b", "c"), 200, 12},
	} {
		w := web(12)
		s := clusters(30*time.Second, w, trace(t, 0, 0), of(tt.usage), of(tt.usage), of(tt.usage))
		s.Events = tt.events
		a := onCPU(3, 60, 50)
		zero := int32(0)
		a.Spec.Behavior = &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
		a.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &zero
		list, _ := rounds(t, s, a, simulation.Karmada)
		if got := sum(list[0].shares); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// randomFleet is a random simulation of several clusters.
func randomFleet(seed uint64) (*simulation.Scenario, *simulation.Autoscaler) {
	s, a := simulationtest.Random(seed, 30)
	r := rand.New(rand.NewPCG(seed, 9))
	s.Fleet = &simulation.Fleet{MaxMoves: int32(r.IntN(3))}
	// Metrics of clusters that are not alike would be another workload's.
	n := 2 + r.IntN(4)
	a.Spec.MinReplicas = max(a.Spec.MinReplicas, 1)
	for i := range n {
		m := simulation.FleetMember{Name: string(rune('a' + i)), Weight: int32(1 + r.IntN(5)), Max: -1}
		if r.IntN(3) == 0 {
			m.Max = int32(1 + r.IntN(10))
		}
		if r.IntN(3) == 0 {
			m.Own, _ = simulation.Ramp(0, 50*r.Float64(), time.Duration(r.Int64N(int64(s.Duration))), time.Second)
		}
		if r.IntN(3) == 0 {
			m.Startup = &simulation.Startup{From: time.Duration(r.IntN(90)) * time.Second}
		}
		s.Fleet.Members = append(s.Fleet.Members, m)
	}
	for range r.IntN(4) {
		s.Events = append(s.Events, simulation.Event{
			At: time.Duration(r.Int64N(int64(s.Duration))).Truncate(time.Second), For: time.Duration(1+r.IntN(400)) * time.Second, By: time.Duration(1+r.IntN(90)) * time.Second,
			Kind: simulation.ClusterDown + simulation.EventKind(r.IntN(4)), Member: s.Fleet.Members[r.IntN(n)].Name,
		})
	}
	s.Fleet.Rules = []simulation.FleetRule{simulation.Hold, simulation.Shift, simulation.SurviveOne, simulation.Independent}
	totals := 0
	for i := range a.Spec.Metrics {
		if m := &a.Spec.Metrics[i]; m.Type == recommender.ObjectMetric || m.Type == recommender.ExternalMetric {
			if totals++; seed%2 == 0 {
				s.Fleet.Global = append(s.Fleet.Global, m.Metric.Name)
			}
		}
	}
	if totals == 0 {
		s.Fleet.Rules = append(s.Fleet.Rules, simulation.Karmada)
	}
	return s, a
}

// No load is lost or made by being spread, whatever happens; shares stay within the members' bounds; and the same
// seed gives the same bits.
func TestFleetsConserveLoadAndAreRepeatable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		s, a := randomFleet(seed)
		for _, rule := range s.Fleet.Rules {
			var text [2]strings.Builder
			var result *simulation.Result
			for run := range text {
				var err error
				result, err = simulation.RunFleet(t.Context(), s, a, rule, func(step *simulation.Step) error {
					fmt.Fprintf(&text[run], "%s %x %x %x %x %d %d %v %s\n", step.At, step.Load, step.Capacity, step.Served, step.Lost, step.Replicas, step.Decision.Desired, step.Members, step.Cause)
					replicas, ready := int32(0), int32(0)
					for i, m := range step.Members {
						replicas, ready = replicas+m.Share, ready+m.Ready
						if most := s.Fleet.Members[i].Max; rule <= simulation.SurviveOne && step.At > s.Duration/2 && most >= 0 && m.Share > most {
							outside := slices.ContainsFunc(s.Events, func(e simulation.Event) bool { return e.Kind == simulation.SetReplicas })
							if !outside {
								return fmt.Errorf("%s: %s has %d, at most %d", step.At, m.Name, m.Share, most)
							}
						}
					}
					if replicas != step.Replicas || ready != step.Ready {
						return errors.New("the members are not the whole")
					}
					return nil
				})
				if err != nil {
					t.Fatalf("seed %d, %v: %v", seed, rule, err)
				}
			}
			if text[0].String() != text[1].String() {
				t.Errorf("seed %d, %v: two runs differ", seed, rule)
			}
			f := &result.Figures
			want := s.Load.Volume(0, s.Duration)
			for _, m := range s.Fleet.Members {
				if m.Own != nil {
					want += m.Own.Volume(0, s.Duration)
				}
			}
			// Retries are offered once: they come back from Lost.
			if got := f.Served + f.Lost + f.Queued + f.Returning; math.Abs(got-want) > 1e-6*want || math.Abs(f.Offered-want) > 1e-6*want {
				t.Errorf("seed %d, %v: served, lost and waiting are %g, offered %g, the load is %g", seed, rule, got, f.Offered, want)
			}
			last := int32(-1)
			for _, change := range result.Actions {
				if change.From == change.To || last >= 0 && change.From != last || change.Cause == "" {
					t.Errorf("seed %d, %v: at %s a change from %d to %d after one to %d", seed, rule, change.At, change.From, change.To, last)
				}
				last = change.To
			}
			if len(result.Actions) != f.Ups+f.Downs {
				t.Errorf("seed %d, %v: %d changes, and %d up and %d down are counted", seed, rule, len(result.Actions), f.Ups, f.Downs)
			}
			if result.Steps != 30 || result.Work <= 0 {
				t.Errorf("seed %d, %v: %d evaluations, work %d", seed, rule, result.Steps, result.Work)
			}
		}
	}
	s, a := randomFleet(1)
	s.Workload.Startup = simulation.Startup{Kind: simulation.UniformStartup, From: time.Second, To: minute}
	s.Load, s.Workload.Capacity = trace(t, 60, 10, 60, 3000), 40
	first, _ := rounds(t, s, a, simulation.Hold)
	s.Seed++
	if second, _ := rounds(t, s, a, simulation.Hold); fmt.Sprint(first) == fmt.Sprint(second) {
		t.Error("another seed changes nothing")
	}
}

// Stages and overrides of a fleet are around its one decision.
func TestStagesAreAroundTheFleetsDecision(t *testing.T) {
	t.Parallel()
	s, a := tight(t), onCPU(3, 60, 80)
	s.Load = trace(t, 300, 480, 300, 100)
	s.Events = at(20*minute, simulation.Event{Kind: simulation.Override, For: 5 * minute, Override: &stages.Override{Level: stages.OfTarget, Reason: "test", Pin: 20, Floor: -1, Ceiling: -1}})
	list, result := rounds(t, s, a, simulation.Hold)
	if r := when(t, list, 22*minute); r.desired != 20 || sum(r.running) != 20 {
		t.Errorf("pinned: %d, %v are ready, want 20", r.desired, r.running)
	}
	if last := list[len(list)-1]; last.desired != 3 {
		t.Errorf("later: %d, want 3", last.desired)
	}
	if c := result.Figures.Causes; !slices.ContainsFunc(c, func(c simulation.CauseTime) bool { return strings.HasPrefix(string(c.Cause), "override pin") }) {
		t.Errorf("causes: %v", c)
	}
	var points []float64
	for i := range 8 {
		load := []float64{480, 240}[i%2]
		points = append(points, float64(300*i), load, float64(300*i+299), load)
	}
	s.Load, s.Events, a.Options.DownscaleStabilization = trace(t, points...), nil, 0
	changes := func() int {
		_, result := rounds(t, s, a, simulation.Hold)
		return result.Figures.Ups + result.Figures.Downs
	}
	without := changes()
	a.Stages = &stages.Plan{Metrics: []string{"Resource:cpu"}, Reversals: &stages.Reversals{Count: 1, Period: time.Hour, Hold: time.Hour}}
	if held := changes(); held == 0 || held > without*3/4 {
		t.Errorf("%d changes with a budget of one turn an hour, %d without", held, without)
	}
}

func TestFleetsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*simulation.Scenario, *simulation.Autoscaler){
		"fleet: is missing": func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet = nil },
		"it must have 2 to 64": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			s.Fleet.Members = s.Fleet.Members[:1]
		},
		`member "a" is named twice`:                           func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.Members[1].Name = "a" },
		`"b": its weight and its maxReplicas must be above 0`: func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.Members[1].Weight = 0 },
		"add up to 9, which is above the fleet's minReplicas 3": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			for i := range s.Fleet.Members {
				s.Fleet.Members[i].Min = 3
			}
		},
		"fleet: the members have 40004 replicas": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			for i := range 2 {
				s.Fleet.Members[i].Replicas = new(int32(simulation.MaxPods))
			}
		},
		"3 members in 734400 steps are 2203200 calls, more than 2200000": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			s.Loop.SyncPeriod, s.Duration = time.Second, 734400*time.Second
			s.Fleet.StaleAfter = 5 * time.Second
		},
		"members are stale after 1s": func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.StaleAfter = time.Second },
		"stages.forecast: a fleet has none": func(_ *simulation.Scenario, a *simulation.Autoscaler) {
			a.Stages = &stages.Plan{Forecast: &stages.Forecast{}}
		},
		"unknown rule 5": func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.Rules = []simulation.FleetRule{5} },
		"karmada is modelled for metrics of pods only": func(s *simulation.Scenario, a *simulation.Autoscaler) {
			a.Spec.Metrics = onTotal(1, 2, 5).Spec.Metrics
			s.Workload.Usage = append(s.Workload.Usage, offered(0))
		},
		`fleet.scopes: the spec has no Object or External metric "cpu"`: func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.Global = []string{"cpu"} },
		"fleet.rules: karmada knows no drained members":                 func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.Members[1].Drained = true },
		"fleet.rules: independent knows no own bounds of members":       func(s *simulation.Scenario, _ *simulation.Autoscaler) { s.Fleet.Members[1].OwnMin = 1 },
		`"b": own: its minReplicas is 3 and its maxReplicas 2`: func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			s.Fleet.Members[1].OwnMin, s.Fleet.Members[1].OwnMax = 3, 2
		},
		"every member is drained": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			for i := range s.Fleet.Members {
				s.Fleet.Members[i].Drained = true
			}
		},
		`events[0].member: the fleet has no "d"`: func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			s.Events = []simulation.Event{{Kind: simulation.KillPods, Pods: 1, Member: "d"}}
		},
		"events[0].member: is missing": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			s.Events = []simulation.Event{{Kind: simulation.ClusterDown, For: minute}}
		},
		"events[0].member: overrides of a member": func(s *simulation.Scenario, _ *simulation.Autoscaler) {
			s.Events = []simulation.Event{{Kind: simulation.Override, Member: "a", For: minute, Override: &stages.Override{Pin: 3, Floor: -1, Ceiling: -1}}}
		},
		"need one that follows Kubernetes v1.20": func(_ *simulation.Scenario, a *simulation.Autoscaler) {
			a.Options.Profile, _ = recommender.ProfileByName("v1.19")
		},
	} {
		s, a := tight(t), onCPU(3, 60, 80)
		change(s, a)
		if _, err := simulation.RunFleet(t.Context(), s, a, simulation.Hold, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := simulation.Check(tight(t), onCPU(3, 60, 80)); err == nil || !strings.Contains(err.Error(), "fleet: only setpoint simulate") {
		t.Errorf("a run of one cluster: %v", err)
	}
	s := tight(t)
	s.Fleet, s.Events = nil, []simulation.Event{{Kind: simulation.CallsGone, For: minute, Member: "c"}}
	if err := simulation.Check(s, onCPU(3, 60, 80)); err == nil || !strings.Contains(err.Error(), "there is no fleet") {
		t.Errorf("an event of a member without a fleet: %v", err)
	}
}

// Of a global metric each member reads the whole, which counts once; autoscalers that know of no other count it once each.
// While a member is silent its part of a sum is unknown and the count stays, but the whole is not.
func TestFleetReadsAGlobalMetricOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		global       []string
		rule         simulation.FleetRule
		first, later int32
	}{
		{nil, simulation.Hold, 18, 18},
		{[]string{"load"}, simulation.Hold, 18, 6},
		{nil, simulation.Independent, 18, 6},
		{[]string{"load"}, simulation.Independent, 54, 18},
	} {
		a, w := onTotal(3, 60, 5), web(18)
		a.Options.DownscaleStabilization = 0
		w.Usage = append(w.Usage, offered(0))
		// 90 a second are three times 30, and 18 replicas; a third of that from ten minutes on, when c is silent but there.
		s := clusters(20*minute, w, trace(t, 0, 0), trace(t, 600, 30, 600, 10), trace(t, 600, 30, 600, 10), trace(t, 600, 30, 600, 10))
		s.Fleet.Global, s.Fleet.Rules = tt.global, []simulation.FleetRule{tt.rule}
		if tt.rule == simulation.Hold {
			s.Events = at(9*minute, simulation.Event{Kind: simulation.CallsGone, Member: "c", For: time.Hour})
		}
		list, _ := rounds(t, s, a, tt.rule)
		sum := func(r round) (n int32) {
			for _, share := range r.shares {
				n += share
			}
			return n
		}
		if first, later := when(t, list, 8*minute), list[len(list)-1]; sum(first) != tt.first || tt.rule == simulation.Hold && later.desired != tt.later || tt.rule != simulation.Hold && sum(later) != tt.later {
			t.Errorf("%v, global %v: %v, then %d as %v; want %d, then %d", tt.rule, tt.global, first.shares, later.desired, later.shares, tt.first, tt.later)
		}
	}
}

// A drained member becomes empty, one replica a decision, also below its own minimum. Shares stay within the bounds of the members' own
// specs, and the others do the rest.
func TestFleetDrainsAndKeepsOwnBounds(t *testing.T) {
	t.Parallel()
	three := []simulation.FleetRule{simulation.Hold, simulation.Shift, simulation.SurviveOne}
	for name, tt := range map[string]struct {
		change func(m []simulation.FleetMember)
		want   []int32
	}{
		"as it is":  {func([]simulation.FleetMember) {}, []int32{4, 4, 4}},
		"c drained": {func(m []simulation.FleetMember) { m[2].Drained, m[2].OwnMin, m[2].Replicas = true, 2, new(int32(4)) }, []int32{6, 6, 0}},
		"a small":   {func(m []simulation.FleetMember) { m[0].OwnMax = 2 }, []int32{2, 5, 5}},
		"b large":   {func(m []simulation.FleetMember) { m[1].OwnMin = 8 }, []int32{2, 8, 2}},
		"b is off":  {func(m []simulation.FleetMember) { m[1].OwnMin, m[1].Replicas = 1, new(int32(0)) }, []int32{6, 0, 6}}, // to its own spec
	} {
		s := clusters(20*minute, web(12), trace(t, 0, 300), nil, nil, nil)
		s.Fleet.Rules = three
		if name == "c drained" {
			for i := range 2 {
				s.Fleet.Members[i].Replicas = new(int32(4))
			}
		}
		tt.change(s.Fleet.Members)
		list, _ := rounds(t, s, onCPU(3, 60, 50), simulation.Hold)
		last := list[len(list)-1]
		if !slices.Equal(last.shares, tt.want) || !slices.Equal(last.running, tt.want) {
			t.Errorf("%s: %v, of which %v run, want %v", name, last.shares, last.running, tt.want)
		}
		for i, r := range list {
			for k, share := range r.shares {
				if m := s.Fleet.Members[k]; i > 0 && (m.OwnMax > 0 && share > m.OwnMax || !m.Drained && share > 0 && share < m.OwnMin) {
					t.Errorf("%s, at %s: %v", name, r.at, r.shares)
				}
			}
			if name == "c drained" && i > 0 && r.shares[2] < list[i-1].shares[2]-1 {
				t.Errorf("at %s c gives more than one: %v, then %v", r.at, list[i-1].shares, r.shares)
			}
		}
	}
}

// What would take too long ends: all members together have what one cluster has.
func TestFleetsAreBounded(t *testing.T) {
	t.Parallel()
	s := clusters(24*time.Hour, web(12), trace(t, 0, 12), nil, nil, nil)
	s.Load = trace(t, 60, 12, 60, 1e9)
	for _, rule := range []simulation.FleetRule{simulation.Hold, simulation.Independent} {
		_, err := simulation.RunFleet(t.Context(), s, onCPU(3, 1_000_000, 50), rule, nil)
		if !errors.Is(err, simulation.ErrTooMuch) || !strings.Contains(err.Error(), "the maximum is 20000 pods, of which the other members leave") {
			t.Errorf("%v: %v", rule, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := simulation.RunFleet(ctx, tight(t), onCPU(3, 60, 80), simulation.Hold, func(step *simulation.Step) error {
		if step.At == 5*minute {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "at 5m") {
		t.Errorf("it is ended at 5m: %v", err)
	}
}
