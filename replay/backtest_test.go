package replay

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

// A back-test with the recording's own spec reproduces it exactly, step by step, in all
// recordings of the real controllers.
func TestABacktestWithItsOwnSpecReproducesTheRecording(t *testing.T) {
	t.Parallel()
	for _, file := range testlength.FirstUnderRace(t, 1, recorded) {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			steps, changing := 0, 0
			for scenario := range scenarios(t, file.name) {
				spec := &scenario.HPA.Spec
				if changesItsSpec(scenario) {
					changing++
					spec = nil // one in place of several would be another
				}
				got := backtest(t, scenario, &Question{Spec: spec})
				steps += got.Compared
				if got.Mismatched != 0 || got.Different != 0 || got.Recorded != got.Other || got.Compared != len(scenario.Steps) {
					t.Errorf("%s: %+v", scenario.Name, got)
				}
				if loop := got.ClosedLoop; loop == nil || loop.ModelledSeconds+loop.UnknownSeconds != 0 || !reflect.DeepEqual(loop.Recorded, loop.Other) {
					t.Errorf("%s, in a closed loop: %+v", scenario.Name, loop)
				}
			}
			if steps != file.steps || changing > file.scenarios*2/3 {
				t.Errorf("%d steps reproduced, want %d; %d of %d scenarios change their spec", steps, file.steps, changing, file.scenarios)
			}
		})
	}
}

func changesItsSpec(s *recording.Scenario) bool {
	for i := range s.Steps {
		if s.Steps[i].HPA != nil {
			return true
		}
	}
	return false
}

// Another spec comes to other counts where its bounds say so, and figures are those of the
// time that was recorded.
func TestABacktestWithOtherBounds(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	scaled, different := 0, 0
	for scenario := range scenarios(t, "fuzz") {
		spec := scenario.HPA.Spec.DeepCopy()
		one := int32(1)
		spec.MinReplicas, spec.MaxReplicas = &one, 1
		got := backtest(t, scenario, &Question{Spec: spec})
		different += got.Different
		if got.Other.Most > 1 && got.Other.Ups > 0 {
			t.Errorf("%s: a maximum of 1, and up to %d replicas", scenario.Name, got.Other.Most)
		}
		if got.CoveredSeconds > got.SpanSeconds || len(got.Differences) > MaxDifferences || (got.Different > 0) != (len(got.Differences) > 0) {
			t.Errorf("%s: %+v", scenario.Name, got)
		}
		if most := got.Recorded.ReplicaHours; most > float64(got.Recorded.Most)*got.CoveredSeconds/3600+1e-6 {
			t.Errorf("%s: %g replica-hours of at most %d replicas in %g s", scenario.Name, most, got.Recorded.Most, got.CoveredSeconds)
		}
		scaled++
	}
	if scaled != 400 || different < 1000 {
		t.Errorf("%d scenarios, %d steps came out otherwise", scaled, different)
	}
}

// What the open loop says of another spec is what a service answers to the same requests with that spec.
func TestTheOpenLoopIsWhatAServiceAnswers(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	backend, steps, different := NewServer(servertest.Start(t).Conn), 0, 0
	for _, file := range []string{"v1.37", "curated"} {
		for scenario := range scenarios(t, file) {
			if scenario.History != nil || slices.Contains(refused, scenario.Name) || changesItsSpec(scenario) {
				continue
			}
			spec := scenario.HPA.Spec.DeepCopy()
			spec.MaxReplicas = max(1, min(spec.MaxReplicas/2, 1000))
			if spec.MinReplicas != nil && *spec.MinReplicas > spec.MaxReplicas {
				spec.MinReplicas = nil
			}
			got, err := RunBacktest(t.Context(), scenario, &Question{Spec: spec})
			fatal.If(t, err)
			if len(got.Instants) != len(scenario.Steps) {
				continue // of some no count is known
			}
			err = NewRunner(backend, Options{Spec: spec, Cluster: "open-" + file}).Run(t.Context(), scenario, func(s *Step) error {
				at := got.Instants[s.Index]
				if s.Response.GetDesiredReplicas() != at.Open {
					t.Errorf("%s, step %d: the service says %d, the open loop %d", scenario.Name, s.Index+1, s.Response.GetDesiredReplicas(), at.Open)
				}
				if steps++; at.Open != at.Recorded {
					different++
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	if steps < 1000 || different < 100 {
		t.Errorf("%d steps, %d of them otherwise than recorded", steps, different)
	}
	t.Logf("%d steps, %d of them otherwise than recorded", steps, different)
}

// TestWhatNobodyMadeDidNotCome asks about a shadow, whose workload another autoscaler scales, and about workloads of which
// nobody says whether the answer was applied: it was not, or it was. Their counts are what there was, not what was decided.
func TestWhatNobodyMadeDidNotCome(t *testing.T) {
	engine, all := kept(t, 1)
	var check []func()
	for _, tt := range []struct {
		target string
		// next is the count at a step after one that decided another.
		next                      func(i int, desired int32) int32
		least, most               int32
		ups, unmade, otherChanges int
	}{
		{"web.-shadow", func(i int, _ int32) int32 { return 4 + int32(i/10)*2 }, 4, 6, 1, 20, 1},
		{"watched", func(int, int32) int32 { return 4 }, 4, 9, 1, 19, 1}, // of the last answer nobody knows
		{"applied", func(_ int, desired int32) int32 { return desired }, 9, 9, 1, 0, 1},
	} {
		name := "clusters/demo/namespaces/shop/targets/" + tt.target
		replicas := int32(4)
		for i := range 20 {
			req := servertest.Queue(name, replicas, 90)
			servertest.EvaluatedAt(servertest.T0.Add(time.Duration(i) * 15 * time.Second))(req)
			replicas = tt.next(i+1, all[0].Recommend(t, req).GetDesiredReplicas())
		}
		check = append(check, func() {
			out := Export(name, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(name)), time.Time{}, time.Time{})
			if len(out.Scenarios) != 1 || out.Steps != 20 {
				t.Fatalf("%s: %d scenarios, %d steps, gaps %v", name, len(out.Scenarios), out.Steps, out.Gaps)
			}
			of, spec := servertest.Queue(name, 1, 1).GetSpec(), &autoscalingv2.HorizontalPodAutoscalerSpec{}
			of.Metrics[0].External.Target.AverageValue = new("30")
			if encoded, err := text(of); err != nil || json.Unmarshal(encoded, spec) != nil {
				t.Fatal(err)
			}
			got, err := RunBacktest(t.Context(), reread(t, out.Scenarios[0]), &Question{Spec: spec})
			if err != nil || got.ClosedLoop == nil {
				t.Fatal(err)
			}
			loop := got.ClosedLoop
			if was := loop.Recorded; was.Least != tt.least || was.Most != tt.most || was.Ups != tt.ups || was.Downs != 0 || loop.Unmade != tt.unmade {
				t.Errorf("%s: recorded %+v, %d unmade", name, was, loop.Unmade)
			}
			// It asks for 3, whatever came of the recorded answers.
			if is := loop.Other; is.Least != 3 || is.Most != 3 || loop.Changed != tt.otherChanges {
				t.Errorf("%s: the other spec %+v, %v", name, is, loop.Changes)
			}
		})
	}
	all[0].StopAndWait(t)
	for _, one := range check {
		one()
	}
}

// TestCountsOfUnknownDecisions takes what was decided out of a recording, whose counts another spec made: they are what
// there was, and a spec that runs in a closed loop keeps its own count.
func TestCountsOfUnknownDecisions(t *testing.T) {
	t.Parallel()
	flight, err := os.Open("../examples/simulation/flight.jsonl.gz")
	fatal.If(t, err)
	defer func() { _ = flight.Close() }()
	all, err := recording.NewReader("flight", flight).Next()
	fatal.If(t, err)
	all.Steps = all.Steps[:200]
	want := int32(0)
	for i := range all.Steps {
		step := &all.Steps[i]
		step.Expect = nil
		step.Request.Spec.Metrics[0].Resource.Target.AverageUtilization = new(int32(30)) // asks for twice as many
		want = max(want, step.Request.GetScale().GetSpecReplicas())
	}
	got, err := RunBacktest(t.Context(), all, &Question{})
	if err != nil || got.ClosedLoop == nil {
		t.Fatal(err)
	}
	// While somebody has stopped the workload no spec has any replicas.
	for i := range 50 {
		request := all.Steps[100+i].Request
		request.Scale.SpecReplicas, request.Scale.StatusReplicas, request.Pods, request.PodMetrics = 0, new(int32(0)), nil, nil
	}
	stopped, err := RunBacktest(t.Context(), all, &Question{})
	if err != nil || stopped.ClosedLoop == nil {
		t.Fatal(err)
	}
	for i, at := range stopped.Instants {
		if is := i >= 100 && i < 150; (at.Closed == 0) != is || (at.Recorded == 0) != is {
			t.Errorf("step %d: %d replicas, recorded %d", i, at.Closed, at.Recorded)
		}
	}
	if loop := got.ClosedLoop; loop.Recorded.Most != want || loop.Changed > 20 || loop.Unmade < 100 {
		t.Errorf("of %d replicas at most: %d unmade, recorded %+v, other %+v", want, loop.Unmade, loop.Recorded, loop.Other)
	}
}

// TestALoadIsALowerBoundByTheRecordedPods has two recorded pods, full for five minutes of ten, and then none for no load: however
// many the tried spec has, whose pods are still drained, or start.
func TestALoadIsALowerBoundByTheRecordedPods(t *testing.T) {
	t.Parallel()
	load, err := simulation.NewTrace([]simulation.Point{{Value: 20}, {At: 5 * time.Minute, Value: 20}, {At: 5 * time.Minute}})
	fatal.If(t, err)
	counts, err := scenario.ReadSeries(t.Context(), []byte("2026-03-02T00:00:00Z,2\n2026-03-02T00:05:00Z,0\n"), nil)
	fatal.If(t, err)
	for name, w := range map[string]simulation.Workload{"drained": {Drain: 4 * time.Minute}, "starting": {Startup: simulation.Startup{From: 4 * time.Minute}}} {
		w.Capacity, w.Usage = 10, []simulation.Usage{{Metric: "cpu", PerLoad: 10}}
		w.Containers = []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 500}}}}
		world := &simulation.Scenario{Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Duration: 10 * time.Minute, Seed: 1, Load: load, Workload: w}
		world.Events = []simulation.Event{{Kind: simulation.KillPods, Pods: 2}, {At: 4 * time.Minute, Kind: simulation.SetReplicas, Replicas: 4}, {At: 4*time.Minute + time.Second, Kind: simulation.SetReplicas, Replicas: 1}}
		got, err := RunLoad(t.Context(), &LoadQuestion{
			Name: name, Scenario: world, Recorded: &scenario.Recorded{Covered: world.Duration}, Replicas: counts, Other: simulationtest.OnCPU(1, 10, 60),
		})
		fatal.If(t, err)
		if got.LowerBoundSeconds == nil {
			t.Fatalf("%s: whether it is a lower bound is not known", name)
		}
		if *got.LowerBoundSeconds != 300 || *got.Recorded.ShortSeconds != 0 {
			t.Errorf("%s: a lower bound for %g s, short for %g s, want 300 and 0", name, *got.LowerBoundSeconds, *got.Recorded.ShortSeconds)
		}
	}
}

// TestALoadWhoseCountIsNotWritten has writes that fail for five of ten minutes: the count is what there is, not what was decided.
func TestALoadWhoseCountIsNotWritten(t *testing.T) {
	t.Parallel()
	load, err := simulation.Constant(300)
	fatal.If(t, err)
	two := int32(2)
	world := &simulation.Scenario{Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Duration: 10 * time.Minute, Seed: 1, Load: load, Workload: simulation.Workload{
		Replicas: &two, Containers: []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 500}}}},
		Usage: []simulation.Usage{{Metric: "cpu", PerLoad: 10}},
	}, Events: []simulation.Event{{Kind: simulation.WritesFail, For: 5 * time.Minute}}}
	got, err := RunLoad(t.Context(), &LoadQuestion{Name: "fails", Scenario: world, Recorded: &scenario.Recorded{Covered: world.Duration}, Other: simulationtest.OnCPU(1, 10, 60)})
	fatal.If(t, err)
	// 2 for five minutes, and 10 for five, but for the steps up.
	if o := got.Other; o.Least != 2 || o.Most != 10 || o.Ups > 3 || o.ReplicaHours > 1 {
		t.Errorf("%+v", o)
	}
}

// TestALoadWhoseCountBeginsWithNone has a recorded count of 0 at first, which would turn specs with a minimum off.
func TestALoadWhoseCountBeginsWithNone(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	load, err := simulation.Constant(60)
	fatal.If(t, err)
	counts, err := scenario.ReadSeries(t.Context(), []byte("2026-03-02T00:00:00Z,0\n2026-03-02T00:01:00Z,4\n2026-03-02T00:05:00Z,4\n"), nil)
	fatal.If(t, err)
	world := &simulation.Scenario{Start: begin, Duration: 10 * time.Minute, Seed: 1, Load: load, Workload: simulation.Workload{
		Containers: []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 500}}}},
		Usage:      []simulation.Usage{{Metric: "cpu", PerLoad: 10}},
	}}
	got, err := RunLoad(t.Context(), &LoadQuestion{
		Name: "zero", Scenario: world, Recorded: &scenario.Recorded{Covered: world.Duration}, Replicas: counts,
		Own: simulationtest.OnCPU(2, 10, 60), Other: simulationtest.OnCPU(3, 10, 60),
	})
	fatal.If(t, err)
	if got.Recorded.Least != 0 || got.Recorded.Most != 4 || got.Own.Least != 2 || got.Other.Least != 3 {
		t.Errorf("recorded %+v, own %+v, other %+v", got.Recorded, got.Own, got.Other)
	}
}

// A recording may say more than there can be: its numbers of pods are 32 bits each, and their sum is not.
func TestSumsOfMorePodsThanThereCanBe(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	in := &recommender.Input{Spec: recommender.Spec{Metrics: recommender.DefaultMetrics()}, Sums: &recommender.Sums{Pods: 1, Ready: 1, Metrics: []recommender.MetricSums{{
		Sampled: true, Ready: recommender.GroupSums{Pods: math.MaxInt32, Usage: math.MaxInt32}, Missing: recommender.GroupSums{Pods: math.MaxInt32}, Unready: recommender.GroupSums{Pods: 2},
	}}}}
	list(at, at, time.Minute, in)
	if len(in.PodMetrics) != 1 || in.PodMetrics[0].Containers[0].Usage[0].Milli != 1 {
		t.Errorf("the pods have %+v", in.PodMetrics)
	}
}

// A real Swarm was asked each 5 s, and its new tasks had samples after 10 s. With all pods modelled, the recording's own
// spec has the recorded count for most of the time. What new pods without a sample have not yet served is no load: with
// a target of 40 % there were 21 tasks at most, and 24 by a load that they had served, too.
func TestSumsOfAShortPeriod(t *testing.T) {
	read, err := hpa.ReadOne("spec", strings.NewReader("spec: {minReplicas: 3, maxReplicas: 24, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 40}}}], behavior: {scaleDown: {stabilizationWindowSeconds: 30}}}"))
	fatal.If(t, err)
	kubernetes.Defaults(read.Object)
	for scenario := range scenarios(t, "swarm") {
		same, most := 0, int32(0)
		for _, q := range []*Question{{Modelled: true}, {Spec: &read.Object.Spec}} {
			q.Assumed.CPULimit = 50
			got := backtest(t, scenario, q)
			for _, at := range got.Instants {
				if q.Spec != nil {
					most = max(most, at.Closed)
				} else if at.Recorded == at.Closed {
					same++
				}
			}
		}
		if same < 38 || most > 22 {
			t.Errorf("%d of %d steps have the recorded count, and with a target of 40 %% there are %d pods", same, len(scenario.Steps), most)
		}
	}
}
