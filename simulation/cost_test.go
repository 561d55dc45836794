package simulation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
)

func constant(t *testing.T, value float64) *Trace {
	t.Helper()
	load, err := Constant(value)
	fatal.If(t, err)
	return load
}

func onCPUOf(most int32) *Autoscaler {
	target := int32(60)
	return &Autoscaler{Options: recommender.DefaultOptions(), Spec: recommender.Spec{MinReplicas: 1, MaxReplicas: most, Metrics: []recommender.MetricSpec{{
		Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &target},
	}}}}
}

// crowd is a scenario with all the pods that there may be.
func crowd(t *testing.T, events []Event) *Scenario {
	t.Helper()
	replicas := int32(MaxPods)
	return &Scenario{
		Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Duration: time.Hour, Load: constant(t, 1), Events: events,
		Workload: Workload{Replicas: &replicas, Usage: []Usage{{Metric: "cpu", PerLoad: 10}, {Metric: "rps", PerLoad: 1000}}},
	}
}

// many are as many events as there may be, of 20,000 pods each, all within a second.
func many(kinds ...Event) []Event {
	var events []Event
	for i := range MaxEvents {
		e := kinds[i%len(kinds)]
		e.At = time.Duration(i) * time.Second / MaxEvents
		events = append(events, e)
	}
	return events
}

// Whatever happens at one instant, and whatever lingers, ends with ErrTooMuch long before it
// takes minutes or gigabytes.
func TestWhatHappensAtOnceIsCounted(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		events []Event
		grace  time.Duration
	}{
		"scaling":             {many(Event{Kind: SetReplicas}, Event{Kind: SetReplicas, Replicas: MaxPods}), 0},
		"pods that linger":    {many(Event{Kind: SetReplicas}, Event{Kind: SetReplicas, Replicas: MaxPods}), 24 * time.Hour},
		"rollouts one by one": {many(Event{Kind: Rollout, Surge: 1}), 0},
		"rollouts at once":    {many(Event{Kind: Rollout, Surge: MaxPods, Unavailable: MaxPods}), 0},
		"kills":               {many(Event{Kind: KillPods, Pods: MaxPods}), 0},
		"crashes":             {many(Event{Kind: CrashPods, Share: 1, For: time.Minute}), 0},
	} {
		s := crowd(t, tt.events)
		s.Workload.Grace = tt.grace
		w := newWorld(s, onCPUOf(MaxPods), NewEngine("shop"))
		w.now, w.mostWork = time.Second, MaxWork/20
		err := w.settle()
		if !errors.Is(err, ErrTooMuch) {
			t.Errorf("%s: %v", name, err)
		}
		if most := 3 * MaxPods; len(w.pods) > most || w.work > w.mostWork+20*looksToMake*MaxPods {
			t.Errorf("%s: %d pods and %d looks at them", name, len(w.pods), w.work)
		}
	}
}

// outside are metrics that are not of pods, so many of each type.
func outside(n int) *Autoscaler {
	a, value := onCPUOf(1), int64(1000)
	a.Spec.Metrics = nil
	for range n {
		for _, kind := range []recommender.MetricType{recommender.ExternalMetric, recommender.ObjectMetric} {
			a.Spec.Metrics = append(a.Spec.Metrics, recommender.MetricSpec{
				Type: kind, Metric: recommender.MetricIdentifier{Name: "queue"}, Target: recommender.MetricTarget{Type: "AverageValue", AverageValue: &value},
			})
		}
	}
	return a
}

// A run that exceeds its work whatever happens is refused before it starts. Metrics that are not
// of pods count, too: thousands of them over a year would take hours.
func TestWhatIsCertainlyTooMuchIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := &Scenario{
		Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Duration: MaxDuration, Load: constant(t, 1),
		Workload: Workload{Usage: []Usage{{Metric: "queue", PerLoad: 1000}}},
	}
	_, err := Run(s, outside(2500), nil)
	if !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), "with 5000 metrics its 2108160 evaluations") {
		t.Errorf("got %v", err)
	}

	// What is refused at once would have been refused later.
	s.Duration, s.Loop.Offset = time.Hour, time.Minute
	w := newWorld(s, outside(50), NewEngine("shop"))
	result, err := Run(s, outside(50), nil)
	fatal.If(t, err)
	least := int64(result.Steps) * (int64(w.looksAtAStep) + w.metricsAtAStep + looksOfAStep)
	if w.metricsAtAStep != 100*looksToMeasure || result.Work < least {
		t.Errorf("%d metrics cost %d a step; a run of %d steps cost %d, at least %d", 100, w.metricsAtAStep, result.Steps, result.Work, least)
	}
	for most, want := range map[int64]bool{least: false, least - 1: true} {
		_, err := RunWithin(t.Context(), s, outside(50), Limits{Work: most}, nil)
		if atOnce := err != nil && strings.Contains(err.Error(), "at least"); atOnce != want {
			t.Errorf("with a maximum of %d, %d are necessary: %v", most, least, err)
		}
	}
}

// Actions, of which there may be one at each step, are kept for who asks for them.
func TestActionsAreKeptForWhoAsks(t *testing.T) {
	t.Parallel()
	replicas := int32(1)
	s := crowd(t, nil)
	s.Workload.Replicas, s.Load = &replicas, constant(t, 10_000)
	a := onCPUOf(5)
	a.Spec.Metrics[0].Target = recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: new(int64(1000))}
	for limits, want := range map[Limits]bool{{}: false, {Actions: true}: true} {
		result, err := RunWithin(t.Context(), s, a, limits, nil)
		if err != nil || result.Figures.Ups == 0 || (len(result.Actions) > 0) != want {
			t.Errorf("%+v: %d actions of %d, %v", limits, len(result.Actions), result.Figures.Ups, err)
		}
	}
	if result, err := Run(s, a, nil); err != nil || len(result.Actions) == 0 {
		t.Errorf("Run: %v", err)
	}
}

// Between steps there are as many instants as windows of metrics begin or end, and at each the
// needs of all metrics are computed: that counts.
func TestNeedsBetweenStepsAreCounted(t *testing.T) {
	t.Parallel()
	s := &Scenario{
		Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Duration: time.Hour, Load: constant(t, 1),
		Workload: Workload{Usage: []Usage{{Metric: "queue", PerLoad: 1000}}},
	}
	for metrics, want := range map[int]int64{2: 0, 320: 20} {
		w := newWorld(s, outside(metrics/2), NewEngine("shop"))
		before := w.work
		w.figures.pass(w, 1, 1, time.Second)
		if got := w.work - before; got != want {
			t.Errorf("an instant with %d metrics costs %d, want %d", metrics, got, want)
		}
	}
}

// What is kept of each pod is bounded for all of them together.
func TestWhatIsKeptOfPodsIsBounded(t *testing.T) {
	t.Parallel()
	s := crowd(t, []Event{{At: time.Minute, Kind: MetricsLate, By: time.Hour, For: time.Hour}})
	s.Loop = Loop{SyncPeriod: time.Second, Resolution: time.Second}
	_, err := Run(s, onCPUOf(MaxPods), nil)
	if !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), "it stores up to") {
		t.Errorf("got %v", err)
	}
}

// A step costs more with more metrics and containers to look at.
func TestMetricsAndContainersAreCounted(t *testing.T) {
	t.Parallel()
	looks := func(metrics, containers int) int {
		s, a := crowd(t, nil), onCPUOf(10)
		for range metrics - 1 {
			a.Spec.Metrics = append(a.Spec.Metrics, a.Spec.Metrics[0])
		}
		for range containers {
			s.Workload.Containers = append(s.Workload.Containers, Container{Name: "c"})
		}
		return newWorld(s, a, NewEngine("shop")).looksAtAStep
	}
	if one, ten, both := looks(1, 1), looks(10, 1), looks(10, 10); ten < one+9 || both < ten+90 {
		t.Errorf("%d looks at one metric, %d at ten, %d at ten of ten containers", one, ten, both)
	}
}

// Values of Pods metrics that are late or frozen are found among those of pods that are still
// there, without a look at each pair.
func TestLateValuesOfPodsThatAreStillThere(t *testing.T) {
	t.Parallel()
	replicas := int32(5)
	s := crowd(t, []Event{{At: 31 * time.Second, Kind: MetricsFrozen, For: time.Minute}, {At: 32 * time.Second, Kind: KillPods, Pods: 2}})
	s.Workload.Replicas, s.Duration = &replicas, 2*time.Minute
	a := onCPUOf(5)
	a.Spec.MinReplicas = 5
	each := int64(1000)
	a.Spec.Metrics = []recommender.MetricSpec{{Type: recommender.PodsMetric, Metric: recommender.MetricIdentifier{Name: "rps"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &each}}}
	var seen []int
	_, err := Run(s, a, func(step *Step) error {
		there := map[string]bool{}
		for _, p := range step.Input.Pods {
			there[p.Name] = true
		}
		for _, v := range step.Input.Readings[0].Values {
			if !there[v.Pod] {
				t.Errorf("at %s: a value of %s, which is gone", step.At, v.Pod)
			}
		}
		seen = append(seen, len(step.Input.Readings[0].Values))
		return nil
	})
	fatal.If(t, err)
	// Two of five are new from 32 s on, and without a value while metrics are frozen.
	for i, want := range []int{5, 5, 5, 3, 3, 3, 3, 5} {
		if seen[i] != want {
			t.Errorf("evaluation %d: %d values, want %d", i+1, seen[i], want)
		}
	}
}

// Load that came back leaves nothing in flight, whatever floating point makes of it: else a
// run goes on second by second for good.
func TestRetriesComeToAnEnd(t *testing.T) {
	t.Parallel()
	for _, volume := range []float64{1, 0.1, 1e6 / 3, 1e11 / 7} {
		load, err := NewTrace([]Point{{0, volume}, {90 * time.Second, volume / 3}, {90 * time.Second, 0}})
		fatal.If(t, err)
		replicas := int32(1)
		s := &Scenario{
			Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Duration: 10 * time.Minute, Load: load,
			Workload: Workload{
				Replicas: &replicas, Capacity: volume / 7, Usage: []Usage{{Metric: "cpu", PerLoad: 10}},
				Retries: Retries{Count: 3, Delay: 1300 * time.Millisecond, Factor: 1.7},
			},
		}
		a := onCPUOf(1)
		w := newWorld(s, a, NewEngine("shop"))
		for w.now < s.Duration {
			fatal.If(t, w.settle())
			if w.nextSync <= w.now {
				w.nextSync += w.syncPeriod
			}
			w.advance(w.next())
		}
		if w.service.busy() || w.service.inFlight != 0 || w.service.queued != 0 {
			t.Errorf("a load of %g: %g is in flight at the end, %d seconds have something that comes back", volume, w.service.inFlight, w.service.comebacks)
		}
	}
}

// A queue for ever keeps its volume and its order in bounded space.
func TestALongQueueIsBounded(t *testing.T) {
	t.Parallel()
	s := service{queue: Queue{Size: 1e18}}
	second := time.Second
	parcels := 5*maxParcels + 7
	for i := range parcels {
		now := time.Duration(i) * second
		s.advance(now, now+second, 3, 1)
	}
	if n := len(s.waiting) - s.head; n > maxParcels {
		t.Errorf("%d parcels wait", n)
	}
	volume := 0.0
	last := time.Duration(-1)
	for _, p := range s.waiting[s.head:] {
		volume += p.volume.sum()
		if p.at <= last {
			t.Fatalf("a parcel of %s after one of %s", p.at, last)
		}
		last = p.at
	}
	want := 2 * float64(parcels)
	if volume != want || s.queued != want || s.served+volume != s.offered {
		t.Errorf("%g wait, %g by the sum of parcels, want %g", s.queued, volume, want)
	}
	// A third of what came was served, first in first out: the oldest came at a third.
	now := time.Duration(parcels) * second
	if age, want := s.age(now), now.Seconds()*2/3; age < want*0.9999-1 || age > want*1.0001+1 {
		t.Errorf("the oldest has waited %g s, want %g", age, want)
	}
}

// Start-up times are durations even where the distribution says years.
func TestStartupTimesAreBounded(t *testing.T) {
	t.Parallel()
	s := Startup{Kind: LogNormalStartup, From: 1, To: 24 * time.Hour}
	for i := range uint64(2000) {
		if d := s.draw(1, i); d < 0 || d > MaxDuration {
			t.Fatalf("draw %d: %s", i, d)
		}
	}
}

func TestAShorterCrashEndsNoLongerOne(t *testing.T) {
	t.Parallel()
	replicas := int32(4)
	s := crowd(t, []Event{{At: 10 * time.Second, Kind: CrashPods, Share: 1, For: time.Minute}, {At: 20 * time.Second, Kind: CrashPods, Share: 1, For: 5 * time.Second}})
	s.Workload.Replicas, s.Duration = &replicas, 2*time.Minute
	_, err := Run(s, onCPUOf(4), func(step *Step) error {
		if down := step.At >= 10*time.Second && step.At < 70*time.Second; down != (step.Ready == 0) {
			t.Errorf("at %s %d are ready", step.At, step.Ready)
		}
		return nil
	})
	fatal.If(t, err)
}

func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Event{
		"surge and unavailable must be between": {Kind: Rollout, Unavailable: MaxPods + 1},
		"unknown kind 14":                       {Kind: WritesLate + 1},
	} {
		if err := Check(crowd(t, []Event{e}), onCPUOf(5)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", e, err, want)
		}
	}
}

// The sum of traces is that of their values, and is refused before it takes much.
func TestSumsOfManyTraces(t *testing.T) {
	t.Parallel()
	var traces []*Trace
	for i := range 50 {
		var points []Point
		for k := range 100 {
			points = append(points, Point{time.Duration(k*(i%7+1)) * time.Second, float64(i + k%5)})
		}
		points = append(points, Point{points[99].At, 7})
		load, err := NewTrace(points)
		fatal.If(t, err)
		traces = append(traces, load)
	}
	sum, err := Sum(traces...)
	fatal.If(t, err)
	for at := time.Duration(0); at < 800*time.Second; at += 250 * time.Millisecond {
		left, right := 0.0, 0.0
		for _, load := range traces {
			left += load.before(at)
			right += load.At(at)
		}
		near := func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }
		if !near(sum.before(at), left) || !near(sum.At(at), right) {
			t.Fatalf("at %s: %g then %g, want %g then %g", at, sum.before(at), sum.At(at), left, right)
		}
	}
	var long []*Trace
	for i := range 3 {
		points := make([]Point, MaxPoints/2)
		for k := range points {
			points[k].At = time.Duration(3*k + i)
		}
		load, err := NewTrace(points)
		fatal.If(t, err)
		long = append(long, load)
	}
	if _, err := Sum(long...); err == nil || !strings.Contains(err.Error(), "more than 2000000 points") {
		t.Errorf("got %v", err)
	}
}
