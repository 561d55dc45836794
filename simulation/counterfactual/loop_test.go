package counterfactual_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/counterfactual"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

// film records what the production engine is shown, as an agent does.
type film struct {
	simulation.Engine
	steps []counterfactual.Step
	limit int64
}

func (f *film) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	seen := *in
	seen.Pods, seen.PodMetrics, seen.Readings = slices.Clone(in.Pods), slices.Clone(in.PodMetrics), slices.Clone(in.Readings)
	for i := range seen.PodMetrics {
		m := &seen.PodMetrics[i]
		m.Containers = slices.Clone(m.Containers)
		for c := range m.Containers {
			m.Containers[c].Usage = slices.Clone(m.Containers[c].Usage)
		}
	}
	for i := range seen.Readings {
		seen.Readings[i].Values = slices.Clone(seen.Readings[i].Values)
	}
	d, err := f.Engine.Recommend(now, in)
	f.steps = append(f.steps, counterfactual.Step{Time: now, Input: &seen, After: d.Desired, CPULimit: f.limit})
	return d, err
}

func (f *film) Settle(id recommender.ID, outcome recommender.Outcome, message string) error {
	if last := &f.steps[len(f.steps)-1]; outcome == recommender.Failed {
		last.Failed, last.After = true, last.Input.Scale.SpecReplicas
	}
	return f.Engine.Settle(id, outcome, message)
}

func record(t *testing.T, s *simulation.Scenario, a *simulation.Autoscaler, limit int64) []counterfactual.Step {
	t.Helper()
	f := &film{Engine: simulation.NewEngine(a.Namespace), limit: limit}
	if _, err := simulation.RunWith(s, a, f, nil); err != nil {
		t.Fatal(err)
	}
	return f.steps
}

// loopOf runs a spec against a recording.
func loopOf(t *testing.T, steps []counterfactual.Step, spec *recommender.Spec, options counterfactual.Options, visit func(i int, o *counterfactual.Outcome)) {
	t.Helper()
	var meter counterfactual.Meter
	for i := range steps {
		meter.Add(steps[i].Time, steps[i].Input)
	}
	loop := counterfactual.New("shop", meter.Starts(), options)
	for i := range steps {
		step := steps[i]
		in := *step.Input
		if spec != nil {
			in.Spec = *spec
		}
		step.Input = &in
		o, err := loop.Step(&step)
		fatal.If(t, err)
		visit(i, &o)
	}
}

// A recording's own spec sees what was recorded and comes to what was recorded, whatever
// happened: other writers, writes that fail, rollouts, metrics that are gone.
func TestItsOwnSpecReproducesARecording(t *testing.T) {
	t.Parallel()
	steps := 0
	for seed := range uint64(150) {
		s, a := simulationtest.Random(seed, 80)
		recorded := record(t, s, a, 0)
		loopOf(t, recorded, nil, counterfactual.Options{}, func(i int, o *counterfactual.Outcome) {
			steps++
			if o.Source != counterfactual.Recorded || o.Replicas != recorded[i].After {
				t.Fatalf("seed %d, step %d: %d replicas from source %d, recorded were %d", seed, i, o.Replicas, o.Source, recorded[i].After)
			}
		})
	}
	if steps != 150*80 {
		t.Errorf("%d steps", steps)
	}
}

// web is a day of a web shop, on 500m of CPU a pod.
func web(t *testing.T, start simulation.Startup, idle float64) *simulation.Scenario {
	t.Helper()
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	load, err := simulation.Daily(100, 600, 14*time.Hour, 1, simulation.Span{Start: begin, Duration: 24 * time.Hour})
	if err == nil {
		load, err = load.Noise(1, 0.05, time.Minute, 24*time.Hour)
	}
	fatal.If(t, err)
	return &simulation.Scenario{Start: begin, Duration: 24 * time.Hour, Seed: 1, Load: load, Workload: simulation.Workload{
		Containers: []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 500}}}},
		Usage:      []simulation.Usage{{Metric: "cpu", PerLoad: 10, Idle: idle}}, Startup: start,
	}}
}

// What a spec would have done, by the recording of another, is what it does in the same world.
func TestACounterfactualIsWhatWouldHaveHappened(t *testing.T) {
	t.Parallel()
	slow := simulation.Startup{Kind: simulation.LogNormalStartup, From: 45 * time.Second, To: 2 * time.Minute}
	for _, tt := range []struct {
		name          string
		start         simulation.Startup
		idle          float64
		given, tried  *simulation.Autoscaler
		same, atMost  float64 // share of the steps with the same count, and difference of replica-hours
		differenceOne float64 // share of the steps with a count that is one off at most
	}{
		{"more room", simulation.Startup{From: 30 * time.Second}, 0, simulationtest.OnCPU(2, 60, 60), simulationtest.OnCPU(2, 60, 40), 0.9, 0.01, 0.98},
		{"less room", simulation.Startup{From: 30 * time.Second}, 0, simulationtest.OnCPU(2, 60, 50), simulationtest.OnCPU(2, 60, 85), 0.9, 0.01, 0.98},
		{"slow pods", slow, 0, simulationtest.OnCPU(2, 60, 60), simulationtest.OnCPU(2, 60, 45), 0.85, 0.01, 0.97},
		{"pods that use something anyway", slow, 40, simulationtest.OnCPU(2, 60, 60), simulationtest.OnCPU(2, 60, 45), 0.85, 0.02, 0.94},
		{"a lower maximum", slow, 0, simulationtest.OnCPU(2, 60, 60), simulationtest.OnCPU(2, 9, 60), 0.95, 0.01, 0.98},
		{"a higher minimum", slow, 0, simulationtest.OnCPU(2, 60, 60), simulationtest.OnCPU(12, 60, 60), 0.9, 0.01, 0.98},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := web(t, tt.start, tt.idle)
			least := int32(4)
			s.Workload.Replicas = &least
			truth := record(t, s, tt.tried, 0)
			recorded := record(t, s, tt.given, 0)
			options := counterfactual.Options{Idle: []recommender.ResourceUsage{{Resource: "cpu", Milli: int64(tt.idle)}}}
			same, near, modelled := 0, 0, 0
			hours, want := 0.0, 0.0
			loopOf(t, recorded, &tt.tried.Spec, options, func(i int, o *counterfactual.Outcome) {
				hours, want = hours+float64(o.Replicas), want+float64(truth[i].After)
				switch o.Replicas - truth[i].After {
				case 0:
					same++
					near++
				case 1, -1:
					near++
				}
				if o.Source == counterfactual.Modelled {
					modelled++
				}
			})
			n := float64(len(recorded))
			t.Logf("same %.3f, near %.3f, replica-hours %+.4f, modelled %.2f", float64(same)/n, float64(near)/n, hours/want-1, float64(modelled)/n)
			if float64(same)/n < tt.same || float64(near)/n < tt.differenceOne || math.Abs(hours/want-1) > tt.atMost {
				t.Errorf("the same count at %.3f of the steps, one off or less at %.3f, replica-hours %+.4f", float64(same)/n, float64(near)/n, hours/want-1)
			}
			if float64(modelled)/n < 0.1 {
				t.Errorf("modelled %.2f of the steps", float64(modelled)/n)
			}
		})
	}
}

// Pods of the model use together what was measured, neither more nor less.
func TestTheModelKeepsTheLoad(t *testing.T) {
	t.Parallel()
	s := web(t, simulation.Startup{From: 20 * time.Second}, 0)
	recorded := record(t, s, simulationtest.OnCPU(2, 60, 60), 0)
	looked := 0
	loopOf(t, recorded, &simulationtest.OnCPU(2, 60, 40).Spec, counterfactual.Options{}, func(i int, o *counterfactual.Outcome) {
		if o.Source != counterfactual.Modelled || !settled(recorded[i].Input) || !settled(o.Input) {
			return
		}
		looked++
		was, is := used(recorded[i].Input), used(o.Input)
		if diff := is - was; diff < 0 || diff > float64(len(o.Input.PodMetrics)) { // each pod's is rounded up
			t.Fatalf("step %d: %g milli-cores of %d pods, recorded %g of %d", i, is, len(o.Input.PodMetrics), was, len(recorded[i].Input.PodMetrics))
		}
	})
	if looked < 3000 {
		t.Errorf("looked at %d steps", looked)
	}
}

// settled reports whether all pods have been ready for a minute, and have samples.
func settled(in *recommender.Input) bool {
	for i := range in.Pods {
		if in.Pods[i].Ready != recommender.ReadyTrue || in.PodMetrics[0].Timestamp.Sub(in.Pods[i].ReadyTransition) < time.Minute {
			return false
		}
	}
	return len(in.PodMetrics) == len(in.Pods)
}

func used(in *recommender.Input) float64 {
	sum := 0.0
	for i := range in.PodMetrics {
		sum += float64(in.PodMetrics[i].Containers[0].Usage[0].Milli)
	}
	return sum
}

// The same recording and spec give the same bits, and the recording stays as it is.
func TestALoopIsRepeatable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		s, a := simulationtest.Random(seed, 60)
		recorded, before := record(t, s, a, 0), record(t, s, a, 0)
		other := a.Spec
		other.MinReplicas, other.MaxReplicas = other.MinReplicas+1, other.MaxReplicas+3
		run := func() (out []int32) {
			loopOf(t, recorded, &other, counterfactual.Options{}, func(_ int, o *counterfactual.Outcome) {
				out = append(out, o.Replicas, o.Ready, int32(o.Source))
			})
			return out
		}
		if one, two := run(), run(); !slices.Equal(one, two) {
			t.Errorf("seed %d: %v and %v", seed, one, two)
		}
		if !reflect.DeepEqual(recorded, before) {
			t.Errorf("seed %d: the recording has changed", seed)
		}
	}
}

// Pods at their limit hide load: what a spec with more pods is shown is a lower bound, and is
// marked as one.
func TestFullPodsMakeALowerBound(t *testing.T) {
	t.Parallel()
	s := web(t, simulation.Startup{}, 0)
	s.Workload.Containers[0].Limits = []recommender.ResourceUsage{{Resource: "cpu", Milli: 600}}
	recorded := record(t, s, simulationtest.OnCPU(2, 4, 60), 600) // 4 pods do 240 of up to 600
	bound, short := 0, 0
	loopOf(t, recorded, &simulationtest.OnCPU(2, 60, 60).Spec, counterfactual.Options{}, func(i int, o *counterfactual.Outcome) {
		if o.LowerBound {
			bound++
		}
		if o.Short {
			short++
		}
		if o.LowerBound != (used(recorded[i].Input) >= 0.95*600*float64(len(recorded[i].Input.PodMetrics))) && len(recorded[i].Input.PodMetrics) == 4 {
			t.Errorf("step %d: lower bound %v, used %g", i, o.LowerBound, used(recorded[i].Input))
		}
	})
	if bound < 1000 {
		t.Errorf("a lower bound at %d steps", bound)
	}
	if short == 0 || short > bound {
		t.Errorf("short at %d steps, of %d at which recorded pods were full", short, bound)
	}
}

// Without samples of an instant nobody knows its load.
func TestWithoutSamplesTheLoadIsUnknown(t *testing.T) {
	t.Parallel()
	s := web(t, simulation.Startup{}, 0)
	s.Duration = time.Hour
	recorded := record(t, s, simulationtest.OnCPU(2, 60, 60), 0)
	for i := 100; i < 120; i++ {
		recorded[i].Input.PodMetrics = nil
	}
	loopOf(t, recorded, &simulationtest.OnCPU(9, 60, 60).Spec, counterfactual.Options{}, func(i int, o *counterfactual.Outcome) {
		want := counterfactual.Modelled
		if i >= 100 && i < 120 {
			want = counterfactual.Unknown
		}
		if i > 1 && o.Source != want {
			t.Errorf("step %d: source %d, want %d", i, o.Source, want)
		}
	})
}

// Somebody who sets the count sets it in both worlds.
func TestOtherWritersWriteInBothWorlds(t *testing.T) {
	t.Parallel()
	s := web(t, simulation.Startup{}, 0)
	s.Duration = time.Hour
	s.Events = []simulation.Event{{At: 30*time.Minute + time.Second, Kind: simulation.SetReplicas, Replicas: 30}}
	recorded := record(t, s, simulationtest.OnCPU(2, 60, 60), 0)
	loopOf(t, recorded, &simulationtest.OnCPU(5, 60, 50).Spec, counterfactual.Options{}, func(i int, o *counterfactual.Outcome) {
		if recorded[i].Time.Sub(s.Start) == 30*time.Minute+15*time.Second && o.Decision.Current != 30 {
			t.Errorf("%d replicas after somebody set 30", o.Decision.Current)
		}
	})
}

// A spec that asks for more pods than a simulation may have is refused with the instant.
func TestALoopThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := web(t, simulation.Startup{}, 0)
	s.Duration = time.Hour
	recorded := record(t, s, simulationtest.OnCPU(2, 60, 60), 0)
	loop := counterfactual.New("shop", counterfactual.Starts{}, counterfactual.Options{})
	in := *recorded[0].Input
	in.Spec = simulationtest.OnCPU(30_000, 40_000, 60).Spec
	if _, err := loop.Step(&counterfactual.Step{Time: recorded[0].Time, Input: &in, After: recorded[0].After}); !errors.Is(err, counterfactual.ErrTooMuch) {
		t.Errorf("got %v", err)
	}
}

// Neither may somebody else have set so many, by the recording, while pods are modelled.
func TestACountThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := web(t, simulation.Startup{}, 0)
	s.Duration = time.Hour
	recorded := record(t, s, simulationtest.OnCPU(2, 60, 60), 0)
	loop := counterfactual.New("shop", counterfactual.Starts{}, counterfactual.Options{})
	var err error
	steps := 0
	for i := 0; i < len(recorded) && err == nil; i++ {
		steps++
		step, in := recorded[i], *recorded[i].Input
		in.Spec = simulationtest.OnCPU(20, 60, 60).Spec
		if step.Input = &in; i >= 10 {
			in.Scale.SpecReplicas = simulation.MaxPods + 1
		}
		_, err = loop.Step(&step)
	}
	if !errors.Is(err, counterfactual.ErrTooMuch) || steps != 11 {
		t.Errorf("got %v at step %d", err, steps)
	}
}

// Of a pod that was created while nothing was recorded nobody knows how long it took to start.
func TestPodsOfAGapHaveNoStarts(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1767571200, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for name, tt := range map[string]struct {
		steps []int // those of the pod a, and of b from the third one on
		want  int
	}{
		"no gap":              {[]int{0, 15, 30, 45}, 1},
		"a step left out":     {[]int{0, 15, 45, 60}, 1},
		"twenty minutes":      {[]int{0, 15, 1215, 1230}, 0},
		"asked every 5 min":   {[]int{0, 300, 600, 900}, 1},
		"asked less and less": {[]int{0, 300, 1200, 1500}, 0},
	} {
		var meter counterfactual.Meter
		for i, seconds := range tt.steps {
			in := &recommender.Input{Pods: []recommender.Pod{{Name: "a", Ready: recommender.ReadyTrue}}}
			if i >= 2 {
				b := recommender.Pod{Name: "b", StartTime: at(tt.steps[2] - 8), ReadyTransition: at(tt.steps[2] - 1)}
				if b.Ready = recommender.ReadyFalse; i > 2 {
					b.Ready = recommender.ReadyTrue
				}
				in.Pods = append(in.Pods, b)
			}
			meter.Add(at(seconds), in)
		}
		if got := meter.Starts(); got.Pods != tt.want {
			t.Errorf("%s: %+v of %d pods, want %d", name, got, got.Pods, tt.want)
		}
	}
}

// Sums in place of pods, whose listed pods are made up, say nothing of how pods start.
func TestSumsHaveNoStarts(t *testing.T) {
	t.Parallel()
	pods := func(names ...string) *recommender.Input {
		in := &recommender.Input{Sums: &recommender.Sums{Pods: len(names)}}
		for _, name := range names {
			in.Pods = append(in.Pods, recommender.Pod{Name: name, Ready: recommender.ReadyTrue})
			in.PodMetrics = append(in.PodMetrics, recommender.PodMetrics{Pod: name})
		}
		return in
	}
	var meter, none counterfactual.Meter
	meter.Add(time.Unix(0, 0), pods("a"))
	meter.Add(time.Unix(15, 0), pods("a", "b"))
	if got := meter.Starts(); got != none.Starts() {
		t.Errorf("%+v, want what is assumed: %+v", got, none.Starts())
	}
}
