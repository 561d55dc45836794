package recommender

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Worked examples. All were run on the code of Kubernetes v1.36.

// What metrics propose, before stabilization and limits.
func TestWorkedExamplesOfProposals(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   *Input
		want int32
		// check looks at more than the proposal.
		check func(t *testing.T, d Decision)
	}{
		{
			name: "W1 usage at twice the target doubles",
			in:   workload(cpuUtilization(100), 5, 100, each(5, 200)), want: 10,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current,
					MetricValue{AverageUtilization: 200, HasAverageUtilization: true, AverageValue: 200, HasAverageValue: true})
			},
		},
		{
			name: "W2 usage at half the target halves",
			in:   workload(cpuUtilization(100), 10, 100, each(10, 50)), want: 5,
		},
		{
			name: "W3 percent truncates: 54.9 is 54, on target 50",
			in:   workload(cpuUtilization(50), 10, 1000, each(10, 549)), want: 10,
			check: func(t *testing.T, d Decision) {
				equal(t, "percent", d.Status.CurrentMetrics[0].Current.AverageUtilization, int32(54))
				equal(t, "ratio", d.Explanation.Metrics[0].UsageRatio, 54.0/50)
			},
		},
		{
			name: "W4 the same against 49 is off target",
			in:   workload(cpuUtilization(49), 10, 1000, each(10, 549)), want: 12,
		},
		{
			name: "W5 a ratio of exactly 1.1 is within tolerance",
			in:   workload(cpuUtilization(50), 10, 100, each(10, 55)), want: 10,
		},
		{
			name: "W6 a ratio of exactly 0.9 is within tolerance",
			in:   workload(cpuUtilization(50), 10, 100, each(10, 45)), want: 10,
		},
		{
			name: "W6 one percent below it is not",
			in:   workload(cpuUtilization(50), 10, 100, each(10, 44)), want: 9,
		},
		{
			name: "W6 one percent above 1.1 is not",
			in:   workload(cpuUtilization(50), 10, 100, each(10, 56)), want: 12,
		},
		{
			name: "W7 missing pods count at the target when it is above 100 %",
			in:   workload(cpuUtilization(150), 4, 100, each(3, 60), missing(1)), want: 3,
			check: func(t *testing.T, d Decision) {
				equal(t, "the ratio filled in", d.Explanation.Metrics[0].DampenedRatio, 82.0/150)
			},
		},
		{
			name: "W8 missing pods count as idle when scaling up",
			in:   workload(cpuUtilization(100), 4, 100, each(3, 200), missing(1)), want: 6,
		},
		{
			name: "W9 unready pods that turn the direction hold the count",
			in:   workload(cpuUtilization(100), 3, 100, each(1, 150), pending(2)), want: 3,
			check: func(t *testing.T, d Decision) {
				equal(t, "the rule", d.Explanation.Metrics[0].Rule, DampenedReversed)
			},
		},
		{
			name: "W10 missing and unready pods count as idle when scaling up, not in the status",
			in:   workload(cpuUtilization(50), 5, 100, each(3, 100), missing(1), pending(1)), want: 6,
			check: func(t *testing.T, d Decision) {
				equal(t, "percent", d.Status.CurrentMetrics[0].Current.AverageUtilization, int32(100))
				equal(t, "the ratio filled in", d.Explanation.Metrics[0].DampenedRatio, 60.0/50)
			},
		},
		{
			name: "W11 scaling down fills in missing pods only",
			in:   workload(cpuUtilization(50), 5, 100, each(3, 10), missing(1), pending(1)), want: 3,
		},
		{
			name: "W12 a Succeeded pod without a sample is missing",
			in: workload(cpuUtilization(50), 4, 100, each(4, 20),
				with(missing(1), func(p *Pod) { p.Phase = PhaseOther })), want: 4,
			check: func(t *testing.T, d Decision) {
				equal(t, "the ratio filled in", d.Explanation.Metrics[0].DampenedRatio, 36.0/50)
			},
		},
		{
			name: "W13 a Pods metric multiplies the average's ratio",
			in:   workload(podsAverage(10*unit), 3, 0, usages(10*unit, 15*unit, 20001)), want: 5,
			check: func(t *testing.T, d Decision) {
				equal(t, "average", d.Status.CurrentMetrics[0].Current, MetricValue{AverageValue: 15000, HasAverageValue: true})
			},
		},
		{
			name: "W14 an average truncates and so stays on target",
			in:   workload(podsAverage(10*unit), 3, 0, usages(10*unit, 11*unit, 12001)), want: 3,
			check: func(t *testing.T, d Decision) {
				equal(t, "average", d.Status.CurrentMetrics[0].Current.AverageValue, int64(11000))
			},
		},
		{
			name: "W15 memory counts in milli-bytes and prints binary",
			in:   workload(resourceAverage("memory", 100*mebi), 3, 0, usages(100*mebi, 110*mebi, 121*mebi)), want: 4,
			check: func(t *testing.T, d Decision) {
				v := d.Status.CurrentMetrics[0].Current
				equal(t, "binary", v.Binary, true)
				equal(t, "average", quantity.FormatBinary(v.AverageValue), "115692885333m")
			},
		},
		{
			name: "W15 a mebibyte less is exactly 1.1",
			in:   workload(resourceAverage("memory", 100*mebi), 3, 0, usages(100*mebi, 110*mebi, 120*mebi)), want: 3,
			check: func(t *testing.T, d Decision) {
				equal(t, "average", quantity.FormatBinary(d.Status.CurrentMetrics[0].Current.AverageValue), "110Mi")
			},
		},
		{
			name: "W16 Object Value multiplies the running and ready pods",
			in:   objectOverPods(20*unit, each(3, 0), with(each(1, 0), func(p *Pod) { p.Ready = ReadyFalse })), want: 6,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current, MetricValue{Value: 20 * unit, HasValue: true})
			},
		},
		{
			name: "W16 one that is being deleted is among them, and none that does not run or is not ready",
			in: objectOverPods(20*unit, each(3, 0), with(each(1, 0), func(p *Pod) { p.Ready = ReadyFalse }),
				with(each(1, 0), func(p *Pod) { p.Deleting = true }), with(each(1, 0), func(p *Pod) { p.Phase = PhasePending }),
				with(each(1, 0), func(p *Pod) { p.Phase = PhaseOther }), with(each(1, 0), func(p *Pod) { p.Ready = ReadyUnknown })), want: 8,
		},
		{
			name: "W16 the product is rounded up",
			in:   objectOverPods(13*unit, each(4, 0)), want: 6,
		},
		{
			name: "W17 Object Value without ready pods goes to the minimum",
			in:   objectOverPods(50*unit, with(each(4, 0), func(p *Pod) { p.Ready = ReadyFalse })), want: 0,
			check: func(t *testing.T, d Decision) {
				equal(t, "desired", d.Desired, int32(1))
				equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "True TooFewReplicas")
			},
		},
		{
			name: "W18 Object AverageValue divides by the target",
			in:   total(objectAverage(20*unit), 4, 100*unit), want: 5,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current, MetricValue{AverageValue: 25 * unit, HasAverageValue: true})
			},
		},
		{
			name: "W18 and is held within tolerance",
			in:   total(objectAverage(20*unit), 5, 105*unit), want: 5,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current.AverageValue, int64(21*unit))
			},
		},
		{
			name: "W19 External Value sums its series",
			in:   withReady(total(externalValue(10*unit), 4, 10*unit, 20*unit)), want: 12,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current, MetricValue{Value: 30 * unit, HasValue: true})
			},
		},
		{
			name: "W20 External AverageValue divides the same sum",
			in:   total(externalAverage(10*unit), 4, 10*unit, 20*unit), want: 3,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", quantity.FormatDecimal(d.Status.CurrentMetrics[0].Current.AverageValue), "7500m")
			},
		},
		{
			name: "W20 whose reading is rounded up",
			in:   total(externalAverage(unit), 3, 10*unit), want: 10,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current.AverageValue, int64(3334))
			},
		},
		{
			name: "W21 from zero a total is divided by its target",
			in:   fromZero(total(externalValue(10*unit), 0, 25*unit)), want: 3,
		},
		{
			name: "W21 and the smallest total asks for one",
			in:   fromZero(total(externalValue(10*unit), 0, 10)), want: 1,
		},
		{
			name: "W22 a negative series is taken for an overflow",
			in: changed(total(externalAverage(10*unit), 4, -1), func(in *Input) {
				in.Spec.MaxReplicas = 20
				in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 100, 15}), nil)
			}), want: 2147483647,
			check: func(t *testing.T, d Decision) {
				equal(t, "desired", d.Desired, int32(20))
				equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "True TooManyReplicas")
			},
		},
		{
			name: "W23 within tolerance the observed replicas are proposed",
			in:   changed(total(externalAverage(unit), 3, 5*unit), func(in *Input) { in.Scale.StatusReplicas = 5 }), want: 5,
			check: func(t *testing.T, d Decision) {
				equal(t, "desired", d.Desired, int32(5))
				equal(t, "the rule", d.Explanation.Metrics[0].Rule, WithinTolerance)
			},
		},
		{
			name: "W24 the sample of an unlisted pod dilutes an average",
			in:   withGhost(workload(resourceAverage("cpu", 100), 2, 100, each(2, 200))), want: 3,
			check: func(t *testing.T, d Decision) {
				equal(t, "average", d.Status.CurrentMetrics[0].Current.AverageValue, int64(133))
			},
		},
		{
			name: "W24 and not a utilization",
			in:   withGhost(workload(cpuUtilization(100), 2, 100, each(2, 200))), want: 4,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reading", d.Status.CurrentMetrics[0].Current,
					MetricValue{AverageUtilization: 200, HasAverageUtilization: true, AverageValue: 200, HasAverageValue: true})
			},
		},
		{
			name: "W25 one container is measured alone",
			in:   mainContainers(), want: 4,
			check: func(t *testing.T, d Decision) {
				equal(t, "the reason", d.Reason, "cpu container resource utilization (percentage of request) above target")
				equal(t, "percent", d.Status.CurrentMetrics[0].Current.AverageUtilization, int32(90))
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(tt.in)
			if d.Path != PathMetrics {
				t.Fatalf("path %d: %s", d.Path, d.Error)
			}
			equal(t, "the proposal", d.Explanation.Proposal, tt.want)
			if tt.check != nil {
				tt.check(t, d)
			}
		})
	}
}

// objectOverPods is an Object Value of target 10 with these pods, four of which
// are replicas.
func objectOverPods(milli int64, groups ...[]testPod) *Input {
	in := workload(objectValue(10*unit), 4, 0, groups...)
	read(in, 0, milli)
	return in
}

func withReady(in *Input) *Input {
	for i := range in.Pods {
		in.Pods[i].Phase, in.Pods[i].Ready = PhaseRunning, ReadyTrue
	}
	return in
}

// fromZero makes an input one that the autoscaler scaled to zero.
func fromZero(in *Input) *Input {
	in.Options.ScaleToZero, in.Spec.MinReplicas = true, 0
	in.PreviousStatus = &Status{Conditions: []Condition{{Type: ScaledToZero, Status: ConditionTrue, Reason: "ScaledToZero"}}}
	return in
}

func withGhost(in *Input) *Input {
	in.PodMetrics = append(in.PodMetrics, podMetrics("ghost", "cpu", 0))
	return in
}

func changed(in *Input, change func(*Input)) *Input {
	change(in)
	return in
}

// mainContainers are two pods whose main container uses 90 % of its request and
// whose other one has none.
func mainContainers() *Input {
	in := workload(containerUtilization("main", 50), 2, 0, each(2, 0))
	for i := range in.Pods {
		in.Pods[i].Containers = []Container{
			{Name: "log"},
			{Name: "main", Requests: []ResourceRequest{{"cpu", milliQuantity(100)}}},
		}
		in.PodMetrics[i].Containers = []ContainerMetrics{
			{Name: "log", Usage: []ResourceUsage{{"memory", 1}}},
			{Name: "main", Usage: []ResourceUsage{{"cpu", 90}}},
		}
	}
	return in
}

// The cpu request of a pod.
func TestWorkedExamplesOfRequests(t *testing.T) {
	cpu := func(amount string) []ResourceRequest {
		q, err := quantity.Parse(amount)
		fatal.If(t, err)
		return []ResourceRequest{{"cpu", q}}
	}
	memory := []ResourceRequest{{"memory", milliQuantity(100 * mebi)}}
	tiny := []Container{{"a", cpu("100u")}, {"b", cpu("100u")}}
	for _, tt := range []struct {
		name string
		pod  Pod
		want int64
	}{
		{"W26 containers and sidecars add up, neither init containers nor overhead", Pod{
			Containers:     []Container{{"a", cpu("100m")}, {"b", cpu("250m")}},
			InitContainers: []InitContainer{{Container{"side", cpu("50m")}, true}, {Container{"init", cpu("4")}, false}},
			Overhead:       cpu("10m"),
		}, 400},
		{"W27 a request of the whole pod replaces its containers', and overhead comes on top", Pod{
			Containers:       []Container{{"a", cpu("100m")}, {"b", nil}},
			PodLevelRequests: cpu("2"), Overhead: cpu("100m"),
		}, 2100},
		{"W28 a pod-level request of memory changes how cpu counts", Pod{
			Containers:       []Container{{"a", cpu("100m")}},
			InitContainers:   []InitContainer{{Container{"init", cpu("4")}, false}},
			PodLevelRequests: memory, Overhead: cpu("100m"),
		}, 4100},
		{"W28 without it: 100m", Pod{
			Containers:     []Container{{"a", cpu("100m")}},
			InitContainers: []InitContainer{{Container{"init", cpu("4")}, false}},
			Overhead:       cpu("100m"),
		}, 100},
		{"W29 each container rounds up by itself", Pod{Containers: tiny}, 2},
		{"W29 at the pod's level the sum rounds up once", Pod{Containers: tiny, PodLevelRequests: memory}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, problem := podRequest(&tt.pod, "", "cpu")
			if got != tt.want || problem != "" {
				t.Errorf("%d milli, %q; want %d", got, problem, tt.want)
			}
		})
	}
}

// Several metrics, forced moves, zero.
func TestWorkedExamplesOfPaths(t *testing.T) {
	const cpuFailure = "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"
	cpuFails := func(current int32, queue int64) *Input {
		in := wanting(current)
		in.Spec.Metrics = []MetricSpec{cpuUtilization(50), in.Spec.Metrics[0]}
		read(in, 0)
		read(in, 1, queue*unit)
		in.PreviousStatus = &Status{DesiredReplicas: 6}
		return in
	}

	t.Run("W30 a failed metric does not keep another from scaling up", func(t *testing.T) {
		d := decide(cpuFails(5, 7))
		equal(t, "desired", d.Desired, int32(7))
		equal(t, "the error", d.Error, "invalid metrics (1 invalid out of 2), first error is: failed to get cpu resource metric value: "+cpuFailure)
		equal(t, "the failed metric's reading", d.Status.CurrentMetrics[0], MetricStatus{})
		equal(t, "the other's type", d.Status.CurrentMetrics[1].Type, ExternalMetric)
		equal(t, "ScalingActive", reasonOf(d.Status.Conditions, ScalingActive), "True ValidMetricFound")
		equal(t, "the reason", d.Reason, "external metric queue(nil) above target")
	})

	t.Run("W31 it keeps another from scaling down", func(t *testing.T) {
		in := cpuFails(7, 2)
		d, next := Recommend(t0, in, nil)
		equal(t, "desired", d.Desired, int32(7))
		equal(t, "ScalingActive", reasonOf(d.Status.Conditions, ScalingActive), "False FailedGetResourceMetric")
		equal(t, "AbleToScale", reasonOf(d.Status.Conditions, AbleToScale), "True SucceededGetScale")
		equal(t, "the status' desired replicas", d.Status.DesiredReplicas, int32(6))
		equal(t, "recommendations", next.Recommendations, []TimedRecommendation{{7, t0.UnixNano()}})
	})

	t.Run("W32 the largest proposal wins", func(t *testing.T) {
		in := workload(podsAverage(unit), 5, 0, usages(8*unit, 8*unit, 8*unit, 8*unit, 8*unit))
		in.Spec.Metrics = []MetricSpec{externalAverage(unit), podsAverage(5 * unit)}
		in.Readings = []Readings{{Values: []Value{{Milli: 7 * unit}}}, in.Readings[0]}
		d := decide(in)
		equal(t, "desired", d.Desired, int32(8))
		equal(t, "the reason", d.Reason, "pods metric pps above target")
	})

	t.Run("W33 above the maximum goes to it at once", func(t *testing.T) {
		in := wanting(12)
		in.Spec.MinReplicas, in.Spec.MaxReplicas = 2, 10
		d, _ := Recommend(t0, in, nil)
		equal(t, "desired", d.Desired, int32(10))
		equal(t, "the reason", d.Reason, "Current number of replicas above Spec.MaxReplicas")
		equal(t, "readings", len(d.Status.CurrentMetrics), 0)
		equal(t, "ScalingActive", reasonOf(d.Status.Conditions, ScalingActive), "")
		equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "")
	})

	t.Run("W34 a forced move is a scale event and no recommendation", func(t *testing.T) {
		in := wanting(10)
		in.Spec.Behavior = defaultBehavior()
		x := follow(t, in, []step{
			{at: 0, want: 6, change: func(in *Input) { in.Spec.MaxReplicas = 6 }},
		})
		equal(t, "scale events", x.history.ScaleDowns, []ScaleEvent{{Change: 4, At: t0.UnixNano()}})
		equal(t, "recommendations", x.history.Recommendations, []TimedRecommendation{{10, t0.UnixNano()}})
		in.Spec.MaxReplicas, in.Explain = 100, true
		read(in, 0, 10*unit)
		d := x.recommend(t, 10*time.Second)
		equal(t, "desired", d.Desired, int32(10))
		equal(t, "replicas at the period's start", d.Explanation.RateLimit.Policies[0].Start, int32(10))
	})

	toZero := func() *Input {
		in := total(externalAverage(unit), 3, 0)
		in.Options.ScaleToZero, in.Spec.MinReplicas = true, 0
		return in
	}

	t.Run("W35 to zero and back", func(t *testing.T) {
		in := toZero()
		x := follow(t, in, []step{
			{at: 0, wants: 0, want: 3, able: "ScaleDownStabilized"},
			{at: 301 * time.Second, wants: 0, want: 0, reason: "All metrics below target"},
		})
		equal(t, "ScaledToZero", reasonOf(x.history.Status.Conditions, ScaledToZero), "True ScaledToZero")
		read(in, 0, 9*unit)
		d := x.recommend(t, 316*time.Second)
		equal(t, "desired", d.Desired, int32(4))
		equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "True ScaleUpLimit")
		s := x.settle(t, d)
		equal(t, "ScaledToZero", reasonOf(s.Status.Conditions, ScaledToZero), "False NotScaledToZero")
		d = x.recommend(t, 331*time.Second)
		equal(t, "desired then", d.Desired, int32(8))
	})

	for _, tt := range []struct {
		name     string
		behavior *Behavior
		reason   string
	}{
		{"W36 from zero to a raised minimum without behavior has no reason", nil, ""},
		{"W36 and with behavior has one", defaultBehavior(), "Current number of replicas below Spec.MinReplicas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := fromZero(total(externalAverage(unit), 0, 0))
			in.Spec.MinReplicas, in.Spec.Behavior = 2, tt.behavior
			x := &target{in: in, history: *longKnown()}
			d := x.recommend(t, 0)
			equal(t, "desired", d.Desired, int32(2))
			s := x.settle(t, d)
			equal(t, "events", s.Events, []Event{{EventNormal, "SuccessfulRescale", "New size: 2; reason: " + tt.reason}})
			equal(t, "ScaledToZero", reasonOf(s.Status.Conditions, ScaledToZero), "False NotScaledToZero")
		})
	}

	t.Run("W37 without the option zero is disabled, whatever the minimum", func(t *testing.T) {
		in := fromZero(total(externalAverage(unit), 0, 9*unit))
		in.Options.ScaleToZero = false
		d, _ := Recommend(t0, in, nil)
		equal(t, "path", d.Path, PathScalingDisabled)
		equal(t, "desired", d.Desired, int32(0))
		equal(t, "conditions", d.Status.Conditions, []Condition{
			{AbleToScale, ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale", t0},
			{ScalingActive, ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero", t0},
		})
	})
}

// Windows and policies over time.
func TestWorkedExamplesOfTime(t *testing.T) {
	const s, window = time.Second, 300 * time.Second
	every := func(period time.Duration, wants int32, want ...int32) []step {
		steps := make([]step, len(want))
		for i := range want {
			steps[i] = step{at: time.Duration(i) * period, wants: wants, want: want[i]}
		}
		return steps
	}
	type row struct {
		name     string
		current  int32
		behavior *Behavior
		steps    []step
		change   func(*Input)
	}
	tenPercentOrFour := policies(ScalingPolicy{PodsPolicy, 4, 60}, ScalingPolicy{PercentPolicy, 10, 60})
	for _, tt := range []row{
		{
			name: "W38 without behavior a recommendation as old as the window counts", current: 10,
			steps: []step{{at: 0, wants: 10, want: 10}, {at: window, wants: 3, want: 10}, {at: window + 1, wants: 3, want: 3}},
		},
		{
			name: "W39 with behavior it counts no more", current: 10, behavior: defaultBehavior(),
			steps: []step{{at: 0, wants: 10, want: 10}, {at: window - 1, wants: 3, want: 10}, {at: window, wants: 3, want: 3}},
		},
		{
			name: "W40 the count at first sight holds for one window", current: 10,
			steps: []step{{at: 0, wants: 3, want: 10}, {at: window, wants: 3, want: 10}, {at: window + 1, wants: 3, want: 3}},
		},
		{
			name: "W40 with behavior to the nanosecond less", current: 10, behavior: defaultBehavior(),
			steps: []step{{at: 0, wants: 3, want: 10}, {at: window - 1, wants: 3, want: 10}, {at: window, wants: 3, want: 3}},
		},
		{
			name: "W41 without behavior an old recommendation scales up while the metric points down", current: 4,
			steps: []step{
				{at: 0, wants: 20, want: 8, limited: "ScaleUpLimit"},
				{at: 15 * s, wants: 5, want: 16, able: "ScaleDownStabilized", reason: "All metrics below target"},
			},
		},
		{
			name: "W42 with behavior it only holds", current: 4, behavior: defaultBehavior(),
			steps: []step{{at: 0, wants: 20, want: 8}, {at: 15 * s, wants: 5, want: 8, able: "ScaleDownStabilized"}},
		},
		{
			name: "W43 the upward window takes its lowest recommendation", current: 4,
			behavior: func() *Behavior {
				b := defaultBehavior()
				b.ScaleUp.StabilizationWindowSeconds = new(int32(60))
				return b
			}(),
			steps: []step{
				{at: 0, wants: 10, want: 4, able: "ScaleUpStabilized"},
				{at: 30 * s, wants: 8, want: 4, able: "ScaleUpStabilized"},
				{at: 60 * s, wants: 9, want: 8, able: "ScaleUpStabilized"},
				{at: 90 * s, wants: 20, want: 9, able: "ScaleUpStabilized"},
			},
		},
		{
			name: "W44 the policy that allows most change wins", current: 80, behavior: behavior(nil, tenPercentOrFour),
			steps: every(60*s, 10, 72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 10),
		},
		{
			name: "W44 asking more often does not go faster", current: 80, behavior: behavior(nil, tenPercentOrFour),
			steps: every(15*s, 10, 72, 72, 72, 72, 64, 64, 64, 64, 57, 57, 57, 57, 51),
		},
		{
			name: "W45 Min takes the policy that allows least", current: 80,
			behavior: func() *Behavior {
				b := behavior(nil, policies(ScalingPolicy{PercentPolicy, 10, 60}, ScalingPolicy{PodsPolicy, 5, 60}))
				b.ScaleDown.SelectPolicy = MinChange
				return b
			}(),
			steps: every(60*s, 10, 75, 70, 65, 60, 55, 50, 45, 40, 36),
		},
		{
			name: "W46 a change exactly as old as the period is out", current: 10,
			behavior: behavior(nil, policies(ScalingPolicy{PodsPolicy, 4, 60})),
			steps:    []step{{at: 0, wants: 1, want: 6}, {at: 60*s - 1, wants: 1, want: 6}, {at: 60 * s, wants: 1, want: 2}},
		},
		{
			name: "W47 changes of both directions make the period's start", current: 10,
			behavior: behavior(policies(ScalingPolicy{PodsPolicy, 4, 300}), policies(ScalingPolicy{PodsPolicy, 2, 300})),
			steps:    []step{{at: 0, wants: 14, want: 14}, {at: 30 * s, wants: 5, want: 8}, {at: 60 * s, wants: 20, want: 14}},
		},
		{
			name: "W48 the default policies, four or double", current: 1, behavior: defaultBehavior(),
			steps: every(15*s, 100, 5, 10, 20, 40, 80, 100),
		},
		{
			name: "W49 Disabled stops both ways, except to the bounds", current: 10,
			behavior: func() *Behavior {
				b := behavior(nil, nil)
				b.ScaleUp.SelectPolicy, b.ScaleDown.SelectPolicy = NoSelection, NoSelection
				return b
			}(),
			steps: []step{
				{at: 0, wants: 20, want: 10, limited: "ScaleUpLimit"},
				{at: 15 * s, wants: 2, want: 10, limited: "ScaleDownLimit"},
				{at: 30 * s, want: 8, change: func(in *Input) { in.Spec.MaxReplicas = 8 }},
				{at: 45 * s, want: 9, change: func(in *Input) { in.Spec.MinReplicas, in.Spec.MaxReplicas = 9, 100 }},
			},
		},
		{
			name: "W50 a maximum equal to twice the count is the maximum's limit", current: 4,
			change: func(in *Input) { in.Spec.MaxReplicas = 8 },
			steps:  []step{{at: 0, wants: 20, want: 8, limited: "TooManyReplicas"}},
		},
		{
			name: "W50 one above it is the rate's", current: 4,
			change: func(in *Input) { in.Spec.MaxReplicas = 9 },
			steps:  []step{{at: 0, wants: 20, want: 8, limited: "ScaleUpLimit"}},
		},
		{
			name: "W50 downwards a minimum equal to the rate's limit is the minimum's", current: 10,
			behavior: behavior(nil, policies(ScalingPolicy{PodsPolicy, 4, 60})),
			change:   func(in *Input) { in.Spec.MinReplicas = 6 },
			steps:    []step{{at: 0, wants: 1, want: 6, limited: "TooFewReplicas"}},
		},
		{
			name: "W50 one below it is the rate's", current: 10,
			behavior: behavior(nil, policies(ScalingPolicy{PodsPolicy, 4, 60})),
			change:   func(in *Input) { in.Spec.MinReplicas = 5 },
			steps:    []step{{at: 0, wants: 1, want: 6, limited: "ScaleDownLimit"}},
		},
		{
			name: "W52 ten percent of a hundred, rounded up, is eleven", current: 100,
			behavior: behavior(policies(ScalingPolicy{PercentPolicy, 10, 60}), nil),
			change:   func(in *Input) { in.Spec.MaxReplicas = 1000 },
			steps:    []step{{at: 0, wants: 200, want: 111, limited: "ScaleUpLimit"}},
		},
		{
			name: "W53 rate and bounds name their limits", current: 10,
			behavior: behavior(policies(ScalingPolicy{PodsPolicy, 1, 60}), policies(ScalingPolicy{PodsPolicy, 1, 60})),
			change:   func(in *Input) { in.Spec.MinReplicas, in.Spec.MaxReplicas = 8, 12 },
			steps: []step{
				{at: 0, wants: 30, want: 11, limited: "ScaleUpLimit"},
				{at: 60 * s, wants: 30, want: 12, limited: "TooManyReplicas"},
				{at: 120 * s, wants: 30, want: 12, limited: "TooManyReplicas"},
				{at: 180 * s, wants: 1, want: 11, limited: "ScaleDownLimit"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := wanting(tt.current)
			in.Spec.Behavior = tt.behavior
			if tt.change != nil {
				tt.change(in)
			}
			follow(t, in, tt.steps)
		})
	}

	t.Run("W41 once applied it is a success", func(t *testing.T) {
		x := follow(t, wanting(4), []step{{at: 0, wants: 20, want: 8}, {at: 15 * s, wants: 5, want: 16}})
		c := conditionByType(x.history.Status.Conditions, AbleToScale)
		equal(t, "AbleToScale", *c, Condition{AbleToScale, ConditionTrue, "SucceededRescale", "the HPA controller was able to update the target scale to 16", t0})
	})

	t.Run("W51 each direction has its tolerance", func(t *testing.T) {
		for reading, want := range map[int64]int32{10300: 11, 9300: 10} {
			in := total(externalAverage(unit), 10, reading)
			in.Spec.Behavior = behavior(nil, nil)
			in.Spec.Behavior.ScaleUp.Tolerance = new(0.02)
			if d := decide(in); d.Desired != want {
				t.Errorf("%d milli over 10: %d, want %d", reading, d.Desired, want)
			}
		}
	})
}
