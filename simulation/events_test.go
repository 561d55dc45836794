package simulation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

// steps runs a fixed count of web's pods under an event and returns what was seen.
func steps(t *testing.T, s *simulation.Scenario, a *simulation.Autoscaler, see func(*simulation.Step)) simulation.Figures {
	t.Helper()
	result, err := simulation.Run(s, a, func(step *simulation.Step) error { see(step); return nil })
	fatal.If(t, err)
	return result.Figures
}

func at(at time.Duration, e simulation.Event) []simulation.Event {
	e.At = at
	return []simulation.Event{e}
}

func TestKilledPodsAreReplaced(t *testing.T) {
	t.Parallel()
	w := web(4)
	w.Startup.From, w.SchedulingDelay = 20*time.Second, 5*time.Second
	s := &simulation.Scenario{Start: start, Duration: 90 * time.Second, Load: trace(t, 0, 120), Workload: w}
	s.Events = at(30*time.Second, simulation.Event{Kind: simulation.KillPods, Pods: 3})
	var ready, running, status []int32
	steps(t, s, onCPU(4, 4, 60), func(step *simulation.Step) {
		ready, running = append(ready, step.Ready), append(running, step.Running)
		status = append(status, step.Input.Scale.StatusReplicas)
	})
	// Three are new at 30 s, run at 35 s and are ready at 55 s.
	if want := []int32{4, 4, 1, 1, 4, 4}; !slices.Equal(ready, want) {
		t.Errorf("ready %v, want %v", ready, want)
	}
	if want := []int32{4, 4, 1, 4, 4, 4}; !slices.Equal(running, want) {
		t.Errorf("running %v, want %v", running, want)
	}
	if want := []int32{4, 4, 4, 4, 4, 4}; !slices.Equal(status, want) {
		t.Errorf("status %v, want %v", status, want)
	}
}

func TestCrashedPodsComeBack(t *testing.T) {
	t.Parallel()
	s := &simulation.Scenario{Start: start, Duration: 90 * time.Second, Load: trace(t, 0, 120), Workload: web(4)}
	s.Workload.Capacity = 40
	s.Events = at(30*time.Second, simulation.Event{Kind: simulation.CrashPods, Share: 0.5, For: 20 * time.Second})
	var ready []int32
	f := steps(t, s, onCPU(4, 4, 60), func(step *simulation.Step) { ready = append(ready, step.Ready) })
	if want := []int32{4, 4, 2, 2, 4, 4}; !slices.Equal(ready, want) {
		t.Errorf("ready %v, want %v", ready, want)
	}
	if f.Lost != 20*40 || f.ShortTime != 20*time.Second {
		t.Errorf("lost %g in %s, want 800 in 20s", f.Lost, f.ShortTime)
	}
}

// A share of pods is no pod more by a rounding error: 0.07 of 100 are 7.
func TestAShareOfPodsIsExact(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{1, 7, 14, 28, 55, 56, 99, 100} {
		s := &simulation.Scenario{Start: start, Duration: 30 * time.Second, Load: trace(t, 0, 120), Workload: web(100)}
		s.Events = at(15*time.Second, simulation.Event{Kind: simulation.CrashPods, Share: float64(percent) / 100, For: time.Minute})
		var ready int32
		steps(t, s, onCPU(100, 100, 60), func(step *simulation.Step) { ready = step.Ready })
		if int(ready) != 100-percent {
			t.Errorf("%d %% of 100 pods crash, and %d are ready", percent, ready)
		}
	}
}

// A load that halves at 60 s, seen by a metric in trouble from 45 s to 105 s.
func TestMetricsInTrouble(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind simulation.EventKind
		by   time.Duration
		want []int64 // -1: an error
	}{
		"gone":   {simulation.MetricsGone, 0, []int64{100, 100, 100, -1, -1, -1, -1, 50, 50}},
		"frozen": {simulation.MetricsFrozen, 0, []int64{100, 100, 100, 100, 100, 100, 100, 50, 50}},
		"zero":   {simulation.MetricsZero, 0, []int64{100, 100, 100, 0, 0, 0, 0, 50, 50}},
		// 75 s reads what there was at 60 s, and 90 s what there was at 75 s.
		"late": {simulation.MetricsLate, 15 * time.Second, []int64{100, 100, 100, 100, 100, 100, 50, 50, 50}},
	} {
		for _, metric := range []string{"", "load"} {
			w := simulation.Workload{Replicas: new(int32(1)), Usage: []simulation.Usage{offered(time.Second)}}
			s := &simulation.Scenario{Start: start, Duration: 135 * time.Second, Load: trace(t, 0, 100, 60, 100, 60, 50), Workload: w}
			s.Events = at(45*time.Second, simulation.Event{Kind: tt.kind, For: time.Minute, By: tt.by, Metric: metric})
			var got []int64
			steps(t, s, fixed(1), func(step *simulation.Step) {
				r := step.Input.Readings[0]
				if r.Error != "" {
					got = append(got, -1)
					return
				}
				got = append(got, r.Values[0].Milli/1000)
			})
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, metric %q: %v, want %v", name, metric, got, tt.want)
			}
		}
	}
}

// Frozen resource metrics keep their values and timestamps, and new pods have none.
func TestFrozenSamplesKeepTheirTime(t *testing.T) {
	t.Parallel()
	s := &simulation.Scenario{Start: start, Duration: 2 * time.Minute, Load: trace(t, 0, 90, 60, 90, 60, 180), Workload: web(3)}
	s.Events = []simulation.Event{
		{At: 50 * time.Second, Kind: simulation.MetricsFrozen, For: time.Minute, Metric: "cpu"},
		{At: 70 * time.Second, Kind: simulation.KillPods, Pods: 1},
	}
	steps(t, s, onCPU(3, 3, 60), func(step *simulation.Step) {
		want, pods := step.At, 3
		if step.At >= 50*time.Second && step.At < 110*time.Second {
			want = 45 * time.Second
			if step.At > 70*time.Second {
				pods = 2
			}
		}
		if got := step.Input.PodMetrics; len(got) != pods || !got[0].Timestamp.Equal(start.Add(want)) {
			t.Errorf("at %s: %d samples, the first of %s, want %d and %s", step.At, len(got), got[0].Timestamp.Sub(start), pods, want)
		}
	})
}

// While writing fails the count stays, the engine knows of it, and tries again.
func TestFailedWritesAreTriedAgain(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(2)), Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 75 * time.Second, Load: trace(t, 0, 4), Workload: w}
	s.Loop.ApplyDelay = 2 * time.Second
	s.Events = at(0, simulation.Event{Kind: simulation.WritesFail, For: 20 * time.Second})
	var replicas []int32
	f := steps(t, s, onTotal(1, 10, 1), func(step *simulation.Step) { replicas = append(replicas, step.Replicas) })
	// Decided at 0 and 15 s, written at 2 and 17 s, which fails; decided at 30 s, written at 32 s.
	if want := []int32{2, 2, 2, 4, 4}; !slices.Equal(replicas, want) || f.FailedWrites != 2 || f.Ups != 1 {
		t.Errorf("replicas %v, want %v; %d writes failed, want 2; %d did not, want 1", replicas, want, f.FailedWrites, f.Ups)
	}
}

// The list of changes has those that the figures count: no write that failed is one.
func TestChangesThatWereNotWrittenAreNotListed(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(2)), Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 75 * time.Second, Load: trace(t, 0, 4), Workload: w}
	s.Events = at(0, simulation.Event{Kind: simulation.WritesFail, For: 20 * time.Second})
	for _, delay := range []time.Duration{0, 2 * time.Second} {
		s.Loop.ApplyDelay = delay
		// Decided at 0 and 15 s, which fails, and at 30 s.
		got := run(t, s, onTotal(1, 10, 1))
		if len(got.Actions) != 1 || got.Actions[0].At != 30*time.Second || got.Actions[0].From != 2 || got.Actions[0].To != 4 {
			t.Errorf("written after %s: changes %+v, want one from 2 to 4 at 30s", delay, got.Actions)
		}
	}
	for seed := range uint64(100) {
		s, a := simulationtest.Random(seed, 80)
		s.Events = append(s.Events, simulation.Event{At: s.Duration / 4, Kind: simulation.WritesFail, For: s.Duration / 2})
		if got := run(t, s, a); len(got.Actions) != got.Figures.Ups+got.Figures.Downs {
			t.Errorf("seed %d: %d changes are listed, %d up and %d down are counted", seed, len(got.Actions), got.Figures.Ups, got.Figures.Downs)
		}
	}
}

// What another writer sets is what the next evaluation finds: above the maximum it comes back
// at once, which is no recommendation and holds nothing later; 0 turns the autoscaler off.
func TestAnotherWriterSetsTheCount(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(2)), Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 90 * time.Second, Load: trace(t, 0, 2), Workload: w}
	s.Events = []simulation.Event{
		{At: 20 * time.Second, Kind: simulation.SetReplicas, Replicas: 20},
		{At: 50 * time.Second, Kind: simulation.SetReplicas, Replicas: 0},
	}
	var causes []simulation.Cause
	var replicas []int32
	steps(t, s, onTotal(1, 10, 1), func(step *simulation.Step) {
		causes, replicas = append(causes, step.Cause), append(replicas, step.Decision.Desired)
	})
	if want := []int32{2, 2, 10, 2, 0, 0}; !slices.Equal(replicas, want) {
		t.Errorf("replicas %v, want %v", replicas, want)
	}
	if want := []simulation.Cause{"metrics", "metrics", "maxReplicas", "metrics", "disabled at 0", "disabled at 0"}; !slices.Equal(causes, want) {
		t.Errorf("causes %v, want %v", causes, want)
	}
}

// A rollout of 4 pods with a surge of 1 and none unavailable, 10 s of start-up each: one new
// pod at a time, and never fewer than 4 ready.
func TestARolloutKeepsEnoughPods(t *testing.T) {
	t.Parallel()
	w := web(4)
	w.Startup.From = 10 * time.Second
	s := &simulation.Scenario{Start: start, Duration: 2 * time.Minute, Load: trace(t, 0, 120), Workload: w}
	s.Loop.SyncPeriod = time.Second
	s.Events = at(30*time.Second, simulation.Event{Kind: simulation.Rollout, Surge: 1})
	var seen []int32
	names := map[string]bool{}
	steps(t, s, onCPU(4, 4, 60), func(step *simulation.Step) {
		n := int32(len(step.Input.Pods))
		if step.Ready < 4 || n > 5 {
			t.Errorf("at %s: %d ready of %d", step.At, step.Ready, n)
		}
		if len(seen) == 0 || seen[len(seen)-1] != n {
			seen = append(seen, n)
		}
		if step.At == 71*time.Second {
			for _, p := range step.Input.Pods {
				names[p.Name] = true
			}
		}
	})
	// New pods at 30, 40, 50 and 60 s; with the last one ready at 70 s it is over.
	if want := []int32{4, 5, 4}; !slices.Equal(seen, want) {
		t.Errorf("pods %v, want %v", seen, want)
	}
	if len(names) != 4 || !names["web-00004"] || !names["web-00007"] {
		t.Errorf("pods after the rollout: %v", names)
	}
}

// With slots for 3, the fourth pod waits for a node, and so does the fifth, which the limit of
// the rate (4 from 2) lets come a period later.
func TestPodsBeyondTheSlotsWaitForNodes(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(2)), Usage: []simulation.Usage{offered(time.Second)}, Slots: 3, NodeDelay: 40 * time.Second}
	s := &simulation.Scenario{Start: start, Duration: 75 * time.Second, Load: trace(t, 0, 5), Workload: w}
	var running []int32
	var pending []int
	steps(t, s, onTotal(1, 10, 1), func(step *simulation.Step) {
		running = append(running, step.Running)
		n := 0
		for _, p := range step.Input.Pods {
			if p.Phase == recommender.PhasePending && p.StartTime.IsZero() {
				n++
			}
		}
		pending = append(pending, n)
	})
	if want := []int32{2, 3, 3, 4, 5}; !slices.Equal(running, want) {
		t.Errorf("running %v, want %v", running, want)
	}
	if want := []int{0, 1, 2, 1, 0}; !slices.Equal(pending, want) {
		t.Errorf("pending %v, want %v", pending, want)
	}
}

// Deleted pods serve for the drain time and are there until the grace time is over.
func TestDeletedPodsDrain(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{
		Replicas: new(int32(2)), Usage: []simulation.Usage{offered(time.Second)}, Capacity: 1,
		Drain: 10 * time.Second, Grace: 30 * time.Second,
	}
	s := &simulation.Scenario{Start: start, Duration: time.Minute, Load: trace(t, 0, 4), Workload: w}
	var deleting []int
	var capacity []float64
	a := onTotal(2, 2, 1)
	s.Events = at(time.Second, simulation.Event{Kind: simulation.SetReplicas, Replicas: 4})
	s.Loop.SyncPeriod = 10 * time.Second
	s.Loop.Offset = 8 * time.Second // then it goes back to 2 by itself
	steps(t, s, a, func(step *simulation.Step) {
		n := 0
		for _, p := range step.Input.Pods {
			if p.Deleting {
				n++
			}
		}
		deleting, capacity = append(deleting, n), append(capacity, step.Capacity)
	})
	// Deleted at 8 s, they serve until 18 s and are gone at 38 s.
	if want := []int{0, 2, 2, 0, 0, 0}; !slices.Equal(deleting, want) {
		t.Errorf("deleting %v, want %v", deleting, want)
	}
	if want := []float64{4, 2, 2, 2, 2, 2}; !slices.Equal(capacity, want) {
		t.Errorf("capacity %v, want %v", capacity, want)
	}
}
