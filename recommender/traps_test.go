package recommender

import (
	"math"
	"slices"
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
		{"1 observed replicas count for totals per replica, asked-for ones everywhere else", trapTwoCounts},
		{"2 tolerance includes both its bounds", trapToleranceBounds},
		{"3 percentages and averages truncate, proposals and totals per replica round up", trapRounding},
		{"4 rounding up has no epsilon", trapNoEpsilon},
		{"5 a window's edge is in without behavior and out with it, a period's is out", trapEdges},
		{"6 an empty behavior is not no behavior", trapEmptyBehavior},
		{"7 without behavior stabilization can scale up", trapStabilizationRaises},
		{"8 what is stored is unlimited and unstabilized, events only with behavior and success", trapWhatIsStored},
		{"9 events of both directions enter the start of a period", trapBothDirections},
		{"10 a move to a bound skips everything and empties the readings", trapForcedMoves},
		{"11 Pending is unready for all metrics, NotReady for cpu, Succeeded is not ignored", trapPodStates},
		{"12 every listed pod must have a request, ignored ones too", trapRequestsOfIgnored},
		{"13 a pod-level request of one resource changes the rule for another", trapPodLevel},
		{"14 a total in all is multiplied with running and ready pods, deleted ones too", trapReadyRunning},
		{"15 samples of unlisted pods count", trapUnlisted},
		{"16 a negative total goes to the maximum per replica and to the minimum in all", trapNegative},
		{"17 a failed metric blocks only what is strictly below the count", trapPartialFailure},
		{"18 a failure keeps the status' desired replicas", trapDesiredKept},
		{"19 the reason comes before the limits, and can be wrong or empty", trapReason},
		{"20 zero stays zero unless the autoscaler made it, and percent cannot leave it", trapZero},
		{"21 what does not fit overflows silently", trapOverflow},
		{"22 one slot is freed at a time, and a longer window finds old ones", trapSlots},
		{"23 target.type decides for Object metrics alone", trapTargetType},
		{"24 an object's average calls itself external, and its error is scrambled", trapObjectTexts},
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

func trapToleranceBounds(t *testing.T) {
	tolerances := Tolerances{ScaleUp: 0.1, ScaleDown: 0.1}
	if ratio := 1.1; !tolerances.within(ratio) || math.Abs(1-ratio) <= 0.1 {
		t.Errorf("1.1 is within 1-t <= r <= 1+t, though not within abs(1-r) <= t")
	}
	if !tolerances.within(0.9) {
		t.Error("0.9 is within")
	}
}

func trapRounding(t *testing.T) {
	percent := decide(workload(cpuUtilization(50), 10, 1000, each(10, 549)))
	equal(t, "54.9 %", percent.Status.CurrentMetrics[0].Current.AverageUtilization, int32(54))
	average := decide(workload(podsAverage(10*unit), 3, 0, usages(10*unit, 11*unit, 12001)))
	equal(t, "an average of 11000.33", average.Status.CurrentMetrics[0].Current.AverageValue, int64(11000))
	reported := decide(total(externalAverage(unit), 3, 10*unit))
	equal(t, "10 over 3", reported.Status.CurrentMetrics[0].Current.AverageValue, int64(3334))
	proposal := decide(workload(cpuUtilization(100), 3, 100, each(3, 112)))
	equal(t, "1.12 of 3 replicas", proposal.Explanation.Proposal, int32(4))
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

func trapEdges(t *testing.T) {
	const window = 300 * time.Second
	slots := []TimedRecommendation{{10, 0}}
	without := func(age time.Duration) int32 {
		return stabilizeWithoutBehavior(int64(age), &History{Recommendations: slots}, window, 3).Stabilized
	}
	with := func(age time.Duration) int32 {
		return stabilizeWithBehavior(int64(age), &History{Recommendations: slots}, 0, window, 10, 3).Stabilized
	}
	equal(t, "without behavior at the edge", without(window), int32(10))
	equal(t, "without behavior past it", without(window+1), int32(3))
	equal(t, "with behavior before the edge", with(window-1), int32(10))
	equal(t, "with behavior at the edge", with(window), int32(3))
	equal(t, "the slot at the edge is not reused without behavior", stabilizeWithoutBehavior(int64(window), &History{Recommendations: slots}, window, 3).slot, -1)
	equal(t, "nor with it", stabilizeWithBehavior(int64(window), &History{Recommendations: slots}, 0, window, 10, 3).slot, -1)
	equal(t, "past it it is", stabilizeWithBehavior(int64(window)+1, &History{Recommendations: slots}, 0, window, 10, 3).slot, 0)
	var released int64
	events := []ScaleEvent{{Change: 4, At: 0}}
	equal(t, "a change just younger than the period", changeWithin(events, -1, 60, &released), int32(4))
	equal(t, "a change as old as the period", changeWithin(events, 0, 60, &released), int32(0))
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

func trapStabilizationRaises(t *testing.T) {
	ago := History{Initialized: true, Recommendations: []TimedRecommendation{{20, t0.Add(-15 * time.Second).UnixNano()}}}
	in := wanting(8)
	read(in, 0, 5*unit)
	d, _ := Recommend(t0, in, &ago)
	equal(t, "without behavior: wanting 5 of 8, once wanting 20", d.Desired, int32(16))
	equal(t, "its reason", d.Reason, "All metrics below target")
	in.Spec.Behavior = defaultBehavior()
	d, _ = Recommend(t0, in, &ago)
	equal(t, "with behavior", d.Desired, int32(8))
}

func trapWhatIsStored(t *testing.T) {
	in := wanting(4)
	read(in, 0, 50*unit)
	in.Spec.MaxReplicas = 6
	x := &target{in: in}
	d := x.recommend(t, 0)
	equal(t, "desired", d.Desired, int32(6))
	equal(t, "stored", x.history.Recommendations, []TimedRecommendation{{4, t0.UnixNano()}, {50, t0.UnixNano()}})
	x.settle(t, d)
	equal(t, "events without behavior", len(x.history.ScaleUps), 0)

	in.Spec.MaxReplicas, in.Spec.Behavior = 7, defaultBehavior()
	d = x.recommend(t, 15*time.Second)
	_, failed, err := Settle(x.history, "ns", d.ID, Failed, "conflict")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "events of a change that failed", len(failed.ScaleUps), 0)
	equal(t, "recommendations of a change that failed", len(failed.Recommendations), 3)
	x.settle(t, d)
	equal(t, "events with behavior", x.history.ScaleUps, []ScaleEvent{{Change: 1, At: t0.Add(15 * time.Second).UnixNano()}})
}

func trapBothDirections(t *testing.T) {
	in := wanting(10)
	in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 4, 300}), policies(ScalingPolicy{PodsPolicy, 2, 300}))
	in.Explain = true
	x := follow(t, in, []step{{at: 0, wants: 14, want: 14}, {at: 30 * time.Second, wants: 5, want: 8}})
	read(in, 0, 20*unit)
	d := x.recommend(t, time.Minute)
	equal(t, "the policy", d.Explanation.RateLimit.Policies, []PolicyLimit{{
		Policy: ScalingPolicy{PodsPolicy, 4, 300}, Up: 4, Down: 6, Start: 10, Limit: 14,
		ReleasedAt: t0.Add(300 * time.Second).UnixNano(), Selected: true,
	}})
}

func trapForcedMoves(t *testing.T) {
	forced := func(change func(*Input)) Decision {
		in := wanting(10)
		in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 1, 1800}), policies(ScalingPolicy{PodsPolicy, 1, 1800}))
		in.Spec.Behavior.ScaleUp.SelectPolicy, in.Spec.Behavior.ScaleDown.SelectPolicy = NoSelection, NoSelection
		in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(3600))
		in.PreviousStatus = &Status{
			CurrentMetrics: []MetricStatus{{Type: ExternalMetric}},
			Conditions:     []Condition{{Type: ScalingLimited, Status: ConditionFalse, Reason: "DesiredWithinRange"}},
		}
		in.Readings[0].Error = "not even asked"
		change(in)
		d, next := Recommend(t0, in, nil)
		equal(t, "readings", len(d.Status.CurrentMetrics), 0)
		equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "False DesiredWithinRange")
		equal(t, "recommendations", next.Recommendations, []TimedRecommendation{{10, t0.UnixNano()}})
		equal(t, "the change records an event", next.Pending.RecordsEvent, true)
		return d
	}
	equal(t, "to the maximum", forced(func(in *Input) { in.Spec.MaxReplicas = 3 }).Desired, int32(3))
	equal(t, "to the minimum", forced(func(in *Input) { in.Spec.MinReplicas = 50 }).Desired, int32(50))
}

func trapPodStates(t *testing.T) {
	counts := func(metric MetricSpec, pods []testPod) PodCounts {
		return decide(workload(metric, 3, 100, each(2, 100), pods)).Explanation.Metrics[0].Counts
	}
	cpu, memory, custom := cpuUtilization(50), resourceAverage("memory", 100), podsAverage(100)
	pendingWithSample := with(each(1, 100), func(p *Pod) { p.Phase = PhasePending })
	neverReady := with(each(1, 100), func(p *Pod) { p.Ready, p.ReadyTransition = ReadyFalse, p.StartTime.Add(time.Second) })
	succeeded := with(missing(1), func(p *Pod) { p.Phase = PhaseOther })
	for _, metric := range []MetricSpec{cpu, memory, custom} {
		equal(t, metric.Name()+" of a pending pod", counts(metric, pendingWithSample), PodCounts{Ready: 2, Unready: 1})
		equal(t, metric.Name()+" of a pod that succeeded", counts(metric, succeeded), PodCounts{Ready: 2, Missing: 1})
	}
	equal(t, "cpu of a pod never ready", counts(cpu, neverReady), PodCounts{Ready: 2, Unready: 1})
	equal(t, "memory of a pod never ready", counts(memory, neverReady), PodCounts{Ready: 3})
	equal(t, "a pods metric of a pod never ready", counts(custom, neverReady), PodCounts{Ready: 3})
}

func trapRequestsOfIgnored(t *testing.T) {
	in := workload(cpuUtilization(50), 2, 100, each(2, 100), with(each(1, 100), func(p *Pod) { p.Phase = PhaseFailed }))
	in.Pods[2].Containers[0].Requests = nil
	d := decide(in)
	equal(t, "path", d.Path, PathMetricsFailed)
	equal(t, "the error's event", d.Events[0].Message, "failed to get cpu utilization: missing request for cpu in container app of Pod web-2")
	in.Spec.Metrics = []MetricSpec{resourceAverage("cpu", 100)}
	equal(t, "path of an average, which needs none", decide(in).Path, PathMetrics)
}

func trapPodLevel(t *testing.T) {
	pod := Pod{
		Name:           "web-0",
		Containers:     []Container{{"app", []ResourceRequest{{"cpu", milliQuantity(100)}}}, {"log", nil}},
		InitContainers: []InitContainer{{Container{"init", []ResourceRequest{{"cpu", milliQuantity(4000)}}}, false}},
		Overhead:       []ResourceRequest{{"cpu", milliQuantity(100)}},
	}
	_, problem := podRequest(&pod, "", "cpu")
	equal(t, "without", problem, "missing request for cpu in container log of Pod web-0")
	pod.PodLevelRequests = []ResourceRequest{{"memory", milliQuantity(mebi)}}
	milli, problem := podRequest(&pod, "", "cpu")
	equal(t, "with one of memory", milli, int64(4100))
	equal(t, "with one of memory", problem, "")
}

func trapReadyRunning(t *testing.T) {
	pods := [][]testPod{
		each(2, 0),
		with(each(1, 0), func(p *Pod) { p.Deleting = true }),
		with(each(1, 0), func(p *Pod) { p.Ready = ReadyFalse }),
		with(each(1, 0), func(p *Pod) { p.Ready = ReadyUnknown }),
		with(each(1, 0), func(p *Pod) { p.Ready = NoCondition }),
		with(each(1, 0), func(p *Pod) { p.Phase = PhasePending }),
		with(each(1, 0), func(p *Pod) { p.Phase = PhaseOther }),
		// Started just now: startup rules play no part.
		with(each(1, 0), func(p *Pod) { p.StartTime, p.ReadyTransition = t0, t0 }),
	}
	equal(t, "twice the target, four running and ready", decide(objectOverPods(20*unit, pods...)).Explanation.Proposal, int32(8))
	none := decide(objectOverPods(20*unit, pods[3]))
	equal(t, "none running and ready", none.Desired, int32(1))
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

func trapNegative(t *testing.T) {
	equal(t, "External AverageValue", decide(total(externalAverage(10*unit), 4, 5*unit, -6*unit, 900*unit)).Explanation.Proposal, int32(math.MaxInt32))
	value := decide(withReady(total(externalValue(10*unit), 4, 5*unit, -600*unit)))
	equal(t, "External Value", value.Desired, int32(1))
	_, next := Recommend(t0, withReady(total(externalValue(10*unit), 4, -600*unit)), longKnown())
	equal(t, "what is stored is not below zero", next.Recommendations, []TimedRecommendation{{0, t0.UnixNano()}})
	equal(t, "its sum", value.Status.CurrentMetrics[0].Current.Value, int64(-595*unit))
	equal(t, "sum past the largest", sumForValue([]Value{{Milli: math.MaxInt64}, {Milli: 1}, {Milli: -5}}, false), int64(math.MaxInt64))
	equal(t, "a running sum below zero", sumForAverageValue([]Value{{Milli: 1}, {Milli: -2}, {Milli: 5}}, false), int64(math.MaxInt64))
}

func trapPartialFailure(t *testing.T) {
	for wants, want := range map[int64]Path{4: PathMetricsFailed, 5: PathMetrics, 6: PathMetrics} {
		in := wanting(5)
		in.Scale.StatusReplicas = 1 // plays no part
		in.Spec.Metrics = append(in.Spec.Metrics, podsAverage(unit))
		read(in, 0, wants*unit)
		d := decide(in)
		if d.Path != want || d.Desired < 5 || d.Error == "" {
			t.Errorf("5 replicas wanting %d with one metric failed: path %d, %d replicas, error %q", wants, d.Path, d.Desired, d.Error)
		}
	}
}

func trapDesiredKept(t *testing.T) {
	in := wanting(5)
	in.PreviousStatus = &Status{CurrentReplicas: 4, DesiredReplicas: 9}
	in.Readings[0].Error = "down"
	d := decide(in)
	equal(t, "the status", [2]int32{d.Status.CurrentReplicas, d.Status.DesiredReplicas}, [2]int32{5, 9})
	equal(t, "the decision", [2]int32{d.Current, d.Desired}, [2]int32{5, 5})
}

func trapReason(t *testing.T) {
	follow(t, wanting(4), []step{
		{at: 0, wants: 20, want: 8, reason: "external metric queue(nil) above target"},
		{at: 15 * time.Second, wants: 5, want: 16, reason: "All metrics below target"},
	})
	empty := wanting(8)
	ago := History{Initialized: true, Recommendations: []TimedRecommendation{{20, t0.UnixNano()}}}
	d, _ := Recommend(t0, empty, &ago)
	equal(t, "wanting the same, once wanting 20", d.Desired, int32(16))
	equal(t, "its reason", d.Reason, "")
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

func trapSlots(t *testing.T) {
	in := wanting(50)
	var steps []step
	for i := range 10 {
		steps = append(steps, step{at: time.Duration(i) * 15 * time.Second, wants: 50, want: 50})
	}
	steps = append(steps, step{at: 150 * time.Second, wants: 10, want: 10, change: func(in *Input) { in.Options.DownscaleStabilization = 0 }})
	x := follow(t, in, steps)
	var replicas []int32
	for _, r := range x.history.Recommendations {
		replicas = append(replicas, r.Replicas)
	}
	equal(t, "one slot is reused", replicas, append(slices.Repeat([]int32{50}, 10), 10))
	in.Options.DownscaleStabilization = time.Hour
	read(in, 0, 10*unit)
	equal(t, "a longer window finds the others", x.recommend(t, 165*time.Second).Desired, int32(20))
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
