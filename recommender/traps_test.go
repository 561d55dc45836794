package recommender

import (
	"math"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Traps: what an implementation from memory gets wrong.
func TestTraps(t *testing.T) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"observed replicas count for totals per replica, asked-for ones everywhere else", trapTwoCounts},
		{"rounding up has no epsilon", trapNoEpsilon},
		{"an empty behavior is not no behavior", trapEmptyBehavior},
		{"samples of unlisted pods count", trapUnlisted},
		{"zero stays zero unless the autoscaler made it, and percent cannot leave it", trapZero},
		{"what does not fit overflows silently", trapOverflow},
		{"target.type decides for Object metrics alone", trapTargetType},
		{"an object's average calls itself external, and its error is scrambled", trapObjectTexts},
	} {
		t.Run(tt.name, tt.test)
	}
}

func trapTwoCounts(t *testing.T) {
	surge := func(in *Input) { in.Scale.StatusReplicas = 5 }
	for name, tt := range map[string]struct {
		in   *Input
		want int32
	}{
		"External AverageValue within tolerance": {total(externalAverage(unit), 3, 5*unit), 5},
		"Object AverageValue within tolerance":   {total(objectAverage(unit), 3, 5*unit), 5},
		"External Value within tolerance":        {withReady(total(externalValue(unit), 3, unit)), 3},
		"cpu within tolerance":                   {workload(cpuUtilization(50), 3, 100, each(5, 50)), 3},
	} {
		surge(tt.in)
		equal(t, name, decide(tt.in).Explanation.Proposal, tt.want)
	}
}

func trapNoEpsilon(t *testing.T) {
	for _, tt := range []struct {
		usage         int64
		target        int32
		pods          int
		want, inExact int32
	}{
		{7, 3, 27, 64, 63},
		{7, 100, 100, 8, 7},
		{25, 3, 15, 126, 125},
	} {
		in := workload(cpuUtilization(tt.target), int32(tt.pods), 100, each(tt.pods, tt.usage))
		if got := decide(in).Explanation.Proposal; got != tt.want {
			t.Errorf("%d %% of %d with %d pods: %d, want %d (exact arithmetic has %d)", tt.usage, tt.target, tt.pods, got, tt.want, tt.inExact)
		}
	}
	limit := func(direction Direction, percent, current int32) int32 {
		d := decider{in: &Input{}, profile: &v136, current: current}
		return d.limitOf(direction, ScalingPolicy{PercentPolicy, percent, 60}).Limit
	}
	equal(t, "10 % up from 100", limit(Up, 10, 100), int32(111))
	equal(t, "10 % up from 50", limit(Up, 10, 50), int32(56))
	equal(t, "10 % up from 90", limit(Up, 10, 90), int32(100))
	equal(t, "10 % down from 72", limit(Down, 10, 72), int32(64))
	equal(t, "30 % down from 90", limit(Down, 30, 90), int32(62))
	equal(t, "1 % down from 9", limit(Down, 1, 9), int32(8))
	equal(t, "1 % up from 8", limit(Up, 1, 8), int32(9))
	equal(t, "150 % down from 10", limit(Down, 150, 10), int32(-5))
}

func trapEmptyBehavior(t *testing.T) {
	for name, tt := range map[string]struct {
		behavior *Behavior
		every    time.Duration
		want     []int32
	}{
		"none, every 15 s":       {nil, 15 * time.Second, []int32{4, 8, 16, 32, 64, 100}},
		"none, every 14 s":       {nil, 14 * time.Second, []int32{4, 8, 16, 32, 64, 100}},
		"defaulted, every 15 s":  {defaultBehavior(), 15 * time.Second, []int32{5, 10, 20, 40, 80, 100}},
		"defaulted, every 14 s":  {defaultBehavior(), 14 * time.Second, []int32{5, 5, 10, 10, 20}},
		"none, once each second": {nil, time.Second, []int32{4, 8, 16, 32, 64}},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanting(1)
			in.Spec.Behavior = tt.behavior
			var steps []step
			for i, want := range tt.want {
				steps = append(steps, step{at: time.Duration(i) * tt.every, wants: 100, want: want})
			}
			x := follow(t, in, steps)
			equal(t, "events are kept", len(x.history.ScaleUps) > 0, tt.behavior != nil)
		})
	}
}

func trapUnlisted(t *testing.T) {
	in := withGhost(workload(resourceAverage("cpu", 100), 2, 0, each(2, 200)))
	equal(t, "one pass", decide(in).Explanation.Proposal, int32(3))
	in.PodMetrics[2].Containers[0].Usage[0].Milli = 800 // 1200 over 3: four times the target of 2 pods
	equal(t, "one pass of a busy one", decide(in).Explanation.Proposal, int32(8))
	// 400 over 2 pods, the ghost and the missing pod: 100, on target.
	in = withGhost(workload(resourceAverage("cpu", 100), 3, 0, each(2, 200), missing(1)))
	d := decide(in)
	equal(t, "second pass", d.Explanation.Metrics[0].DampenedRatio, 1.0)
	equal(t, "unlisted", d.Explanation.Metrics[0].Unlisted, 1)
	// As utilization it is in neither sum, but in the number of samples that the
	// second ratio is multiplied with: 600/400 * 5.
	in = withGhost(workload(cpuUtilization(100), 4, 100, each(3, 200), missing(1)))
	equal(t, "second pass of a utilization", decide(in).Explanation.Proposal, int32(8))
}

func trapZero(t *testing.T) {
	zero := func(change func(*Input)) Decision {
		in := fromZero(total(externalAverage(unit), 0, 9*unit))
		change(in)
		return decide(in)
	}
	for name, tt := range map[string]struct {
		change   func(*Input)
		want     int32
		disabled bool
	}{
		"made by the autoscaler":               {func(*Input) {}, 4, false},
		"made by hand":                         {func(in *Input) { in.PreviousStatus.Conditions[0].Status = ConditionFalse }, 0, true},
		"never seen":                           {func(in *Input) { in.PreviousStatus = nil }, 0, true},
		"the option is off":                    {func(in *Input) { in.Options.ScaleToZero = false }, 0, true},
		"by hand, and the minimum raised":      {func(in *Input) { in.PreviousStatus, in.Spec.MinReplicas = nil, 2 }, 0, true},
		"no metric without pods any more":      {func(in *Input) { in.Spec.Metrics = []MetricSpec{cpuUtilization(50)} }, 0, true},
		"no such metric, the minimum raised":   {func(in *Input) { in.Spec.Metrics, in.Spec.MinReplicas = []MetricSpec{cpuUtilization(50)}, 2 }, 0, false},
		"percent only":                         {func(in *Input) { in.Spec.Behavior = behavior(policies(ScalingPolicy{PercentPolicy, 900, 15}), nil) }, 0, false},
		"percent only, but the minimum raised": {raisedWithPercentOnly, 2, false},
	} {
		d := zero(tt.change)
		equal(t, name, d.Desired, tt.want)
		equal(t, name+": disabled", d.Path == PathScalingDisabled, tt.disabled)
	}
	equal(t, "a reading of nearly nothing, no tolerance", zero(func(in *Input) {
		in.Spec.Metrics[0] = externalValue(10 * unit)
		read(in, 0, 10)
	}).Desired, int32(1))

	// 3 to 0 sixteen seconds ago, 100 % in 60 s: from the 3 at the period's start to 6.
	in := fromZero(total(externalAverage(unit), 0, 9*unit))
	in.Spec.Behavior = behavior(policies(ScalingPolicy{PercentPolicy, 100, 60}), nil)
	history := *longKnown()
	history.ScaleDowns = []ScaleEvent{{Change: 3, At: t0.Add(-16 * time.Second).UnixNano()}}
	d, _ := Recommend(t0, in, &history)
	equal(t, "percent only with a change in the period", d.Desired, int32(6))
}

func raisedWithPercentOnly(in *Input) {
	in.Spec.MinReplicas = 2
	in.Spec.Behavior = behavior(policies(ScalingPolicy{PercentPolicy, 900, 15}), nil)
}

func trapOverflow(t *testing.T) {
	milli, inRange, err := quantity.ParseMilli("10P")
	if milli != 0 || inRange || err != nil {
		t.Errorf("10P is %d milli, in range %t, %v; want 0", milli, inRange, err)
	}
	enormous := decide(workload(podsAverage(1), 2, 0, each(2, math.MaxInt64/4)))
	equal(t, "a ratio past every count saturates", enormous.Explanation.Proposal, int32(math.MaxInt32))
	equal(t, "the rule", enormous.Explanation.Metrics[0].Rule, Saturated)
	percent := decide(workload(cpuUtilization(50), 2, 1, each(2, 3e9)))
	equal(t, "percent keep their low 32 bits", percent.Status.CurrentMetrics[0].Current.AverageUtilization, int32(-647710720))
	equal(t, "and so the proposal", percent.Explanation.Metrics[0].Proposal, int32(-25908428))
	nothing := decide(workload(podsAverage(0), 2, 0, each(2, 0)))
	equal(t, "0 of 0", nothing.Explanation.Metrics[0].Proposal, int32(0))

	in := wanting(10)
	read(in, 0, 20*unit)
	in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, math.MaxInt32, 15}), nil)
	d := decide(in)
	equal(t, "a policy of the most pods wraps and lets none up", d.Desired, int32(10))
	equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "True ScaleUpLimit")
}

func trapTargetType(t *testing.T) {
	for name, in := range map[string]*Input{
		"Resource":          workload(cpuUtilization(50), 2, 100, each(2, 100)),
		"ContainerResource": workload(containerUtilization("app", 50), 2, 100, each(2, 100)),
		"Pods":              workload(podsAverage(50), 2, 0, each(2, 100)),
		"External":          total(externalAverage(unit), 2, 4*unit),
	} {
		for _, kind := range []string{UtilizationTarget, ValueTarget, AverageValueTarget, "", "Nonsense"} {
			in.Spec.Metrics[0].Target.Type = kind
			equal(t, name+" of type "+kind, decide(in).Explanation.Proposal, int32(4))
		}
	}

	both := withReady(total(objectValue(unit), 2, 4*unit))
	both.Spec.Metrics[0].Target.AverageValue = new(int64(2 * unit))
	both.Scale.StatusReplicas = 5
	for kind, want := range map[string]struct {
		proposal int32
		name     string
	}{
		ValueTarget:        {8, "Service metric rps"},
		AverageValueTarget: {2, "external metric rps(nil)"},
	} {
		both.Spec.Metrics[0].Target.Type = kind
		equal(t, "Object of type "+kind, decide(both).Explanation.Proposal, want.proposal)
		equal(t, "the name of type "+kind, both.Spec.Metrics[0].Name(), want.name)
	}
	both.Spec.Metrics[0].Target.Type = UtilizationTarget
	equal(t, "Object of type Utilization", decide(both).Path, PathMetricsFailed)
}

func trapObjectTexts(t *testing.T) {
	in := total(objectAverage(unit), 2, 9*unit)
	equal(t, "the reason", decide(in).Reason, "external metric rps(nil) above target")
	in.Spec.Metrics[0].Metric.Selector = &LabelSelector{MatchLabels: []Label{{"a", "b"}}}
	equal(t, "with a selector", decide(in).Reason,
		"external metric rps(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}) above target")
	in.Readings[0] = Readings{Error: "x"}
	equal(t, "the error's event", decide(in).Events[0].Message,
		"unable to get metric rps: Service on ns front/unable to fetch metrics from custom metrics API: x")
}
