package recommender

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// controllers are the profiles that stand for a version of the controller.
var controllers = []*Profile{&v136, &v137, &v128, &v119, &v115, &cooldown}

// The profiles that share a property.
var (
	upTo128 = []*Profile{&cooldown, &v115, &v119, &v128}
	upTo119 = upTo128[:3]
	upTo115 = upTo128[:2]
	only119 = []*Profile{&v119}
)

// outcome is one profile's result for a case.
type outcome func(t *testing.T, p *Profile) any

// instead is what the profiles named come to, and not what v1.36 does.
type instead struct {
	profiles []*Profile
	want     any
}

// comparedWith136 is one difference: the result of v1.36, and the profiles with other
// results. All other profiles have v1.36's result, so that a superfluous switch fails
// like a missing one.
type comparedWith136 struct {
	name    string
	outcome outcome
	want    any
	others  []instead
}

func (c *comparedWith136) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		for _, p := range controllers {
			want := c.want
			for _, o := range c.others {
				if slices.Contains(o.profiles, p) {
					want = o.want
				}
			}
			equal(t, p.Name(), c.outcome(t, p), want)
		}
	})
}

func others(profiles []*Profile, want any) []instead { return []instead{{profiles, want}} }

// by decides as a profile does.
func by(p *Profile, in *Input) Decision {
	in = clone(in)
	in.Options.Profile = p
	return decide(in)
}

// proposal is what the metrics of an input ask for, or why they fail.
func proposal(in *Input) outcome {
	return func(_ *testing.T, p *Profile) any {
		d := by(p, in)
		if d.Path != PathMetrics {
			return d.Explanation.Metrics[0].Failure.Inner
		}
		return d.Explanation.Proposal
	}
}

// desired is the count that an input comes to.
func desired(in *Input) outcome {
	return func(_ *testing.T, p *Profile) any { return by(p, in).Desired }
}

// reading is the first metric's in the status.
func reading(in *Input) outcome {
	return func(_ *testing.T, p *Profile) any { return by(p, in).Status.CurrentMetrics[0].Current }
}

// failure is the first metric's.
func failure(in *Input) outcome {
	return func(t *testing.T, p *Profile) any {
		e := by(p, in).Explanation.Metrics[0]
		if e.Failure == nil {
			t.Fatalf("%s: it does not fail but proposes %d", p.Name(), e.Proposal)
		}
		return *e.Failure
	}
}

// message is that of a condition.
func message(in *Input, kind string) outcome {
	return func(_ *testing.T, p *Profile) any { return conditionByType(by(p, in).Status.Conditions, kind).Message }
}

// deleted makes pods such as are being deleted.
func deleted(pods []testPod) []testPod {
	return with(pods, func(p *Pod) { p.Deleting = true })
}

// unready makes pods whose cpu samples count for no version: without a Ready condition.
func unready(pods []testPod) []testPod {
	return with(pods, func(p *Pod) { p.Ready = NoCondition })
}

func TestProfilesOfPods(t *testing.T) {
	pendingWithSample := func(milli int64) []testPod {
		return with(each(1, milli), func(p *Pod) { p.Phase = PhasePending })
	}
	failed := func(pods []testPod) []testPod { return with(pods, func(p *Pod) { p.Phase = PhaseFailed }) }
	counts := func(in *Input) outcome {
		return func(_ *testing.T, p *Profile) any { return by(p, in).Explanation.Metrics[0].Counts }
	}
	withSidecar := func(in *Input) *Input {
		for i := range in.Pods {
			in.Pods[i].InitContainers = []InitContainer{{Container{"side", in.Pods[i].Containers[0].Requests}, true}}
		}
		return in
	}
	withPodLevel := func(in *Input) *Input {
		for i := range in.Pods {
			in.Pods[i].PodLevelRequests = []ResourceRequest{{"cpu", milliQuantity(400)}}
		}
		return in
	}
	percent := func(in *Input) outcome {
		return func(_ *testing.T, p *Profile) any {
			return by(p, in).Status.CurrentMetrics[0].Current.AverageUtilization
		}
	}
	for _, c := range []comparedWith136{
		{
			name:    "pendingPodsCount: a pending pod with a sample counts",
			outcome: proposal(workload(podsAverage(100), 3, 0, each(2, 100), pendingWithSample(400))), // 600 over 3 pods
			want:    int32(3), others: others(upTo115, int32(6)),
		},
		{
			name:    "pendingPodsCount: without one it is missing",
			outcome: counts(workload(cpuUtilization(100), 3, 100, each(2, 50), pending(1))),
			want:    PodCounts{Ready: 2, Unready: 1}, others: others(upTo115, PodCounts{Ready: 2, Missing: 1}),
		},
		{
			name:    "pendingPodsCount: and fills in on a way down",
			outcome: proposal(workload(cpuUtilization(100), 3, 100, each(2, 50), pending(1))), // 66 % of 3, not 50 % of 2
			want:    int32(1), others: others(upTo115, int32(2)),
		},
		{
			name:    "ignoredPodsCount: the sample of a pod being deleted is in the average, the pod not in the count",
			outcome: proposal(workload(podsAverage(100), 2, 0, each(2, 100), deleted(each(1, 400)))),
			want:    int32(2), others: others(upTo119, int32(4)),
		},
		{
			name:    "ignoredPodsCount: that of a failed pod too",
			outcome: proposal(workload(resourceAverage("cpu", 100), 2, 100, each(2, 100), failed(each(1, 400)))),
			want:    int32(2), others: others(upTo119, int32(4)),
		},
		{
			name:    "ignoredPodsCount: in a utilization with its request",
			outcome: percent(workload(cpuUtilization(100), 2, 100, each(2, 100), deleted(each(1, 400)))),
			want:    int32(100), others: others(upTo119, int32(200)),
		},
		{
			name:    "ignoredPodsCount: filled in it is in the base", // 600/400 of 4, not 400/300 of 3
			outcome: proposal(workload(cpuUtilization(100), 3, 100, each(2, 200), missing(1), deleted(each(1, 200)))),
			want:    int32(4), others: others(upTo119, int32(6)),
		},
		{
			name:    "ignoredPodsCount: alone it is measured",
			outcome: proposal(workload(podsAverage(100), 2, 0, deleted(each(2, 400)))),
			want:    "did not receive metrics for targeted pods (pods might be unready)",
			others:  others(upTo119, int32(0)), // four times no ready pod
		},
		{
			name:    "ignoredPodsCount: without a sample it is nothing",
			outcome: proposal(workload(podsAverage(100), 2, 0, each(2, 200), deleted(missing(1)), pendingWithSample(200))),
			want:    int32(4), others: others(upTo115, int32(6)), // where the pending pod counts
		},
		{
			name:    "containersOnly: a sidecar's request is none",
			outcome: percent(withSidecar(workload(cpuUtilization(50), 2, 100, each(2, 100)))),
			want:    int32(50), others: others(upTo128, int32(100)),
		},
		{
			name:    "containersOnly: nor is one at the pod's level",
			outcome: percent(withPodLevel(workload(cpuUtilization(50), 2, 100, each(2, 100)))),
			want:    int32(25), others: others(upTo128, int32(100)),
		},
		{
			name: "containersOnly: all containers' requests add up",
			outcome: percent(changed(workload(cpuUtilization(50), 2, 100, each(2, 100)), func(in *Input) {
				for i := range in.Pods {
					request := in.Pods[i].Containers[0].Requests
					in.Pods[i].Containers = append(in.Pods[i].Containers, Container{"log", request})
					in.Pods[i].InitContainers = []InitContainer{{Container{"side", request}, true}}
				}
			})),
			want: int32(33), others: others(upTo128, int32(50)),
		},
		{
			name: "containersOnly: a container that a pod lacks requests nothing",
			outcome: proposal(changed(workload(containerUtilization("app", 50), 2, 100, each(2, 50)), func(in *Input) {
				in.Pods[1].Containers[0].Name = "other"
			})), // 100 over 100
			want: "failed to get cpu utilization: container app not found in Pod web-1",
			others: []instead{
				{[]*Profile{&v128}, int32(4)},
				{upTo119, `unknown metric source type "ContainerResource"`},
			},
		},
		{
			name: "requestsFirst: where neither is there the request is missed",
			outcome: func(t *testing.T, p *Profile) any {
				in := workload(cpuUtilization(50), 2, 100, unready(each(2, 100)))
				in.Pods[1].Containers[0].Requests = nil
				return strings.Contains(failure(in)(t, p).(MetricFailure).Inner, "missing request")
			},
			want: false, others: others(upTo119, true),
		},
		{
			name: "strictContainers: one sample without the container fails the metric",
			outcome: proposal(changed(workload(containerUtilization("app", 100), 3, 100, each(3, 50)), func(in *Input) {
				in.PodMetrics[1].Containers[0].Name = "other"
			})), // 66 % of 3
			want: int32(2),
			others: []instead{
				{[]*Profile{&v128}, "failed to get cpu utilization: unable to get metrics for resource cpu: " +
					"failed to get container metrics: container app not present in metrics for pod ns/web-1"},
				{upTo119, `unknown metric source type "ContainerResource"`},
			},
		},
		{
			name: "strictContainers: also that of a pod that is not listed",
			outcome: proposal(changed(workload(containerUtilization("app", 100), 3, 100, each(3, 50)), func(in *Input) {
				in.PodMetrics = append(in.PodMetrics, podMetrics("ghost", "cpu", 0))
				in.PodMetrics[3].Containers[0].Name = "other"
			})),
			want: int32(2),
			others: []instead{
				{[]*Profile{&v128}, "failed to get cpu utilization: unable to get metrics for resource cpu: " +
					"failed to get container metrics: container app not present in metrics for pod ns/ghost"},
				{upTo119, `unknown metric source type "ContainerResource"`},
			},
		},
		{
			name: "strictContainers: a container without the resource is missing for all",
			outcome: proposal(changed(workload(containerUtilization("app", 100), 3, 100, each(3, 50)), func(in *Input) {
				in.PodMetrics[1].Containers[0].Usage[0].Resource = "memory"
			})),
			want: int32(2), others: others(upTo119, `unknown metric source type "ContainerResource"`),
		},
		{
			name:    "noContainerResource: the type is not known",
			outcome: failure(changed(workload(containerUtilization("app", 50), 2, 100, each(2, 50)), func(in *Input) { in.Readings[0].Error = "x" })),
			want: MetricFailure{
				Reason: "FailedGetContainerResourceMetric",
				Inner:  "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: x",
				Outer:  "failed to get app container metric value: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: x",
			},
			others: others(upTo119, MetricFailure{
				Reason: "InvalidMetricSourceType",
				Inner:  `unknown metric source type "ContainerResource"`, Outer: `unknown metric source type "ContainerResource"`,
			}),
		},
	} {
		c.run(t)
	}
}

func TestProfilesOfProposals(t *testing.T) {
	noPods := func(in *Input) *Input { return changed(in, func(in *Input) { in.Pods = nil }) }
	const noReadyPods = "unable to calculate ready pods: no pods returned by selector while calculating replica count"
	ownTolerances := func(in *Input) {
		in.Spec.Behavior = behavior(nil, nil)
		in.Spec.Behavior.ScaleUp.Tolerance, in.Spec.Behavior.ScaleDown.Tolerance = new(0.5), new(0.5)
	}
	for _, c := range []comparedWith136{
		{
			name:    "toleranceByDistance: 1.1 is out of it",
			outcome: proposal(workload(cpuUtilization(50), 10, 100, each(10, 55))),
			want:    int32(10), others: others(upTo128, int32(11)),
		},
		{
			name:    "toleranceByDistance: so it is as a dampened ratio", // 440 over 400
			outcome: proposal(workload(cpuUtilization(100), 4, 100, usages(150, 150, 140), missing(1))),
			want:    int32(4), others: others(upTo128, int32(5)),
		},
		{
			name:    "toleranceByDistance: for a total",
			outcome: proposal(withReady(total(externalValue(10*unit), 10, 11*unit))),
			want:    int32(10), others: others(upTo128, int32(11)),
		},
		{
			name:    "toleranceByDistance: for a total per replica",
			outcome: proposal(total(objectAverage(10*unit), 10, 110*unit)),
			want:    int32(10), others: others(upTo128, int32(11)),
		},
		{
			name:    "toleranceByDistance: behavior has none of its own upwards",
			outcome: proposal(changed(workload(cpuUtilization(50), 10, 100, each(10, 65)), ownTolerances)),
			want:    int32(10), others: others(upTo128, int32(13)),
		},
		{
			name:    "toleranceByDistance: nor downwards",
			outcome: proposal(changed(workload(cpuUtilization(50), 10, 100, each(10, 35)), ownTolerances)),
			want:    int32(10), others: others(upTo128, int32(7)),
		},
		{
			name:    "missingAtRequest: a missing pod uses its request, and not a target above that",
			outcome: proposal(workload(cpuUtilization(150), 4, 100, each(3, 60), missing(1))), // 330 and 280 over 400
			want:    int32(3), others: others(upTo119, int32(2)),
		},
		{
			name:    "missingOnTarget: averages on target fill in nothing used",
			outcome: proposal(workload(podsAverage(100), 4, 0, each(3, 100), missing(1))),
			want:    int32(4), others: others(upTo119, int32(3)),
		},
		{
			name:    "missingOnTarget: of a resource too",
			outcome: proposal(workload(resourceAverage("cpu", 100), 4, 100, each(3, 100), missing(1))),
			want:    int32(4), others: others(upTo119, int32(3)),
		},
		{
			name:    "guard: a utilization above target does not scale down",
			outcome: proposal(workload(cpuUtilization(100), 10, 100, each(3, 200), missing(1))), // 150 % of 4
			want:    int32(10), others: others(upTo115, int32(6)),
		},
		{
			name:    "guard: nor does one below it scale up",
			outcome: proposal(workload(cpuUtilization(100), 2, 100, each(4, 50), missing(1))), // 60 % of 5
			want:    int32(2), others: others(upTo115, int32(3)),
		},
		{
			name:    "guard: nor does an average",
			outcome: proposal(workload(podsAverage(100), 10, 0, each(3, 200), missing(1))),
			want:    int32(10), others: others(upTo119, int32(6)),
		},
		{
			name:    "guard: nor the other way",
			outcome: proposal(workload(resourceAverage("cpu", 100), 2, 100, each(4, 50), missing(1))),
			want:    int32(2), others: others(upTo119, int32(3)),
		},
		{
			name:    "uncappedSums: a negative series is taken for what it is",
			outcome: proposal(total(externalAverage(10*unit), 4, 5*unit, -6*unit, 70*unit)),
			want:    int32(math.MaxInt32), others: others(upTo128, int32(7)),
		},
		{
			name:    "uncappedSums: a sum in all wraps",
			outcome: reading(withReady(total(externalValue(10*unit), 4, math.MaxInt64, 1))),
			want:    MetricValue{Value: math.MaxInt64, HasValue: true},
			others:  others(upTo128, MetricValue{Value: math.MinInt64, HasValue: true}),
		},
		{
			name:    "uncappedSums: and then asks for nothing",
			outcome: proposal(withReady(total(externalValue(10*unit), 4, math.MaxInt64, 1))),
			want:    int32(math.MaxInt32), others: others(upTo128, int32(0)),
		},
		{
			name:    "uncappedSums: the largest sum is divided for the status",
			outcome: reading(total(externalAverage(10*unit), 4, math.MaxInt64)),
			want:    MetricValue{AverageValue: math.MaxInt64, HasAverageValue: true},
			others: []instead{
				{[]*Profile{&v128}, MetricValue{AverageValue: 1 << 61, HasAverageValue: true}},
				{upTo119, MetricValue{AverageValue: 1 << 61, HasAverageValue: true, HasValue: true}},
			},
		},
		{
			name:    "toleranceByDistance: what is no number is at no distance", // 0 divided by 0
			outcome: proposal(total(externalAverage(0), 4, 0)),
			want:    int32(0), others: others(upTo128, int32(4)),
		},
		{
			name:    "podsBeforeTolerance: an external total on target needs pods",
			outcome: proposal(noPods(total(externalValue(10*unit), 4, 10*unit))),
			want:    int32(4), others: others(upTo115, noReadyPods),
		},
	} {
		c.run(t)
	}

	// What no version changed, beside what one did.
	for _, p := range controllers {
		for _, same := range []struct {
			name string
			in   *Input
			want any
		}{
			{"a ratio of 0.9", workload(cpuUtilization(50), 10, 100, each(10, 45)), int32(10)},
			{"a utilization on target with a missing pod", workload(cpuUtilization(100), 4, 100, each(3, 100), missing(1)), int32(4)},
			{"a missing pod below a target of less than its request", workload(cpuUtilization(50), 4, 100, each(3, 5), missing(1)), int32(3)},
			{"a missing pod above target", workload(cpuUtilization(100), 4, 100, each(3, 200), missing(1)), int32(6)},
			{"an object's total on target without pods", noPods(total(objectValue(10*unit), 4, 10*unit)), int32(4)},
			{"an external total off target without pods", noPods(total(externalValue(10*unit), 4, 20*unit)), noReadyPods},
		} {
			equal(t, p.Name()+": "+same.name, proposal(same.in)(t, p), same.want)
		}
	}
}

// known is the history of a target with earlier recommendations: the replicas by how
// long ago.
func known(before map[time.Duration]int32) *History {
	h := longKnown()
	for ago, replicas := range before {
		h.Recommendations = append(h.Recommendations, TimedRecommendation{replicas, t0.Add(-ago).UnixNano()})
	}
	return h
}

// after decides as a profile does with a history.
func after(h *History, p *Profile, in *Input) (Decision, History) {
	in = clone(in)
	in.Options.Profile = p
	return Recommend(t0, in, h)
}

// count is the count that an input with a history comes to, and the reason of a condition.
type count struct {
	replicas int32
	reason   string
}

func countAfter(h *History, in *Input, kind string) outcome {
	return func(_ *testing.T, p *Profile) any {
		d, _ := after(h, p, in)
		return count{d.Desired, reasonOf(d.Status.Conditions, kind)}
	}
}

func TestProfilesOfCounts(t *testing.T) {
	windows := func(up, down int32) *Behavior {
		b := defaultBehavior()
		b.ScaleUp.StabilizationWindowSeconds, b.ScaleDown.StabilizationWindowSeconds = &up, &down
		return b
	}
	leastOf := func(p ...ScalingPolicy) *Behavior {
		b := behavior(p, p)
		b.ScaleUp.SelectPolicy, b.ScaleDown.SelectPolicy = MinChange, MinChange
		return b
	}
	scaled := func(ups, downs int32) *History {
		h := longKnown()
		at := t0.Add(-30 * time.Second).UnixNano()
		if ups > 0 {
			h.ScaleUps = []ScaleEvent{{Change: ups, At: at}}
		}
		if downs > 0 {
			h.ScaleDowns = []ScaleEvent{{Change: downs, At: at}}
		}
		return h
	}
	behaving := func(in *Input, b *Behavior) *Input {
		in.Spec.Behavior = b
		return in
	}
	const (
		ready   = "True ReadyForNewScale"
		inRange = "False DesiredWithinRange"
		up      = "True ScaleUpLimit"
		down    = "True ScaleDownLimit"
	)
	for _, c := range []comparedWith136{
		{
			name:    "noBehavior: its policies are not known",
			outcome: countAfter(longKnown(), behaving(wants(4, 20), behavior(policies(ScalingPolicy{PodsPolicy, 1, 60}), nil)), ScalingLimited),
			want:    count{5, up}, others: others(upTo115, count{8, up}),
		},
		{
			name:    "noBehavior: nor its windows",
			outcome: countAfter(known(map[time.Duration]int32{time.Minute: 8}), behaving(wants(8, 5), windows(0, 0)), AbleToScale),
			want:    count{5, ready},
			others:  []instead{{[]*Profile{&v115}, count{8, "True ScaleDownStabilized"}}},
		},
		{
			name: "noBehavior: nor is a change an event",
			outcome: func(t *testing.T, p *Profile) any {
				d, next := after(longKnown(), p, behaving(wants(4, 5), defaultBehavior()))
				_, next = mustSettle(t, next, "ns", d.ID, Applied, "")
				return len(next.ScaleUps)
			},
			want: 1, others: others(upTo115, 0),
		},
		{
			name:    "oneSidedWindows: on a way down the count follows what is higher, beyond itself",
			outcome: countAfter(known(map[time.Duration]int32{time.Minute: 3}), behaving(wants(2, 1), windows(300, 300)), AbleToScale),
			want:    count{2, "True ScaleDownStabilized"},
			others: []instead{
				{[]*Profile{&v119, &v115}, count{3, "True ScaleDownStabilized"}},
				{[]*Profile{&cooldown}, count{1, ready}},
			},
		},
		{
			name:    "oneSidedWindows: on a way up what is lower, below itself",
			outcome: countAfter(known(map[time.Duration]int32{time.Minute: 3}), behaving(wants(5, 8), windows(300, 0)), AbleToScale),
			want:    count{5, "True ScaleUpStabilized"},
			others: []instead{
				{only119, count{3, "True ScaleUpStabilized"}},
				{upTo115, count{8, ready}},
			},
		},
		{
			name:    "oneSidedWindows: a window of the other direction is not searched",
			outcome: countAfter(known(map[time.Duration]int32{time.Minute: 9}), behaving(wants(5, 8), windows(0, 300)), AbleToScale),
			want:    count{8, ready},
			others:  []instead{{[]*Profile{&v115}, count{9, "True ScaleDownStabilized"}}},
		},
		{
			name:    "oneSidedWindows: at the count it is the upward one that is",
			outcome: countAfter(known(map[time.Duration]int32{time.Minute: 3}), behaving(wants(5, 5), windows(300, 300)), AbleToScale),
			want:    count{5, ready},
			others:  others(only119, count{3, "True ScaleUpStabilized"}),
		},
		{
			name:    "ownEventsOnly: what came before a change down does not count against it",
			outcome: countAfter(scaled(4, 0), behaving(wants(14, 5), behavior(nil, policies(ScalingPolicy{PodsPolicy, 2, 300}))), ScalingLimited),
			want:    count{8, down},
			others:  []instead{{only119, count{12, down}}, {upTo115, count{5, inRange}}},
		},
		{
			name:    "ownEventsOnly: nor against one up",
			outcome: countAfter(scaled(0, 6), behaving(wants(8, 20), behavior(policies(ScalingPolicy{PodsPolicy, 4, 300}), nil)), ScalingLimited),
			want:    count{18, up},
			others:  []instead{{only119, count{12, up}}, {upTo115, count{16, up}}},
		},
		{
			name:    "ownEventsOnly: its own do",
			outcome: countAfter(scaled(3, 0), behaving(wants(8, 20), behavior(policies(ScalingPolicy{PodsPolicy, 4, 300}), nil)), ScalingLimited),
			want:    count{9, up}, others: others(upTo115, count{16, up}),
		},
		{
			name:    "minSelectionBlocks: Min lets nothing go up",
			outcome: countAfter(longKnown(), behaving(wants(10, 20), leastOf(ScalingPolicy{PodsPolicy, 4, 60}, ScalingPolicy{PercentPolicy, 50, 60})), ScalingLimited),
			want:    count{14, up},
			others:  []instead{{only119, count{10, up}}, {upTo115, count{20, inRange}}},
		},
		{
			name:    "minSelectionBlocks: nor down",
			outcome: countAfter(longKnown(), behaving(wants(10, 2), leastOf(ScalingPolicy{PodsPolicy, 4, 60}, ScalingPolicy{PercentPolicy, 50, 60})), ScalingLimited),
			want:    count{6, down},
			others:  []instead{{only119, count{10, down}}, {upTo115, count{2, inRange}}},
		},
		{
			name: "minSelectionBlocks: the explanation names no policy",
			outcome: func(_ *testing.T, p *Profile) any {
				policies := by(p, behaving(wants(10, 20), leastOf(ScalingPolicy{PodsPolicy, 4, 60}))).Explanation.RateLimit.Policies
				return slices.ContainsFunc(policies, func(l PolicyLimit) bool { return l.Selected })
			},
			want: true, others: append(others(only119, false), others(upTo115, false)...),
		},
		{
			name: "floorOfOne: it keeps one replica",
			outcome: countAfter(longKnown(), changed(wants(3, 0), func(in *Input) {
				in.Options.ScaleToZero, in.Spec.MinReplicas = true, 0
			}), ScalingLimited),
			want: count{0, inRange}, others: others(upTo115, count{1, "True TooFewReplicas"}),
		},
		{
			name:    "floorOfOne: below the minimum it speaks of the rate",
			outcome: message(changed(wants(10, 1), func(in *Input) { in.Spec.MinReplicas = 2 }), ScalingLimited),
			want:    "the desired replica count is less than the minimum replica count",
			others:  others(upTo115, "the desired replica count is increasing faster than the maximum scale rate"),
		},
		{
			name: "floorOfOne: or of the maximum",
			outcome: message(changed(wants(10, 1), func(in *Input) {
				in.Spec.MinReplicas, in.Spec.MaxReplicas = 2, 20
			}), ScalingLimited),
			want:   "the desired replica count is less than the minimum replica count",
			others: others(upTo115, "the desired replica count is more than the maximum replica count"),
		},
	} {
		c.run(t)
	}
}

// A recommendation is kept for the longer one of the windows, whichever is searched; of
// the edges a window's is out, and that of being kept is in.
func TestProfilesOfOneSidedWindows(t *testing.T) {
	const up, down = 60 * time.Second, 300 * time.Second
	aged := func(age time.Duration, current, proposed int32) Stabilization {
		return stabilizeOneSided(int64(age), &History{Recommendations: []TimedRecommendation{{5, 0}}}, up, down, current, proposed)
	}
	for _, tt := range []struct {
		name              string
		age               time.Duration
		current, proposed int32
		stabilized        int32
		slot              int
	}{
		{"up, within the window", up - 1, 6, 8, 5, -1},
		{"up, at its edge", up, 6, 8, 8, -1},
		{"up, still within the other one", down - 1, 6, 8, 8, -1},
		{"up, at the edge of that", down, 6, 8, 8, -1},
		{"up, past both", down + 1, 6, 8, 8, 0},
		{"down, within the window", down - 1, 4, 3, 5, -1},
		{"down, at its edge", down, 4, 3, 3, -1},
		{"down, past it", down + 1, 4, 3, 3, 0},
	} {
		s := aged(tt.age, tt.current, tt.proposed)
		equal(t, tt.name, s.Stabilized, tt.stabilized)
		equal(t, tt.name+": the slot", s.slot, tt.slot)
		equal(t, tt.name+": windows", s.WindowsLen, 1)
	}
}

// What becomes of a workload without replicas, and of the condition ScaledToZero.
func TestProfilesAtZero(t *testing.T) {
	was := func(in *Input, minimum int32, gate bool, scaledToZero string) *Input {
		in.Spec.MinReplicas, in.Options.ScaleToZero = minimum, gate
		in.PreviousStatus = &Status{Conditions: []Condition{{Type: ScaledToZero, Status: scaledToZero, Reason: "Before"}}}
		return in
	}
	zero := func(minimum int32, gate bool, scaledToZero string) *Input {
		return was(total(externalAverage(unit), 0, 3*unit), minimum, gate, scaledToZero)
	}
	applied := func(in *Input, kind string) outcome {
		return func(t *testing.T, p *Profile) any {
			d, next := after(longKnown(), p, in)
			if d.Changes() {
				_, next = mustSettle(t, next, "ns", d.ID, Applied, "")
			}
			return reasonOf(next.Status.Conditions, kind)
		}
	}
	byMinimum := []*Profile{&v128, &v119}
	for _, c := range []comparedWith136{
		{
			name:    "by someone else with a minimum of 0: the versions that go by that scale up",
			outcome: desired(zero(0, true, ConditionFalse)),
			want:    int32(0), others: others(byMinimum, int32(3)),
		},
		{
			name:    "they do without the feature too",
			outcome: desired(zero(0, false, ConditionFalse)),
			want:    int32(0), others: others(byMinimum, int32(3)),
		},
		{
			name:    "by the autoscaler: the oldest leave it so all the same",
			outcome: desired(zero(0, true, ConditionTrue)),
			want:    int32(3), others: others(upTo115, int32(0)),
		},
		{
			name:    "by the autoscaler, with a minimum raised since: only the newer ones scale up",
			outcome: desired(zero(2, true, ConditionTrue)),
			want:    int32(3), others: others(upTo128, int32(0)),
		},
		{
			name:    "what they leave is disabled",
			outcome: applied(zero(2, true, ConditionTrue), ScalingActive),
			want:    "True ValidMetricFound", others: others(upTo128, "False ScalingDisabled"),
		},
		{
			name:    "the condition stays where it is not known, disabled without the feature",
			outcome: applied(zero(2, false, ConditionTrue), ScaledToZero),
			want:    "", others: others(upTo128, "True Before"),
		},
		{
			name:    "nor does a change without the feature remove it",
			outcome: applied(was(wants(3, 4), 1, false, ConditionTrue), ScaledToZero),
			want:    "", others: others(upTo128, "True Before"),
		},
		{
			name:    "nor one with the feature set it",
			outcome: applied(was(wants(3, 4), 1, true, ConditionTrue), ScaledToZero),
			want:    "False NotScaledToZero", others: others(upTo128, "True Before"),
		},
		{
			name:    "nor one to zero",
			outcome: applied(was(wants(3, 0), 0, true, ConditionFalse), ScaledToZero),
			want:    "True ScaledToZero", others: others(upTo128, "False Before"),
		},
		{
			name: "the computation from zero knows no tolerance and no pods", // 2.5 over 10, 26 over 10
			outcome: func(t *testing.T, p *Profile) any {
				return [2]any{
					desired(was(total(externalValue(10*unit), 0, 2500), 0, true, ConditionTrue))(t, p),
					desired(was(total(objectValue(10*unit), 0, 26*unit), 0, true, ConditionTrue))(t, p),
				}
			},
			want: [2]any{int32(1), int32(3)}, others: others(upTo115, [2]any{int32(0), int32(0)}),
		},
	} {
		c.run(t)
	}
}

// verdict is the result of several metrics, some of which fail.
type verdict struct {
	replicas      int32
	error, active string
	// message is that of ScalingActive, events are the reasons of all.
	message, events string
}

func TestProfilesOfFailures(t *testing.T) {
	const (
		podsText    = "unable to get metric pps: unable to fetch metrics from custom metrics API: away"
		objectText  = "unable to get metric rps: Service on ns front/unable to fetch metrics from custom metrics API: gone"
		object137   = "unable to get metric rps on Service ns/front: unable to fetch metrics from custom metrics API: gone"
		compute     = "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: "
		podsPrefix  = "failed to get pods metric value: "
		otherPrefix = "failed to get object metric value: "
		unable      = "the HPA was unable to compute the replica count: "
		valid       = "the HPA was able to successfully calculate a replica count from external metric queue(nil)"
		noPods      = "False FailedGetPodsMetric"
		noObject    = "False FailedGetObjectMetric"
		found       = "True ValidMetricFound"
		both        = "FailedGetPodsMetric FailedGetObjectMetric"
		bothAndAll  = both + " FailedComputeMetricsReplicas"
	)
	// Of 7 replicas, by a Pods metric, an External one that reads that much, and an Object one.
	metrics := func(wants int64) *Input {
		in := wanting(7)
		in.Spec.Metrics = []MetricSpec{podsAverage(unit), in.Spec.Metrics[0], objectValue(unit)}
		read(in, 1, wants*unit)
		in.Readings[0].Error = "away"
		in.Readings = append(in.Readings, Readings{Error: "gone"})
		return in
	}
	both136 := func(change func(*Input)) outcome {
		return func(_ *testing.T, p *Profile) any {
			d := by(p, changed(metrics(9), change))
			active := conditionByType(d.Status.Conditions, ScalingActive)
			v := verdict{replicas: d.Desired, error: d.Error, active: active.Status + " " + active.Reason, message: active.Message}
			for _, e := range d.Events {
				v.events = strings.TrimSpace(v.events + " " + e.Reason)
			}
			return v
		}
	}
	first := "invalid metrics (2 invalid out of 3), first error is: " + podsPrefix + podsText
	aborted := verdict{7, compute + podsPrefix + podsText, noPods, unable + podsText, "FailedGetPodsMetric FailedComputeMetricsReplicas"}
	blocked115 := verdict{7, compute + "Invalid metrics (2 invalid out of 3), last error was: " + otherPrefix + objectText, noObject, unable + objectText, bothAndAll}
	for _, c := range []comparedWith136{
		{
			name:    "partialFailure: the others want fewer",
			outcome: both136(func(in *Input) { read(in, 1, 2*unit) }),
			want:    verdict{7, compute + first, noPods, unable + podsText, bothAndAll},
			others: []instead{
				{only119, verdict{2, "", found, valid, both}},
				{[]*Profile{&v115}, blocked115},
				{[]*Profile{&cooldown}, aborted},
			},
		},
		{
			name:    "partialFailure: the others want more",
			outcome: both136(func(*Input) {}),
			want:    verdict{9, first, found, valid, both},
			others: []instead{
				{[]*Profile{&v119, &v115}, verdict{9, "", found, valid, both}},
				{[]*Profile{&cooldown}, aborted},
			},
		},
		{
			name:    "partialFailure: the others want as many",
			outcome: both136(func(in *Input) { read(in, 1, 7*unit) }),
			want:    verdict{7, first, found, valid, both},
			others: []instead{
				{[]*Profile{&v119, &v115}, verdict{7, "", found, valid, both}},
				{[]*Profile{&cooldown}, aborted},
			},
		},
		{
			name: "partialFailure: there are no others",
			outcome: both136(func(in *Input) {
				in.Spec.Metrics = []MetricSpec{in.Spec.Metrics[0], in.Spec.Metrics[2]}
				in.Readings = []Readings{in.Readings[0], in.Readings[2]}
			}),
			want: verdict{7, compute + strings.Replace(first, "of 3", "of 2", 1), noPods, unable + podsText, bothAndAll},
			others: []instead{
				{[]*Profile{&v115}, verdict{7, strings.Replace(blocked115.error, "of 3", "of 2", 1), noObject, unable + objectText, bothAndAll}},
				{[]*Profile{&cooldown}, aborted},
			},
		},
		{
			name: "partialFailure: where it is the count that fails the condition is new each time",
			outcome: func(_ *testing.T, p *Profile) any {
				in := metrics(9)
				in.PreviousStatus = &previous
				return conditionByType(by(p, in).Status.Conditions, ScalingActive).LastTransitionTime.Equal(t0)
			},
			want: false, others: others(upTo115, true),
		},
		{
			name:    "repairedObjectErrors: v1.37 has the parts in place",
			outcome: failure(changed(total(objectValue(unit), 3), func(in *Input) { in.Readings[0].Error = "gone" })),
			want:    MetricFailure{"FailedGetObjectMetric", objectText, otherPrefix + objectText},
			others:  others([]*Profile{&v137}, MetricFailure{"FailedGetObjectMetric", object137, otherPrefix + object137}),
		},
		{
			name:    "repairedObjectErrors: of an average too",
			outcome: failure(changed(total(objectAverage(unit), 3), func(in *Input) { in.Readings[0].Error = "gone" })),
			want:    MetricFailure{"FailedGetObjectMetric", objectText, otherPrefix + "failed to get rps object metric: " + objectText},
			others:  others([]*Profile{&v137}, MetricFailure{"FailedGetObjectMetric", object137, otherPrefix + "failed to get rps object metric: " + object137}),
		},
		{
			name:    "podsAsObjects: v1.15 calls a Pods metric that fails an object metric",
			outcome: failure(changed(workload(podsAverage(unit), 3, 0, each(3, unit)), func(in *Input) { in.Readings[0] = Readings{Error: "away"} })),
			want:    MetricFailure{"FailedGetPodsMetric", podsText, podsPrefix + podsText},
			others:  others([]*Profile{&v115}, MetricFailure{"FailedGetPodsMetric", podsText, otherPrefix + podsText}),
		},
	} {
		c.run(t)
	}
	t.Run("podsAsObjects: not where it is the selector that is malformed", func(t *testing.T) {
		in := workload(podsAverage(unit), 3, 0, each(3, unit))
		in.Readings[0].SelectorError = "bad"
		for _, p := range controllers {
			equal(t, p.Name(), failure(in)(t, p), any(MetricFailure{"FailedGetPodsMetric", "bad", podsPrefix + "bad"}))
		}
	})
}

// The wording of errors: bareSources, shortRequests and anyReadyPods.
func TestProfilesOfTexts(t *testing.T) {
	cpu := func(groups ...[]testPod) *Input { return workload(cpuUtilization(50), 5, 100, groups...) }
	average := func(groups ...[]testPod) *Input { return workload(resourceAverage("cpu", 50), 5, 100, groups...) }
	fails := func(in *Input) { in.Readings[0] = Readings{Error: "x"} }
	selector := func(in *Input) { in.Readings[0].SelectorError = "bad" }
	neither := func(in *Input) { in.Spec.Metrics[0].Target = MetricTarget{} }
	noPods := func(in *Input) { in.Pods = nil }
	noRequest := func(in *Input) { in.Pods[3].Containers[0].Requests = nil }
	const (
		resourceDown = "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: x"
		externalDown = "unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: x"
		pods         = "no pods returned by selector while calculating replica count"
		unreadyText  = "did not receive metrics for targeted pods (pods might be unready)"
		anyReady     = "did not receive metrics for any ready pods"
		neither136   = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
		neither119   = "invalid resource metric source: neither a utilization target nor a value target was set"
		noExternal   = "invalid external metric source: neither a value target nor an average value target was set"
		resource     = "failed to get cpu resource metric value: "
		external     = "failed to get queue external metric value: "
		utilization  = "failed to get cpu utilization: "
		usage        = "failed to get cpu usage: "
	)
	for _, tt := range []struct {
		name   string
		in     *Input
		reason string
		// inner and outer are of v1.36, others of those up to v1.19.
		inner, outer           string
		innerUpTo119, outer119 string
	}{
		{
			name: "a utilization: the API fails", in: changed(cpu(each(5, 50)), fails),
			inner: utilization + resourceDown, outer: resource + utilization + resourceDown,
			innerUpTo119: resourceDown, outer119: utilization + resourceDown,
		},
		{
			name: "an average is called utilization", in: changed(average(each(5, 50)), fails),
			inner: usage + resourceDown, outer: resource + usage + resourceDown,
			innerUpTo119: resourceDown, outer119: utilization + resourceDown,
		},
		{
			name: "no pods", in: changed(cpu(each(5, 50)), noPods),
			inner: utilization + pods, outer: resource + utilization + pods,
			innerUpTo119: pods, outer119: utilization + pods,
		},
		{
			name: "shortRequests: whose request is missing is left out", in: changed(cpu(each(5, 50)), noRequest),
			inner:        utilization + "missing request for cpu in container app of Pod web-3",
			outer:        resource + utilization + "missing request for cpu in container app of Pod web-3",
			innerUpTo119: "missing request for cpu", outer119: utilization + "missing request for cpu",
		},
		{
			name: "anyReadyPods: no pod counts, by utilization", in: cpu(unready(each(5, 50))),
			inner: utilization + unreadyText, outer: resource + utilization + unreadyText,
			innerUpTo119: anyReady, outer119: utilization + anyReady,
		},
		{
			name: "anyReadyPods: by average", in: average(unready(each(5, 50))),
			inner: usage + unreadyText, outer: resource + usage + unreadyText,
			innerUpTo119: anyReady, outer119: utilization + anyReady,
		},
		{
			name: "no request of anything", in: workload(cpuUtilization(50), 5, 0, each(5, 50)),
			inner: utilization + "no metrics returned matched known pods", outer: resource + utilization + "no metrics returned matched known pods",
			innerUpTo119: "no metrics returned matched known pods", outer119: utilization + "no metrics returned matched known pods",
		},
		{
			name: "neither target", in: changed(cpu(each(5, 50)), neither),
			inner: neither136, outer: resource + neither136, innerUpTo119: neither119, outer119: neither119,
		},
		{
			name: "an external average: the API fails", in: changed(total(externalAverage(unit), 3), fails), reason: "FailedGetExternalMetric",
			inner: externalDown, outer: external + "failed to get queue external metric: " + externalDown,
			innerUpTo119: externalDown, outer119: "failed to get queue external metric: " + externalDown,
		},
		{
			name: "an external total: the API fails", in: changed(total(externalValue(unit), 3), fails), reason: "FailedGetExternalMetric",
			inner: externalDown, outer: external + "failed to get external metric queue: " + externalDown,
			innerUpTo119: externalDown, outer119: "failed to get external metric queue: " + externalDown,
		},
		{
			name: "an external total: a malformed selector", in: changed(total(externalValue(unit), 3, unit), selector), reason: "FailedGetExternalMetric",
			inner: "bad", outer: external + "failed to get external metric queue: bad",
			innerUpTo119: "bad", outer119: "failed to get external metric queue: bad",
		},
		{
			name: "an external metric with neither target", in: changed(total(externalValue(unit), 3, unit), neither), reason: "FailedGetExternalMetric",
			inner: noExternal, outer: external + noExternal, innerUpTo119: noExternal, outer119: noExternal,
		},
	} {
		if tt.reason == "" {
			tt.reason = "FailedGetResourceMetric"
		}
		c := comparedWith136{
			name: tt.name, outcome: failure(tt.in), want: MetricFailure{tt.reason, tt.inner, tt.outer},
			others: others(upTo119, MetricFailure{tt.reason, tt.innerUpTo119, tt.outer119}),
		}
		c.run(t)
	}

	t.Run("anyReadyPods: of a Pods metric", func(t *testing.T) {
		in := workload(podsAverage(unit), 3, 0, with(each(3, unit), func(p *Pod) { p.Phase = PhasePending }))
		for p, want := range map[*Profile]string{&v136: unreadyText, &v128: unreadyText, &v119: anyReady} {
			equal(t, p.Name(), failure(in)(t, p), any(MetricFailure{"FailedGetPodsMetric", want, "failed to get pods metric value: " + want}))
		}
	})
	t.Run("shortRequests: v1.28 names the container too", func(t *testing.T) {
		in := changed(cpu(each(5, 50)), noRequest)
		equal(t, "the text", failure(in)(t, &v128).(MetricFailure).Inner, utilization+"missing request for cpu in container app of Pod web-3")
	})
}

// Selectors, and texts that are printed as formats.
func TestProfilesOfSelectors(t *testing.T) {
	type problem struct {
		path           Path
		error, message string
		events         []Event
	}
	problemOf := func(in *Input) outcome {
		return func(_ *testing.T, p *Profile) any {
			d := by(p, in)
			if d.Path == PathMetrics {
				return d.Desired
			}
			return problem{d.Path, d.Error, conditionByType(d.Status.Conditions, ScalingActive).Message, d.Events}
		}
	}
	selects := func(p SelectorProblem) *Input {
		return changed(wants(5, 8), func(in *Input) { in.SelectorProblem = &p })
	}
	const compute = "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: "
	failed := func(reason SelectorReason, event, text string) problem {
		return problem{PathSelectorFailed, compute + text, text, []Event{{EventWarning, string(reason), event}, {EventWarning, "FailedComputeMetricsReplicas", text}}}
	}
	same := func(text string) problem { return failed(AmbiguousSelector, text, text) }
	const converted = "couldn't convert selector into a corresponding internal selector object: "
	const unable = "the HPA was unable to compute the replica count: unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: "
	for _, c := range []comparedWith136{
		{
			name:    "sharedPods: what another autoscaler selects is no problem up to v1.19",
			outcome: problemOf(selects(SelectorProblem{Reason: AmbiguousSelector, Message: "ambiguous"})),
			want:    same("ambiguous"), others: others(upTo119, int32(8)),
		},
		{
			name:    "oneOtherAutoscaler: v1.37 gives two examples",
			outcome: problemOf(selects(SelectorProblem{Reason: AmbiguousSelector, Selector: "app=web", Autoscalers: []string{"ns/a", "ns/b", "ns/c"}})),
			want:    same("pods by selector app=web are controlled by multiple HPAs: [ns/a ns/b ns/c]"),
			others: []instead{
				{[]*Profile{&v137}, same("pods by selector app=web are controlled by more than one HPA (e.g. [ns/a ns/b])")},
				{upTo119, int32(8)},
			},
		},
		{
			name:    "oneOtherAutoscaler: fewer if there are no two",
			outcome: problemOf(selects(SelectorProblem{Reason: AmbiguousSelector, Selector: "app=web", Autoscalers: []string{"ns/a"}})),
			want:    same("pods by selector app=web are controlled by multiple HPAs: [ns/a]"),
			others: []instead{
				{[]*Profile{&v137}, same("pods by selector app=web are controlled by more than one HPA (e.g. [ns/a])")},
				{upTo119, int32(8)},
			},
		},
		{
			name:    "messagesAreFormats: an ambiguous selector",
			outcome: problemOf(selects(SelectorProblem{Reason: AmbiguousSelector, Message: "50% off"})),
			want:    same("50% off"),
			others: []instead{
				{[]*Profile{&v128}, failed(AmbiguousSelector, "50% off", "50%!o(MISSING)ff")},
				{upTo119, int32(8)},
			},
		},
		{
			name:    "messagesAreFormats: a malformed one",
			outcome: problemOf(selects(SelectorProblem{Reason: InvalidSelector, Message: "100%"})),
			want:    failed(InvalidSelector, converted+"100%", converted+"100%"),
			others:  others(upTo128, failed(InvalidSelector, converted+"100%", converted+"100%!(NOVERB)")),
		},
		{
			name:    "messagesAreFormats: why metrics fail, where the condition is made at the end",
			outcome: message(changed(wants(5, 8), func(in *Input) { in.Readings[0].Error = "50% off" }), ScalingActive),
			want:    unable + "50% off",
			others:  others([]*Profile{&v128, &v119}, unable+"50%!o(MISSING)ff"),
		},
		{
			name: "messagesAreFormats: not the event, nor the error",
			outcome: func(_ *testing.T, p *Profile) any {
				d := by(p, changed(wants(5, 8), func(in *Input) { in.Readings[0].Error = "50% off" }))
				conditions := fmt.Sprint(d.Status.Conditions)
				return strings.Contains(d.Error, "50% off") && strings.Contains(d.Events[0].Message, "50% off") &&
					strings.Contains(d.Events[1].Message, "50% off") && strings.Contains(conditions, "MISSING")
			},
			want: false, others: others([]*Profile{&v128, &v119}, true),
		},
	} {
		c.run(t)
	}
	t.Run("messagesAreFormats: of a type that is not known v1.19 makes one twice", func(t *testing.T) {
		in := changed(wants(5, 8), func(in *Input) { in.Spec.Metrics[0].Type = "50% off" })
		for p, want := range map[*Profile]MetricFailure{
			&v136: {"InvalidMetricSourceType", `unknown metric source type "50% off"`, `unknown metric source type "50% off"`},
			&v128: {"InvalidMetricSourceType", `unknown metric source type "50% off"`, `unknown metric source type "50% off"`},
			&v119: {"InvalidMetricSourceType", `unknown metric source type "50%!o(MISSING)ff"`, `unknown metric source type "50%!o(MISSING)ff"`},
		} {
			equal(t, p.Name(), failure(in)(t, p), any(want))
		}
		equal(t, "the condition", message(in, ScalingActive)(t, &v119),
			any(`the HPA was unable to compute the replica count: unknown metric source type "50%!!(MISSING)o(MISSING)ff"`))
	})
	t.Run("messagesAreFormats: not what stands in a text as an argument", func(t *testing.T) {
		in := changed(wants(5, 8), func(in *Input) { in.ScaleError = &ScaleError{Message: "50% off"} })
		for _, p := range controllers {
			equal(t, p.Name(), conditionByType(by(p, in).Status.Conditions, AbleToScale).Message,
				"the HPA controller was unable to get the target's current scale: 50% off")
		}
	})
}

func TestProfilesOfStatus(t *testing.T) {
	readings := func(in *Input, settle Outcome) outcome {
		in.PreviousStatus = &previous
		return func(t *testing.T, p *Profile) any {
			d, next := after(longKnown(), p, in)
			if settle == Undecided {
				return d.Status.CurrentMetrics
			}
			s, _ := mustSettle(t, next, "ns", d.ID, settle, "conflict")
			return s.Status.CurrentMetrics
		}
	}
	var (
		kept = previous.CurrentMetrics
		none []MetricStatus
	)
	object := func(metric MetricSpec) outcome {
		return func(_ *testing.T, p *Profile) any {
			return by(p, total(metric, 3, 3*unit)).Status.CurrentMetrics[0].DescribedObject
		}
	}
	service := ObjectReference{Kind: "Service", Name: "front", APIVersion: "v1"}
	for _, c := range []comparedWith136{
		{
			name:    "keepsMetrics: where all metrics fail",
			outcome: readings(changed(wants(5, 8), func(in *Input) { in.Readings[0].Error = "x" }), Undecided),
			want:    make([]MetricStatus, 1), others: others(upTo128, kept),
		},
		{
			name:    "keepsMetrics: where the pods can't be chosen",
			outcome: readings(changed(wants(5, 8), func(in *Input) { in.SelectorProblem = &SelectorProblem{Reason: SelectorRequired} }), Undecided),
			want:    none, others: others(upTo128, kept),
		},
		{
			name:    "keepsMetrics: where a change fails",
			outcome: readings(wants(5, 8), Failed),
			want:    queueStatus(1600), others: others(upTo128, kept),
		},
		{
			name:    "keepsMetrics: where a forced one does",
			outcome: readings(changed(wants(5, 8), func(in *Input) { in.Spec.MaxReplicas = 3 }), Failed),
			want:    none, others: others(upTo128, kept),
		},
		{
			name: "decimalMemory: the status has no binary suffixes",
			outcome: func(_ *testing.T, p *Profile) any {
				return by(p, workload(resourceAverage("memory", 100*mebi), 3, 0, each(3, 110*mebi))).Status.CurrentMetrics[0].Current.Binary
			},
			want: true, others: others(upTo128, false),
		},
		{
			name: "bareObjectAverages: the object is left out", outcome: object(objectAverage(unit)),
			want: service, others: others(upTo128, ObjectReference{}),
		},
		{
			name:    "storedAsV1: an external average has a total of 0",
			outcome: reading(total(externalAverage(unit), 3, 3*unit)),
			want:    MetricValue{AverageValue: unit, HasAverageValue: true},
			others:  others(upTo119, MetricValue{AverageValue: unit, HasAverageValue: true, HasValue: true}),
		},
		{
			name:    "storedAsV1: that of an object too",
			outcome: reading(total(objectAverage(unit), 3, 3*unit)),
			want:    MetricValue{AverageValue: unit, HasAverageValue: true},
			others:  others(upTo119, MetricValue{AverageValue: unit, HasAverageValue: true, HasValue: true}),
		},
	} {
		c.run(t)
	}
	for _, p := range controllers {
		equal(t, p.Name()+": a resource's reading", reading(workload(resourceAverage("cpu", 100), 3, 100, each(3, 100)))(t, p),
			any(MetricValue{AverageValue: 100, HasAverageValue: true}))
		equal(t, p.Name()+": a Pods metric's", reading(workload(podsAverage(100), 3, 0, each(3, 100)))(t, p),
			any(MetricValue{AverageValue: 100, HasAverageValue: true}))
		equal(t, p.Name()+": the object of a total", object(objectValue(unit))(t, p), any(service))
		equal(t, p.Name()+": the readings once a change is applied", readings(wants(5, 8), Applied)(t, p).([]MetricStatus)[0].Current.AverageValue, int64(1600))
	}
	equal(t, "the version explained", by(&v119, wants(5, 8)).Explanation.Profile, "v1.19")
}

// Up to v1.19 the controller reads what the API keeps as autoscaling/v1: one target cpu
// utilization, that of the first cpu metric, which comes last.
func TestProfilesOfStoredSpecs(t *testing.T) {
	// Of 5 replicas at 80 % of their requests of 100m, and an external metric that reads 8.
	spec := func(metrics ...MetricSpec) *Input {
		in := workload(cpuUtilization(50), 5, 100, each(5, 80))
		in.Spec.Metrics, in.Spec.Behavior = metrics, behavior(nil, nil)
		in.Readings = nil
		for i := range metrics {
			read(in, i, 8*unit)
		}
		return in
	}
	types := func(in *Input) outcome {
		return func(_ *testing.T, p *Profile) any {
			var types []MetricType
			for _, m := range by(p, in).Status.CurrentMetrics {
				types = append(types, m.Type)
			}
			return types
		}
	}
	both := cpuUtilization(40)
	both.Target.AverageValue = new(int64(80))
	objectByValue := objectValue(unit)
	objectByValue.Target.AverageValue = new(int64(4 * unit))
	objectByNothing := objectAverage(2 * unit)
	objectByNothing.Target.Type = ""
	objectByNoValue := objectValue(unit)
	objectByNoValue.Target.Value = nil
	external := externalAverage(unit)
	for _, c := range []comparedWith136{
		{
			name:    "storedAsV1: the utilization comes last",
			outcome: types(spec(cpuUtilization(50), external, objectAverage(unit))),
			want:    []MetricType{ResourceMetric, ExternalMetric, ObjectMetric},
			others:  others(upTo119, []MetricType{ExternalMetric, ObjectMetric, ResourceMetric}),
		},
		{
			name:    "storedAsV1: of equals it is not the first",
			outcome: func(_ *testing.T, p *Profile) any { return by(p, spec(cpuUtilization(50), external)).Reason },
			want:    "cpu resource utilization (percentage of request) above target",
			others:  others(upTo119, "external metric queue(nil) above target"),
		},
		{
			name: "storedAsV1: its reading comes with it, and its failure last",
			outcome: func(_ *testing.T, p *Profile) any {
				in := spec(cpuUtilization(50), external)
				in.Readings[0], in.Readings[1] = Readings{Error: "away"}, Readings{Error: "gone"}
				d := by(p, in)
				return [2]string{d.Events[0].Reason, reasonOf(d.Status.Conditions, ScalingActive)}
			},
			want: [2]string{"FailedGetResourceMetric", "False FailedGetResourceMetric"},
			others: []instead{
				{[]*Profile{&v119, &cooldown}, [2]string{"FailedGetExternalMetric", "False FailedGetExternalMetric"}},
				{[]*Profile{&v115}, [2]string{"FailedGetExternalMetric", "False FailedGetResourceMetric"}}, // the last one's
			},
		},
		{
			name: "storedAsV1: and its failure is its own",
			outcome: func(_ *testing.T, p *Profile) any {
				in := spec(external, cpuUtilization(50), external)
				in.Readings[1] = Readings{Error: "away"}
				var events []string
				for _, e := range by(p, in).Events {
					events = append(events, e.Reason)
				}
				return strings.Join(events, " ")
			},
			want:   "FailedGetResourceMetric",
			others: others([]*Profile{&cooldown}, "FailedGetResourceMetric FailedComputeMetricsReplicas"),
		},
		{
			name:    "storedAsV1: a second one is lost",
			outcome: proposal(spec(cpuUtilization(50), cpuUtilization(25))),
			want:    int32(16), others: others(upTo119, int32(8)),
		},
		{
			name:    "storedAsV1: so is one after an average of cpu",
			outcome: proposal(spec(resourceAverage("cpu", 40), cpuUtilization(25))),
			want:    int32(16), others: others(upTo119, int32(10)),
		},
		{
			name:    "storedAsV1: one of memory is not",
			outcome: types(spec(changedMetric(cpuUtilization(50), func(m *MetricSpec) { m.Resource = "memory" }), external)),
			want:    []MetricType{"", ExternalMetric},
			others:  others([]*Profile{&cooldown}, []MetricType(nil)), // which ends there
		},
		{
			name:    "storedAsV1: it takes the place of an average in the same metric",
			outcome: proposal(spec(both)),
			want:    int32(5), others: others(upTo119, int32(10)),
		},
		{
			name:    "storedAsV1: an object is held to its average if it has one",
			outcome: proposal(spec(objectByValue)),
			want:    int32(40), others: others(upTo119, int32(2)),
		},
		{
			name:    "storedAsV1: whatever its target's type is",
			outcome: proposal(spec(objectByNothing)),
			want:    "invalid object metric source: neither a value target nor an average value target was set",
			others:  others(upTo119, int32(4)),
		},
		{
			name:    "storedAsV1: without any it is held to a total of 0",
			outcome: proposal(spec(objectByNoValue)),
			want:    "invalid object metric source: neither a value target nor an average value target was set",
			others:  others(upTo119, int32(math.MaxInt32)),
		},
		{
			name: "plainExpressions: a selector's expressions as Go prints them",
			outcome: func(_ *testing.T, p *Profile) any {
				m := externalAverage(unit)
				m.Metric.Selector = &LabelSelector{
					MatchLabels:      []Label{{"a", "b"}},
					MatchExpressions: []LabelRequirement{{"k", "In", []string{"x", "y"}}, {"l", "Exists", nil}},
				}
				in := spec(m)
				failed := clone(in)
				failed.Readings[0] = Readings{Error: "away"}
				return [2]string{by(p, in).Reason, by(p, failed).Events[0].Message}
			},
			want: [2]string{
				"external metric queue(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{" +
					"LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},LabelSelectorRequirement{Key:l,Operator:Exists,Values:[],},},}) above target",
				"unable to get external metric ns/queue/&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{" +
					"LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},LabelSelectorRequirement{Key:l,Operator:Exists,Values:[],},},}: " +
					"unable to fetch metrics from external metrics API: away",
			},
			others: others(upTo115, [2]string{
				"external metric queue(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[{k In [x y]} {l Exists []}],}) above target",
				"unable to get external metric ns/queue/&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[{k In [x y]} {l Exists []}],}: " +
					"unable to fetch metrics from external metrics API: away",
			}),
		},
	} {
		c.run(t)
	}
	t.Run("plainExpressions: none", func(t *testing.T) {
		m := externalAverage(unit)
		m.Metric.Selector = &LabelSelector{}
		equal(t, "the reason", by(&v115, spec(m)).Reason, "external metric queue(&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[],}) above target")
	})
	t.Run("storedAsV1: no metric at all is the default one", func(t *testing.T) {
		equal(t, "the proposal", by(&v119, spec()).Explanation.Proposal, int32(5)) // 80 %
		equal(t, "the reading", by(&v119, spec()).Status.CurrentMetrics[0].Current.AverageUtilization, int32(80))
	})
}

func changedMetric(m MetricSpec, change func(*MetricSpec)) MetricSpec {
	change(&m)
	return m
}

func TestProfilesByName(t *testing.T) {
	want := []string{"v1.36", "v1.37", "v1.28", "v1.19", "v1.15", "cooldown", "design-2015"}
	equal(t, "the names", ProfileNames(), want)
	equal(t, "the default", (*Profile)(nil).Name(), want[0])
	for _, name := range want {
		p, ok := ProfileByName(name)
		if !ok || p.Name() != name {
			t.Errorf("%s: %v, %t", name, p, ok)
			continue
		}
		equal(t, name+" scales to zero", p.ScaleToZero(), name == "v1.37")
	}
	for _, name := range []string{"", "v1.35", "1.36", "V1.36"} {
		if p, ok := ProfileByName(name); ok || p != nil {
			t.Errorf("%q: %v", name, p)
		}
	}
	equal(t, "the reference has no switch on", v136, Profile{name: "v1.36"})
	options := DefaultOptions()
	equal(t, "the default", options.profile(), &v136)
}

// What one version recorded counts for the next one as far as that knows it.
func TestProfilesShareAHistory(t *testing.T) {
	const s, m = time.Second, time.Minute
	as := func(p *Profile, current int32) func(*Input) {
		return func(in *Input) {
			in.Options.Profile = p
			if in.Scale.SpecReplicas != current {
				t.Errorf("%s begins with %d replicas, want %d", p.Name(), in.Scale.SpecReplicas, current)
			}
		}
	}
	t.Run("recommendations and changes", func(t *testing.T) {
		x := follow(t, wanting(10), []step{
			{at: 0, wants: 12, want: 12, able: ReadyForNewScale, change: as(&v136, 10)},
			{at: 3 * m, wants: 14, want: 12, able: "BackoffBoth", change: as(&cooldown, 12)},
			{at: 3*m + 1, wants: 14, want: 14, able: "BackoffDownscale"},
			{at: 4 * m, wants: 5, want: 12, able: "ScaleDownStabilized", change: as(&v128, 14)}, // 12 of t0, not the 14 that is not recorded
			{at: 4*m + 15*s, wants: 20, want: 12, able: "BackoffBoth", change: as(&cooldown, 12)},
			{at: 5 * m, wants: 5, want: 12, able: "ScaleDownStabilized", change: as(&v115, 12)},
			{at: 5*m + 1, wants: 5, want: 5, able: ReadyForNewScale},
			{at: 8 * m, wants: 9, want: 5, able: "BackoffBoth", change: as(&cooldown, 5)},
			{at: 8*m + 15*s, wants: 5, want: 5, able: ReadyForNewScale, change: as(&v119, 5)},
		})
		var recommended []int32
		for _, r := range x.history.Recommendations {
			recommended = append(recommended, r.Replicas)
		}
		equal(t, "recommendations", recommended, []int32{5, 5, 5, 5}) // of all but cooldown, the first slots reused
	})
	t.Run("events, which those without behavior do not leave behind", func(t *testing.T) {
		in := wanting(10)
		in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 4, 600}), policies(ScalingPolicy{PodsPolicy, 2, 600}))
		x := follow(t, in, []step{
			{at: 0, wants: 20, want: 14, limited: "ScaleUpLimit", change: as(&v119, 10)},
			{at: m, wants: 20, want: 14, limited: "ScaleUpLimit", change: as(&v136, 14)},
			{at: 2 * m, wants: 20, want: 20, limited: "DesiredWithinRange", change: as(&v115, 14)},
			{at: 3 * m, wants: 10, want: 18, limited: "ScaleDownLimit", change: as(&v119, 20)}, // the 4 up do not count
			{at: 4 * m, wants: 10, want: 14, limited: "ScaleDownLimit", change: as(&v128, 18)}, // from 18-4+2
		})
		equal(t, "scale-ups", x.history.ScaleUps, []ScaleEvent{{Change: 4, At: t0.UnixNano()}})
		equal(t, "scale-downs", len(x.history.ScaleDowns), 2)
	})
	t.Run("the count at first sight is the first that is recommended", func(t *testing.T) {
		x := follow(t, wanting(10), []step{
			{at: 0, wants: 10, want: 10, able: ReadyForNewScale, change: as(&cooldown, 10)},
			{at: m, wants: 3, want: 10, able: "ScaleDownStabilized", change: as(&v136, 10)},
		})
		equal(t, "recommendations", x.history.Recommendations, []TimedRecommendation{{10, t0.Add(m).UnixNano()}, {3, t0.Add(m).UnixNano()}})
		equal(t, "since", x.history.Since, t0.Add(m).UnixNano())
	})
	t.Run("a pending change is settled as it was made", func(t *testing.T) {
		in := utilized(3, alike(3, 160)...)
		x := &target{in: in}
		d := x.recommend(t, 0)
		in.Options.Profile = &v136
		in.Scale = Scale{SpecReplicas: d.Desired, StatusReplicas: d.Desired}
		next := x.recommend(t, 15*s)
		equal(t, "settled before", next.SettledBefore, Settled{d.ID, Applied})
		equal(t, "the last change", next.Status.LastScaleTime, t0)
		equal(t, "conditions are v1.36's own", reasonOf(next.Status.Conditions, AbleToScale), "True ReadyForNewScale")
		equal(t, "the count at first sight holds", x.history.Recommendations[0], TimedRecommendation{6, t0.Add(15 * s).UnixNano()})
	})
}

// switching is a target that is decided as any version, one or another each time.
type switching struct {
	random
	first   *Input
	always  *Profile
	scale   Scale
	history History
	at      time.Time
}

func newSwitching(r random) *switching {
	s := &switching{random: r, first: r.input(), at: t0}
	s.always = oneOf(r, append(slices.Clone(profiles), nil, nil, nil)...)
	if r.chance(40) { // all that design-2015 knows
		s.first.Spec.Metrics = []MetricSpec{cpuUtilization(int32(r.between(1, 150)))}
	}
	s.scale = s.first.Scale
	return s
}

// input is the next one.
func (s *switching) input() *Input {
	in := s.random.input()
	in.Explain = true
	in.Spec, in.Options, in.Scale = s.first.Spec, s.first.Options, s.scale
	in.Readings = nil
	for i := range in.Spec.Metrics {
		readings := s.readings(&in.Spec.Metrics[i], in.Pods)
		if s.chance(50) {
			readings.Timestamp = s.at.Add(-time.Duration(s.IntN(120)) * time.Second)
		}
		in.Readings = append(in.Readings, readings)
	}
	if s.chance(50) { // design-2015 goes by no pod that is not measured
		in.Pods = slices.DeleteFunc(in.Pods, func(p Pod) bool {
			return !slices.ContainsFunc(in.PodMetrics, func(m PodMetrics) bool { return m.Pod == p.Name })
		})
	}
	if s.chance(20) {
		in = clone(in)
		s.wild(in)
	}
	if in.Options.Profile = s.always; in.Options.Profile == nil {
		in.Options.Profile = oneOf(s.random, profiles...)
	}
	return in
}

// Whichever version decides, and whichever decided before: no panic, the same again,
// nothing that is given changes, no count out of the bounds, and a history that its
// encoding keeps.
func TestPropertyAnyProfileAtAnyTime(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := newRandom(31)
	ups, downs := map[string]int{}, map[string]int{}
	for range 1500 {
		s := newSwitching(random)
		for range 10 {
			s.at = s.at.Add(time.Duration(random.Int64N(int64(3 * time.Minute))))
			in := s.input()
			d := s.recommend(t, in)
			switch name := in.Options.Profile.Name(); {
			case d.Desired > d.Current:
				ups[name]++
			case d.Desired < d.Current:
				downs[name]++
			}
			s.settle(t, in, d)
		}
	}
	for _, name := range ProfileNames() {
		if ups[name] < 100 || downs[name] < 100 {
			t.Errorf("%s: only %d changes up and %d down", name, ups[name], downs[name])
		}
	}
}

func (s *switching) recommend(t *testing.T, in *Input) Decision {
	t.Helper()
	p := in.Options.Profile
	inBefore, historyBefore, profileBefore := clone(in), clone(&s.history), *p
	d, next := Recommend(s.at, in, &s.history)
	unwritten(t, "the input", clone(in), inBefore)
	unwritten(t, "the history", &s.history, historyBefore)
	unwritten(t, "the profile", *p, profileBefore)
	again, nextAgain := Recommend(s.at, in, &s.history)
	unwritten(t, "the same decision again", clone(&again), clone(&d))
	unwritten(t, "the history after it", nextAgain, next)
	decoded, err := Decode(Encode(&next))
	fatal.If(t, err)
	unwritten(t, "the history as its encoding gives it back", decoded, next)

	equal(t, "the profile explained", d.Explanation.Profile, p.Name())
	equal(t, "a change is pending", next.Pending != nil && next.Pending.ID == in.ID, d.Changes())
	switch d.Path {
	case PathMetrics, PathAboveMax, PathBelowMin:
		if d.Changes() && (d.Desired < in.Spec.MinReplicas || d.Desired > in.Spec.MaxReplicas) {
			t.Fatalf("%s: %d replicas of %d to %d, from %d: %+v", p.Name(), d.Desired, in.Spec.MinReplicas, in.Spec.MaxReplicas, d.Current, in)
		}
	default:
		if d.Changes() {
			t.Fatalf("%s: path %d changes %d to %d replicas", p.Name(), d.Path, d.Current, d.Desired)
		}
	}
	s.history = decoded
	return d
}

// settle reports the change as applied, as failed or not at all, in which case it may
// be applied all the same.
func (s *switching) settle(t *testing.T, in *Input, d Decision) {
	t.Helper()
	reported := oneOf(s.random, Applied, Applied, Failed, Undecided)
	if reported == Applied || reported == Undecided && s.chance(50) {
		s.scale = Scale{SpecReplicas: d.Desired, StatusReplicas: d.Desired}
		if d.Path == PathScaleUnavailable {
			s.scale = in.Scale
		}
	}
	if s.chance(10) {
		s.scale.StatusReplicas = int32(s.IntN(40))
	}
	if s.chance(5) {
		s.scale.SpecReplicas = int32(s.IntN(40)) // someone else
	}
	if reported == Undecided {
		return
	}
	before := clone(&s.history)
	settlement, next := mustSettle(t, s.history, in.Namespace, in.ID, reported, "conflict")
	unwritten(t, "the history that is settled", &s.history, before)
	equal(t, "it changes something", settlement.Changed, d.Changes())
	equal(t, "the settled status", settlement.Status, next.Status)
	if d.Changes() && reported == Failed && in.Options.Profile.keepsMetrics {
		equal(t, "readings of a change that failed", next.Status.CurrentMetrics, before.Pending.PreviousMetrics)
	}
	decoded, err := Decode(Encode(&next))
	fatal.If(t, err)
	unwritten(t, "the settled history as its encoding gives it back", decoded, next)
	s.history = decoded
}

// Beside a metric that fails v1.19 alone scales down.
func TestPropertyAFailedMetricScalesDownInOneVersionOnly(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := newRandom(32)
	downs := map[string]int{}
	for range 2500 {
		in := random.input()
		for _, p := range controllers {
			d := by(p, in)
			if d.Path == PathMetrics && d.Desired < d.Current &&
				slices.ContainsFunc(d.Explanation.Metrics, func(e MetricEvaluation) bool { return e.Failure != nil }) {
				downs[p.Name()]++
			}
		}
	}
	if len(downs) != 1 || downs["v1.19"] < 20 {
		t.Errorf("scaled down beside a failure: %v", downs)
	}
}
