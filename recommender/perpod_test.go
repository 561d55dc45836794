package recommender

import (
	"slices"
	"testing"
	"time"
)

// Beside the worked examples: what becomes of missing and unready pods.
func TestProposalsOfPerPodMetrics(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   *Input
		want int32
		rule ProposalRule
	}{
		{"with all pods counted the ready ones decide, even against the ratio", workload(cpuUtilization(100), 10, 100, each(3, 200)), 6, Proportional},
		{"with a missing pod the count does not go against the ratio", workload(cpuUtilization(100), 10, 100, each(3, 200), missing(1)), 10, DampenedAgainstCurrent},
		{"nor up when the ratio is below 1", workload(cpuUtilization(50), 3, 100, each(8, 20), missing(1)), 3, DampenedAgainstCurrent},
		{"an unready pod does not count when scaling down", workload(cpuUtilization(50), 11, 100, each(10, 20), pending(1)), 4, Proportional},
		{"an unready pod is idle when scaling up", workload(cpuUtilization(50), 4, 100, each(3, 100), pending(1)), 6, Proportional},
		{"filled in it may be within tolerance", workload(cpuUtilization(60), 4, 100, each(3, 80), pending(1)), 4, DampenedWithinTolerance},
		{"filled in at full load they may turn the direction", workload(cpuUtilization(50), 4, 100, each(1, 40), missing(3)), 4, DampenedReversed},
		{"within tolerance at first and not once filled in, it counts", workload(cpuUtilization(50), 10, 100, each(4, 55), missing(6)), 10, DampenedReversed},
		{"a ratio of exactly 1 with missing pods holds", workload(cpuUtilization(50), 7, 100, each(3, 50), missing(4)), 7, DampenedWithinTolerance},
		{"a ratio of exactly 1 with unready pods holds", workload(cpuUtilization(50), 7, 100, each(3, 50), pending(4)), 7, WithinTolerance},
		{"a plain metric fills in its target", workload(podsAverage(100), 4, 0, each(3, 20), missing(1)), 2, Proportional},
		{"and nothing when scaling up", workload(podsAverage(100), 4, 0, each(3, 200), missing(1)), 6, Proportional},
		{"filling in at the target turns no direction", workload(podsAverage(100), 4, 0, each(1, 20), missing(3)), 4, Proportional},
		{"missing pods count their own request", differentRequests(), 3, Proportional},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := decide(tt.in).Explanation.Metrics[0]
			equal(t, "the proposal", e.Proposal, tt.want)
			equal(t, "the rule", e.Rule, tt.rule)
		})
	}
}

// differentRequests is one pod at 10 of 100 and a missing one of 300, target 80 %:
// (10+300)/400 is 77 %, so 0.9625 would be within tolerance; with a third pod of
// 10 of 100 it is 320/500, 64 %, 0.8 of 3 pods.
func differentRequests() *Input {
	in := workload(cpuUtilization(80), 3, 100, each(2, 10), missing(1))
	in.Pods[2].Containers[0].Requests = []ResourceRequest{{"cpu", milliQuantity(300)}}
	return in
}

// The second pass can't come to a sum of requests of 0 but by wrapping around.
// Upstream then fails as on the first pass.
func TestRequestsThatWrapToNothingFail(t *testing.T) {
	in := workload(cpuUtilization(50), 2, 100, each(1, 10), missing(1))
	in.Pods[1].Containers[0].Requests = []ResourceRequest{{"cpu", milliQuantity(-100)}}
	d := decide(in)
	equal(t, "path", d.Path, PathMetricsFailed)
}

// Ignored pods are counted as such, and as nothing else.
func TestIgnoredPodsAreCounted(t *testing.T) {
	in := workload(cpuUtilization(50), 4, 100, each(4, 50), missing(1))
	in.Pods[0].Phase, in.Pods[1].Phase = PhaseFailed, PhaseFailed
	equal(t, "counts", decide(in).Explanation.Metrics[0].Counts, PodCounts{Ready: 2, Missing: 1, Ignored: 2})
}

// A proposal of exactly what a policy or the maximum allows is not limited.
func TestExactlyTheLimitIsNotLimited(t *testing.T) {
	for name, maximum := range map[string]int32{"the policy's limit": 100, "both": 8} {
		in := workload(cpuUtilization(50), 4, 100, each(4, 100))
		in.Spec.MaxReplicas, in.Spec.Behavior = maximum, behavior(policies(ScalingPolicy{PodsPolicy, 4, 60}), nil)
		d := decide(in)
		equal(t, name, d.Desired, int32(8))
		equal(t, name, reasonOf(d.Status.Conditions, ScalingLimited), "False DesiredWithinRange")
	}
}

// Samples that are joined while the pods are read group as those that were joined before, in
// whatever order, number and state they come.
func TestSamplesAreJoinedAsPodsAreRead(t *testing.T) {
	t.Parallel()
	again := 0
	for seed := range uint64(3000) {
		r := newRandom(seed)
		in := r.input()
		for range r.IntN(4) { // a second sample, or a second pod, of a name
			if len(in.PodMetrics) > 0 {
				second := r.podMetrics(oneOf(r, in.PodMetrics...).Pod)
				in.PodMetrics = slices.Insert(in.PodMetrics, r.IntN(len(in.PodMetrics)+1), second)
			}
			if len(in.Pods) > 0 && r.chance(20) {
				in.Pods = append(in.Pods, r.pod(oneOf(r, in.Pods...).Name))
			}
		}
		group := func(before bool) (perPod, pass, string) {
			d := decider{in: in, scratch: new(scratch), profile: &v136}
			d.initializing = t0.Add(-time.Minute)
			d.initializingSeconds = d.initializing.Unix()
			c := perPod{utilization: true, target: 50, resource: "cpu", container: oneOf(newRandom(seed), "", "app"), samples: &d.scratch.samples, profile: d.profile}
			c.samples.reset(len(in.Pods))
			if before {
				c.samples.join(in.Pods, in.PodMetrics, 0, c.container, c.resource)
			} else {
				c.metrics = in.PodMetrics
			}
			sums, problem := c.group(&d)
			return c, sums, problem
		}
		got, sums, problem := group(false)
		if len(in.PodMetrics) > 0 && got.metrics == nil {
			again++
		}
		want, wantSums, wantProblem := group(true)
		if sums != wantSums || problem != wantProblem || got.samples.counts != want.samples.counts ||
			!slices.Equal(got.samples.pods, want.samples.pods) || !slices.Equal(got.samples.unlisted, want.samples.unlisted) ||
			!slices.Equal(got.samples.unlistedNames, want.samples.unlistedNames) {
			t.Fatalf("seed %d: %+v, %+v, %s, want\n%+v, %+v, %s", seed, sums, *got.samples, problem, wantSums, *want.samples, wantProblem)
		}
	}
	if again < 100 || again > 2000 {
		t.Errorf("%d of 3000 inputs were grouped again", again)
	}
}
