// Package simulationtest generates random simulations for tests: the same seed gives the same
// one.
package simulationtest

import (
	"math/rand/v2"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Start is the start of all of them.
var Start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// OnCPU returns an autoscaler of the Deployment web for a utilization of cpu.
func OnCPU(least, most, utilization int32) *simulation.Autoscaler {
	return &simulation.Autoscaler{
		Namespace: "shop", Options: recommender.DefaultOptions(),
		Spec: recommender.Spec{
			ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web"},
			MinReplicas:    least, MaxReplicas: most,
			Metrics: []recommender.MetricSpec{{
				Type: recommender.ResourceMetric, Resource: "cpu",
				Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization},
			}},
		},
	}
}

// Random returns a scenario of that many evaluations and an autoscaler for it.
func Random(seed uint64, evaluations int) (*simulation.Scenario, *simulation.Autoscaler) {
	r := random{rand.New(rand.NewPCG(seed, 1))}
	period := time.Duration(r.one(5, 15, 15, 15, 30)) * time.Second
	s := &simulation.Scenario{
		Start: Start, Duration: time.Duration(evaluations) * period, Seed: seed,
		Loop: simulation.Loop{
			SyncPeriod: period, Offset: time.Duration(r.IntN(int(period/time.Second))) * time.Second,
			ApplyDelay: time.Duration(r.one(0, 0, 1, 4)) * time.Second, ScrapeOffset: time.Duration(r.IntN(15)) * time.Second,
		},
		Workload: r.workload(),
	}
	s.Load = r.load(seed, s)
	s.Events = r.events(s.Duration)
	return s, r.autoscaler()
}

type random struct{ *rand.Rand }

func (r random) one(values ...int) int { return values[r.IntN(len(values))] }

func (r random) chance(share float64) bool { return r.Float64() < share }

func (r random) seconds(values ...int) time.Duration {
	return time.Duration(r.one(values...)) * time.Second
}

func (r random) load(seed uint64, s *simulation.Scenario) *simulation.Trace {
	must := func(t *simulation.Trace, err error) *simulation.Trace {
		if err != nil {
			panic(err)
		}
		return t
	}
	base := 10 + 200*r.Float64()
	d := s.Duration
	part := func(share float64) time.Duration { return time.Duration(share * r.Float64() * float64(d)) }
	parts := []*simulation.Trace{must(simulation.Constant(base))}
	for range r.IntN(3) {
		height := base * (0.2 + 3*r.Float64())
		switch r.IntN(5) {
		case 0:
			parts = append(parts, must(simulation.Jump(0, height, part(1))))
		case 1:
			parts = append(parts, must(simulation.Ramp(height, 0, part(0.5), part(0.5)+time.Second)))
		case 2:
			parts = append(parts, must(simulation.Spike(height, part(1), part(0.3)+time.Second)))
		case 3:
			parts = append(parts, must(simulation.Sawtooth(0, height, part(0.3)+20*time.Second, simulation.Span{Start: s.Start, Duration: d})))
		case 4:
			parts = append(parts, must(simulation.FlashCrowd(height, part(0.7), part(0.1)+time.Second, part(0.1)+10*time.Second)))
		}
	}
	load := must(simulation.Sum(parts...))
	if r.chance(0.5) {
		load = must(load.Noise(seed, 0.2*r.Float64(), r.seconds(10, 30, 60), d))
	}
	return load
}

func (r random) workload() simulation.Workload {
	replicas := int32(r.one(1, 2, 3, 3, 5, 8, 12))
	w := simulation.Workload{
		Replicas: &replicas,
		Containers: []simulation.Container{{
			Name:     "app",
			Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: int64(r.one(250, 500, 1000))}, {Resource: "memory", Milli: 512 << 20 * 1000}},
		}},
		SchedulingDelay: r.seconds(0, 0, 1, 3),
		Startup:         simulation.Startup{Kind: simulation.StartupKind(r.IntN(3)), From: r.seconds(1, 10, 20, 40), To: r.seconds(45, 60, 120)},
		Drain:           r.seconds(0, 5), Grace: r.seconds(0, 10, 30),
		Usage: []simulation.Usage{
			{Metric: "cpu", PerLoad: float64(r.one(5, 10, 20)), Idle: float64(r.one(0, 10, 50)), Warmup: float64(r.one(0, 0, 300))},
			{Metric: "memory", PerLoad: 1 << 20 * 1000, Idle: 100 << 20 * 1000},
			{Metric: "rps", PerLoad: 1000, Window: r.seconds(15, 60), Delay: r.seconds(0, 15, 20)},
			{Metric: "depth", PerLoad: 1000, Idle: float64(r.one(0, 500)), Follows: simulation.Signal(r.IntN(4)), Window: r.seconds(15, 30, 60), Delay: r.seconds(0, 10)},
		},
		Warmup: r.seconds(0, 30, 60),
	}
	if r.chance(0.5) {
		w.Containers[0].Limits = []recommender.ResourceUsage{{Resource: "cpu", Milli: int64(r.one(500, 1000, 2000))}}
	}
	if r.chance(0.2) {
		w.Containers = append(w.Containers, simulation.Container{
			Name: "proxy", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 100}, {Resource: "memory", Milli: 64 << 20 * 1000}},
			Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: 20}, {Resource: "memory", Milli: 32 << 20 * 1000}},
		})
	}
	if r.chance(0.4) {
		w.Queue = simulation.Queue{Size: float64(r.one(100, 1000, 100000)), Timeout: r.seconds(0, 10, 60)}
	}
	if r.chance(0.3) {
		w.Retries = simulation.Retries{Count: 1 + r.IntN(4), Delay: r.seconds(1, 5), Factor: float64(r.one(1, 2))}
	}
	if r.chance(0.3) {
		w.Imbalance = 0.3 * r.Float64()
	}
	if r.chance(0.2) {
		w.Slots, w.NodeDelay = int32(r.one(4, 8)), r.seconds(30, 90)
	}
	return w
}

func (r random) events(duration time.Duration) []simulation.Event {
	var events []simulation.Event
	for range r.one(0, 0, 1, 2, 3) {
		metric := []string{"", "cpu", "rps", "depth"}[r.IntN(4)]
		events = append(events, simulation.Event{
			At: time.Duration(r.Float64() * float64(duration)).Truncate(time.Second), Kind: simulation.EventKind(r.IntN(9)),
			Pods: 1 + r.IntN(3), Share: r.Float64(), For: r.seconds(20, 60, 150), Metric: metric, By: r.seconds(15, 40, 90),
			Replicas: int32(1 + r.IntN(15)), Surge: int32(r.IntN(3)), Unavailable: int32(r.IntN(2)),
		})
	}
	return events
}

func (r random) autoscaler() *simulation.Autoscaler {
	a := &simulation.Autoscaler{
		Namespace: "shop", Options: recommender.DefaultOptions(),
		Spec: recommender.Spec{
			ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
			MinReplicas:    int32(1 + r.IntN(4)), MaxReplicas: int32(5 + r.IntN(20)),
		},
	}
	for _, i := range r.Perm(6)[:1+r.IntN(3)] {
		a.Spec.Metrics = append(a.Spec.Metrics, r.metrics()[i])
	}
	if r.chance(0.6) {
		a.Spec.Behavior = &recommender.Behavior{ScaleUp: r.rules(recommender.DefaultScaleUp()), ScaleDown: r.rules(recommender.DefaultScaleDown())}
	}
	return a
}

func (r random) metrics() []recommender.MetricSpec {
	utilization := int32(r.one(40, 60, 80))
	milli := func(values ...int) *int64 {
		v := int64(r.one(values...)) * 1000
		return &v
	}
	return []recommender.MetricSpec{
		{Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization}},
		{Type: recommender.ResourceMetric, Resource: "memory", Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: milli(120<<20, 200<<20)}},
		{Type: recommender.ContainerResourceMetric, Resource: "cpu", Container: "app", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization}},
		{Type: recommender.PodsMetric, Metric: recommender.MetricIdentifier{Name: "rps"}, Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: milli(10, 25, 50)}},
		{
			Type: recommender.ObjectMetric, Metric: recommender.MetricIdentifier{Name: "depth"},
			DescribedObject: recommender.ObjectReference{Kind: "Service", Name: "web", APIVersion: "v1"},
			Target:          recommender.MetricTarget{Type: recommender.ValueTarget, Value: milli(20, 100, 500)},
		},
		{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "depth"}, Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: milli(10, 30)}},
	}
}

func (r random) rules(rules recommender.ScalingRules) recommender.ScalingRules {
	if r.chance(0.6) {
		window := int32(r.one(0, 30, 60, 120))
		rules.StabilizationWindowSeconds = &window
	}
	if r.chance(0.6) {
		rules.Policies = nil
		for range 1 + r.IntN(2) {
			kind := recommender.PodsPolicy
			if r.chance(0.5) {
				kind = recommender.PercentPolicy
			}
			rules.Policies = append(rules.Policies, recommender.ScalingPolicy{Type: kind, Value: int32(r.one(1, 2, 10, 50, 100)), PeriodSeconds: int32(r.one(15, 60, 120))})
		}
	}
	if r.chance(0.3) {
		rules.SelectPolicy = recommender.MinChange
	}
	if r.chance(0.3) {
		tolerance := 0.05
		rules.Tolerance = &tolerance
	}
	return rules
}
