package simulation_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// The load doubles at 60 s. The scrape at 75 s is the first that sees it: 600m of 500m are
// 120 %, twice the target, so 3 pods become 6. The new ones are ready at 105 s; their first
// sample that counts is that of 120 s. Until then they count as unused, and 60 % is on target.
func TestADoubledLoadDoublesThePodsAfterOneScrape(t *testing.T) {
	t.Parallel()
	w := web(3)
	w.Startup.From = 30 * time.Second
	s := &simulation.Scenario{Start: start, Duration: 3 * time.Minute, Load: trace(t, 0, 90, 60, 90, 60, 180), Workload: w}
	var ratios []float64
	var ready []int32
	result, err := simulation.Run(s, onCPU(1, 10, 60), func(step *simulation.Step) error {
		ratios = append(ratios, step.Decision.Explanation.Metrics[0].UsageRatio)
		ready = append(ready, step.Ready)
		return nil
	})
	fatal.If(t, err)
	if want := []float64{1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1}; !slices.Equal(ratios, want) {
		t.Errorf("ratios %v, want %v", ratios, want)
	}
	if want := []int32{3, 3, 3, 3, 3, 3, 3, 6, 6, 6, 6, 6}; !slices.Equal(ready, want) {
		t.Errorf("ready pods %v, want %v", ready, want)
	}
	f := result.Figures
	if len(result.Actions) != 1 || result.Actions[0].At != 75*time.Second || result.Actions[0].From != 3 || result.Actions[0].To != 6 || f.Ups != 1 || f.Downs != 0 {
		t.Errorf("actions %+v, want one from 3 to 6 at 75s", result.Actions)
	}
	// 3 replicas for 75 s and 6 for 105 s.
	if want := (3*75 + 6*105) / 3600.0; f.ReplicaHours != want {
		t.Errorf("replica hours %g, want %g", f.ReplicaHours, want)
	}
	// Of those 3 were needed for 60 s and 6 for 120 s.
	if want := (3*60 + 6*120) / (3*75 + 6*105.0); math.Abs(f.Efficiency-want) > 1e-15 {
		t.Errorf("efficiency %g, want %g", f.Efficiency, want)
	}
	// 3 of the 12 readings were twice the target: those of 75, 90 and 105 s.
	if f.OverTarget != 45*time.Second {
		t.Errorf("over target for %s, want 45s", f.OverTarget)
	}
	// More than 3 were needed at 60 s, and ready at 105 s.
	if want := (simulation.Reactions{Count: 1, Median: 45 * time.Second, P95: 45 * time.Second, Worst: 45 * time.Second}); f.Rises != want {
		t.Errorf("rises %+v, want %+v", f.Rises, want)
	}
	// Of a load that never rises there is no reaction, neither on the way to the minimum nor while the workload is off.
	s.Load, s.Workload.Replicas = trace(t, 0, 0), new(int32(1))
	s.Events = []simulation.Event{{At: 2 * time.Minute, Kind: simulation.SetReplicas}}
	if f := run(t, s, onCPU(3, 10, 60)).Figures; f.Rises != (simulation.Reactions{}) || f.Ups != 1 {
		t.Errorf("without load: rises %+v, %d changes up, want none and 1", f.Rises, f.Ups)
	}
}

// The example in Kubernetes' documentation: 4 pods or 10 % a minute, whichever is more, from
// 80 replicas of which 10 are needed.
func TestThePolicyExampleOfKubernetes(t *testing.T) {
	t.Parallel()
	a := onTotal(1, 100, 1)
	a.Spec.Behavior = &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.ScalingRules{
		StabilizationWindowSeconds: new(int32(0)), SelectPolicy: recommender.MaxChange,
		Policies: []recommender.ScalingPolicy{{Type: recommender.PodsPolicy, Value: 4, PeriodSeconds: 60}, {Type: recommender.PercentPolicy, Value: 10, PeriodSeconds: 60}},
	}}
	w := simulation.Workload{Replicas: new(int32(80)), Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 15 * time.Minute, Load: trace(t, 0, 10), Workload: w}
	s.Loop.SyncPeriod = time.Minute
	want := []int32{72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 10, 10}
	if got := counts(t, s, a); !slices.Equal(got, want) {
		t.Errorf("every minute: %v, want %v", got, want)
	}
	// Asked every 15 s it moves in the same steps, one a minute.
	s.Loop.SyncPeriod, s.Duration = 15*time.Second, 3*time.Minute
	want = []int32{72, 72, 72, 72, 64, 64, 64, 64, 57, 57, 57, 57}
	if got := counts(t, s, a); !slices.Equal(got, want) {
		t.Errorf("every 15 s: %v, want %v", got, want)
	}
}

// The default window of 5 minutes: what was needed until 60 s holds the count up to 360 s.
func TestTheScaleDownWindowHoldsTheCount(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(10)), Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 8 * time.Minute, Load: trace(t, 0, 10, 60, 10, 60, 2), Workload: w}
	result := run(t, s, onTotal(1, 100, 1))
	// At 60 s the mean of the second before is still 10. Its recommendation is in the window
	// at 360 s, on the edge, and no longer at 375 s.
	if len(result.Actions) != 1 || result.Actions[0].At != 375*time.Second || result.Actions[0].To != 2 {
		t.Errorf("actions %+v, want one to 2 at 375s", result.Actions)
	}
	var held time.Duration
	for _, c := range result.Figures.Causes {
		if c.Cause == "scaleDown window 300s" {
			held = c.Time
		}
	}
	// The evaluations of 75 to 360 s: 20 of them.
	if held != 5*time.Minute {
		t.Errorf("held for %s, want 5m: %+v", held, result.Figures.Causes)
	}
}

// fixed is an autoscaler that never changes the count.
func fixed(replicas int32) *simulation.Autoscaler { return onTotal(replicas, replicas, 1) }

// One pod serves 10 a second. 30 a second for 10 s leave 200 over; the queue takes 150 of
// them, the rest is lost. Then 5 a second leave room for 5 of the queue a second. First in,
// first out: but for the 10 of the first second all that is not lost has to wait.
func TestWhatCannotBeServedWaitsOrIsLost(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(1)), Capacity: 10, Queue: simulation.Queue{Size: 150}, Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 30 * time.Second, Load: trace(t, 0, 30, 10, 30, 10, 5), Workload: w}
	f := run(t, s, fixed(1)).Figures
	if f.Offered != 400 || f.Lost != 50 || f.Late != 240+20*5 || f.Served != 300 || f.Queued != 50 || f.ShortTime != 10*time.Second {
		t.Errorf("got %+v, want 400 offered, 50 lost, 340 late, 300 served, 50 queued, short for 10s", f)
	}
	// After 30 more seconds with nothing left to wait, what arrives is served at once.
	s.Duration = time.Minute
	f = run(t, s, fixed(1)).Figures
	if f.Queued != 0 || f.Lost != 50 || math.Abs(f.Served-500) > 1e-9 {
		t.Errorf("got %+v, want nothing queued, 50 lost, 500 served", f)
	}
}

// What has waited for 5 s is lost: 10 a second too many for 20 s, and a queue that grows by
// 10 a second for 5 s.
func TestWhatWaitsTooLongIsLost(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(1)), Capacity: 10, Queue: simulation.Queue{Size: 1e6, Timeout: 5 * time.Second}, Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 20 * time.Second, Load: trace(t, 0, 20), Workload: w}
	f := run(t, s, fixed(1)).Figures
	if f.Served != 200 || f.Offered != 400 || f.Lost+f.Queued != 200 || f.Queued > 100 || f.Queued < 50 {
		t.Errorf("got %+v, want 200 served, and of the other 200 what arrived in the last 5 to 10 s queued", f)
	}
}

// Nothing serves for the first 18 s, so the load of 10 s is lost; it comes back after 5 s and
// again after 10 s more, and is lost for good where that is still too early.
func TestLostLoadComesBack(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{
		Replicas: new(int32(1)), Capacity: 1000, Retries: simulation.Retries{Count: 2, Delay: 5 * time.Second, Factor: 2},
		Usage: []simulation.Usage{offered(time.Second)},
	}
	s := &simulation.Scenario{Start: start, Duration: time.Minute, Load: trace(t, 0, 10, 10, 10, 10, 0), Workload: w}
	s.Events = []simulation.Event{{Kind: simulation.CrashPods, Share: 1, For: 18 * time.Second}}
	f := run(t, s, fixed(1)).Figures
	// What arrives in second i comes in seconds i, i+5 and i+15: the last is before 18 s for
	// seconds 0, 1 and 2.
	if f.Offered != 100 || math.Abs(f.Lost-30) > 1e-9 || math.Abs(f.Served-70) > 1e-9 || f.Returning != 0 {
		t.Errorf("got %+v, want 100 offered, 30 lost, 70 served", f)
	}
}

// Two pods, room for 10 each, 15 offered: by weights one would have more than 10, and passes
// the rest on, so that all is served.
func TestSaturatedPodsPassTheRestOn(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(4)), Capacity: 10, Imbalance: 0.8, Usage: []simulation.Usage{offered(time.Second), {Metric: "rps", PerLoad: 1000, Window: 15 * time.Second}}}
	s := &simulation.Scenario{Start: start, Duration: 2 * time.Minute, Seed: 3, Load: trace(t, 0, 36), Workload: w}
	a := fixed(4)
	a.Spec.Metrics = append(a.Spec.Metrics, recommender.MetricSpec{
		Type: recommender.PodsMetric, Metric: recommender.MetricIdentifier{Name: "rps"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: new(int64(9000))},
	})
	var last []int64
	result, err := simulation.Run(s, a, func(step *simulation.Step) error {
		last = nil
		for _, v := range step.Input.Readings[1].Values {
			last = append(last, v.Milli)
		}
		return nil
	})
	fatal.If(t, err)
	sum, full := int64(0), 0
	for _, v := range last {
		sum += v
		if v == 10000 {
			full++
		}
	}
	if result.Figures.Lost != 0 || len(last) != 4 || sum < 36000 || sum > 36004 || full == 0 || full == 4 {
		t.Errorf("pods serve %v, want 36 in all, some of them 10; lost %g", last, result.Figures.Lost)
	}
}

// What waits again after each retry is late once. One pod serves 10 a second, of 30 a second for a minute: what waits is too
// old after 2 s, and comes back twice.
func TestWhatIsRetriedIsLateOnce(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(1)), Capacity: 10, Queue: simulation.Queue{Size: 1e6, Timeout: 2 * time.Second}, Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 2 * time.Minute, Load: trace(t, 0, 30, 60, 30, 60, 0), Workload: w}
	plain := run(t, s, fixed(1)).Figures
	s.Workload.Retries = simulation.Retries{Count: 2, Delay: time.Second, Factor: 1}
	f := run(t, s, fixed(1)).Figures
	// All but what was served in the first second has to wait, whether it is retried or not.
	if plain.Offered != 1800 || plain.Late != 1790 || math.Abs(f.Late-1790) > 1e-9 {
		t.Errorf("%g of %g had to wait, with retries %g; want 1790 of 1800 both times", plain.Late, plain.Offered, f.Late)
	}
}

// The reading is the queue's mean length over the window.
func TestAMetricMayFollowTheQueue(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(1)), Capacity: 10, Queue: simulation.Queue{Size: 1e9}, Usage: []simulation.Usage{
		{Metric: "load", PerLoad: 1000, Follows: simulation.QueueLength, Window: 10 * time.Second},
	}}
	s := &simulation.Scenario{Start: start, Duration: 31 * time.Second, Load: trace(t, 0, 20), Workload: w}
	var values []int64
	if _, err := simulation.Run(s, fixed(1), func(step *simulation.Step) error {
		values = append(values, step.Input.Readings[0].Values[0].Milli)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// The queue grows by 10 a second: its mean over the 10 s before 15 s is that of 10 s.
	if want := []int64{0, 100_000, 250_000}; !slices.Equal(values, want) {
		t.Errorf("readings %v, want %v", values, want)
	}
}

// A limit of 1 core, of which 200m are used anyway, at 10m for each unit a second: 80.
func TestTheCPULimitIsTheCapacity(t *testing.T) {
	t.Parallel()
	w := web(2)
	w.Containers[0].Limits = []recommender.ResourceUsage{{Resource: "cpu", Milli: 1000}}
	w.Usage[0].Idle = 200
	s := &simulation.Scenario{Start: start, Duration: time.Minute, Load: trace(t, 0, 200), Workload: w}
	var capacity float64
	result, err := simulation.Run(s, onCPU(2, 2, 60), func(step *simulation.Step) error {
		capacity = step.Capacity
		return nil
	})
	fatal.If(t, err)
	if f := result.Figures; capacity != 160 || f.Lost != 60*40 || f.ShortTime != time.Minute {
		t.Errorf("capacity %g, want 160; %+v", capacity, f)
	}
}

// The line from 0 to 40 crosses a capacity of 10 after a quarter of the way.
func TestShortageBeginsWhereTheLineCrossesTheCapacity(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(1)), Capacity: 10, Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 40 * time.Second, Load: trace(t, 0, 0, 40, 40), Workload: w}
	f := run(t, s, fixed(1)).Figures
	if f.ShortTime != 30*time.Second || f.Lost != 450 || f.Served != 350 {
		t.Errorf("short for %s, %g lost, %g served, want 30s, 450 and 350", f.ShortTime, f.Lost, f.Served)
	}
}

// Efficiency of 1: the count is what is needed all the time.
func TestTheRightCountIsEfficient(t *testing.T) {
	t.Parallel()
	s := &simulation.Scenario{Start: start, Duration: time.Hour, Load: trace(t, 0, 90), Workload: web(3), Price: 0.5}
	f := run(t, s, onCPU(1, 10, 60)).Figures
	if f.Efficiency != 1 || f.ReplicaHours != 3 || f.Cost != 1.5 || f.Ups+f.Downs != 0 {
		t.Errorf("got %+v, want an efficiency of 1, 3 replica hours that cost 1.5, no change", f)
	}
}

// A workload that begins with no replicas, as its spec allows, was scaled so by the autoscaler, and load wakes it. With a
// minimum somebody has switched it off.
func TestNoReplicasAtTheStart(t *testing.T) {
	t.Parallel()
	w := simulation.Workload{Replicas: new(int32(0)), Usage: []simulation.Usage{offered(time.Second)}}
	s := &simulation.Scenario{Start: start, Duration: 2 * time.Minute, Load: trace(t, 0, 0, 60, 0, 60, 4), Workload: w}
	for least, want := range []int32{0: 4, 1: 0} {
		a := onTotal(int32(least), 10, 1)
		a.Options.ScaleToZero = true
		if got := counts(t, s, a); got[0] != 0 || got[len(got)-1] != want {
			t.Errorf("minReplicas %d: %v, want %d in the end", least, got, want)
		}
		of := clusters(s.Duration, w, s.Load, nil, nil)
		of.Fleet.Rules = []simulation.FleetRule{simulation.Hold}
		list, _ := rounds(t, of, a, simulation.Hold)
		if got := list[len(list)-1].desired; list[0].desired != 0 || got != want {
			t.Errorf("minReplicas %d: a fleet has %d in the end, want %d", least, got, want)
		}
	}
}
