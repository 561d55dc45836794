package recommender

import (
	"math"
	"strings"
	"testing"
)

// Where arithmetic leaves its range the explanation says so, and says nothing
// anywhere else.
func TestWarnings(t *testing.T) {
	const (
		controllers = ", as the Kubernetes controller's does"
		processor   = "; the Kubernetes controller's result depends on the processor"
		utilization = "cpu resource utilization (percentage of request): "
		pods        = "pods metric pps: "
		queue       = "external metric queue(nil): "
		tooMany     = "the proposal is beyond the range of a count and stays at the largest, as the Kubernetes controller's does"
	)
	up := func(policy ScalingPolicy) *Input {
		in := wanting(10)
		in.Spec.Behavior = behavior(policies(policy), nil)
		read(in, 0, 20*unit)
		return in
	}
	down := func(policy ScalingPolicy) *Input {
		in := wanting(10)
		in.Spec.Behavior = behavior(nil, policies(policy))
		read(in, 0, 5*unit)
		return in
	}
	for _, tt := range []struct {
		name string
		in   *Input
		want []string
	}{
		{"the usual", workload(cpuUtilization(50), 5, 100, each(5, 50)), nil},
		{"the largest usage", workload(cpuUtilization(50), 1, 1<<55, each(1, math.MaxInt64/100)), nil},
		{
			"a sum of usages", workload(podsAverage(100), 2, 0, each(2, 1<<62)),
			[]string{pods + "the sum of the usages is beyond 64 bits of milli-units and wrapped" + controllers, pods + "the proposal is far below 0 and stays at the smallest number" + controllers},
		},
		{
			"a sum of usages with one of a pod not listed",
			withGhostOf(workload(resourceAverage("cpu", math.MaxInt64), 1, 0, each(1, 1<<62)), 1<<62),
			[]string{"cpu resource: the sum of the usages is beyond 64 bits of milli-units and wrapped" + controllers},
		},
		{
			"a sum of requests", workload(cpuUtilization(50), 3, 1<<62, each(3, 0)),
			[]string{utilization + "the sum of the requests is beyond 64 bits of milli-units and wrapped" + controllers},
		},
		{
			"a hundred times the usage", workload(cpuUtilization(50), 1, 1<<60, each(1, 1<<60)),
			[]string{utilization + "100 times the usage is beyond 64 bits of milli-units and wrapped" + controllers},
		},
		{
			"a percentage", workload(cpuUtilization(50), 2, 1, each(2, 3e9)),
			[]string{utilization + "the percentage is beyond 32 bits and lost its upper ones" + controllers},
		},
		{
			"a proposal that the processor decides upstream", workload(podsAverage(1), 2, 0, each(2, 1<<40)),
			[]string{pods + "the proposal is beyond the range of a count and saturates at 2147483647" + processor},
		},
		{"a proposal that upstream caps", withReady(total(externalValue(1), 4, 1<<40)), []string{queue + tooMany}},
		{
			"one from zero that it does not", fromZero(total(externalValue(1), 0, 1<<40)),
			[]string{queue + "the proposal is beyond the range of a count and saturates at 2147483647" + processor},
		},
		{"a proposal per replica that upstream caps", total(externalAverage(1), 4, 1<<40), []string{queue + tooMany}},
		{
			"one of an object that it does not", total(objectAverage(1), 4, 1<<40),
			[]string{"external metric rps(nil): the proposal is beyond the range of a count and saturates at 2147483647" + processor},
		},
		{
			"nothing observed", observed(total(externalAverage(unit), 4, 4*unit), 0),
			[]string{queue + "no replicas are observed, so the average shown is that of a division by 0"},
		},
		{
			"a negative sum", total(externalAverage(unit), 4, -1),
			[]string{queue + "the sum of the series fell below 0 or beyond 64 bits of milli-units; both count as the largest number, as in the Kubernetes controller", queue + tooMany},
		},
		{
			"a capped sum", withReady(total(externalValue(unit), 4, math.MaxInt64, 1)),
			[]string{queue + "the sum of the series is beyond 64 bits of milli-units and stays at the largest number" + controllers, queue + tooMany},
		},
		{"a policy within its range", up(ScalingPolicy{PodsPolicy, math.MaxInt32 - 10, 60}), nil},
		{
			"a policy of pods past it", up(ScalingPolicy{PodsPolicy, math.MaxInt32, 60}),
			[]string{"policy Pods 2147483647/60s: its limit is beyond the range of a count and wrapped to -2147483639" + controllers},
		},
		{
			"a policy of percent past it", up(ScalingPolicy{PercentPolicy, math.MaxInt32, 60}), nil, // 10 times 21474837 is within
		},
		{"a policy of the most pods down", down(ScalingPolicy{PodsPolicy, math.MaxInt32, 60}), nil},
		{"a policy of the most percent down", down(ScalingPolicy{PercentPolicy, math.MaxInt32, 60}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, "warnings", decide(tt.in).Explanation.Warnings, tt.want)
		})
	}

	// From 100 the largest percentage reaches the range's end, and what was there already is on top of that; from
	// 1000 it leaves the range both ways.
	for wants, from := range map[int64]int32{200: 100, 2000: 1000, 500: 1000} {
		in := wanting(from)
		most := policies(ScalingPolicy{PercentPolicy, math.MaxInt32, 60})
		in.Spec.MaxReplicas, in.Spec.Behavior = 5000, behavior(most, most)
		read(in, 0, wants*unit)
		equal(t, "a policy of percent past it", decide(in).Explanation.Warnings,
			[]string{"policy Percent 2147483647/60s: its limit is beyond the range of a count and saturates" + processor})
	}
}

// A proposal far below zero is capped by nobody; upstream's conversion gives the
// smallest number on every processor.
func TestAProposalFarBelowZeroDoesNotStayAtTheLargest(t *testing.T) {
	equal(t, "warnings", decide(withReady(total(externalValue(1), 4, -1<<40))).Explanation.Warnings, []string{
		"external metric queue(nil): the proposal is far below 0 and stays at the smallest number, as the Kubernetes controller's does",
	})
}

func withGhostOf(in *Input, milli int64) *Input {
	in.PodMetrics = append(in.PodMetrics, podMetrics("ghost", "cpu", milli))
	return in
}

// What the controller makes of these depends on the processor it runs on.
func TestWarningsOfWhatDependsOnTheProcessor(t *testing.T) {
	const depends = "the Kubernetes controller's result depends on the processor"
	for name, in := range map[string]*Input{
		"a total of 0 against a target of 0":      withReady(total(externalValue(0), 4, 0)),
		"an average that rounds to 2 to the 63rd": total(objectAverage(9223372036854770000), 1, 9223372036854775800),
		"twice a count beyond half the largest": changed(wanting(5), func(in *Input) {
			in.Scale, in.Spec.MaxReplicas = Scale{SpecReplicas: 1 << 30, StatusReplicas: 1 << 30}, math.MaxInt32
		}),
	} {
		warnings := strings.Join(decide(in).Explanation.Warnings, "; ")
		if !strings.Contains(warnings, depends) {
			t.Errorf("%s: %q", name, warnings)
		}
	}
}
