package recommender

import (
	"slices"
	"testing"
	"time"
)

// The groups of pods, each rule and its edges. The pod starts at start and its sample covers
// the 30 s before measured.
func TestGroupingOfPods(t *testing.T) {
	const minute, s = time.Minute, time.Second
	var (
		// started is 5 minutes, the initialization period, ago; a moment later it is initializing.
		started    = t0.Add(-5 * minute)
		starting   = started.Add(1)
		transition = t0.Add(-time.Minute)
	)
	pod := func(phase PodPhase, start time.Time, ready ReadyStatus, transition time.Time) Pod {
		return Pod{Phase: phase, StartTime: start, Ready: ready, ReadyTransition: transition}
	}
	deleting := func(p Pod) Pod {
		p.Deleting = true
		return p
	}
	running := func(start time.Time, ready ReadyStatus, transition time.Time) Pod {
		return pod(PhaseRunning, start, ready, transition)
	}
	const none = -1 // no sample
	for _, tt := range []struct {
		name string
		pod  Pod
		// measured is when the sample ends, after transition; none: there is none.
		measured time.Duration
		// cpu is the group for cpu, other for memory and Pods metrics.
		cpu, other PodGroup
		rule       PodRule // for cpu
	}{
		{"1 a deleted pod is ignored", deleting(running(started, ReadyTrue, transition)), minute, PodIgnored, PodIgnored, RuleDeleting},
		{"1 without sample too", deleting(running(started, ReadyTrue, transition)), none, PodIgnored, PodIgnored, RuleDeleting},
		{"1 before Pending", deleting(pod(PhasePending, started, ReadyTrue, transition)), minute, PodIgnored, PodIgnored, RuleDeleting},
		{"1 a failed pod is ignored", pod(PhaseFailed, started, ReadyTrue, transition), minute, PodIgnored, PodIgnored, RuleFailed},
		{"1 a failed pod without sample is not missing", pod(PhaseFailed, started, ReadyTrue, transition), none, PodIgnored, PodIgnored, RuleFailed},
		{"2 a pending pod is unready whatever it measures", pod(PhasePending, started, ReadyTrue, transition), minute, PodUnready, PodUnready, RulePending},
		{"2 a pending pod without sample is not missing", pod(PhasePending, started, ReadyTrue, transition), none, PodUnready, PodUnready, RulePending},
		{"3 a pod without sample is missing", running(started, ReadyTrue, transition), none, PodMissing, PodMissing, RuleNoSample},
		{"3 an unready one too", running(starting, ReadyFalse, transition), none, PodMissing, PodMissing, RuleNoSample},
		{"3 one that succeeded too", pod(PhaseOther, started, ReadyFalse, transition), none, PodMissing, PodMissing, RuleNoSample},
		{"4 no Ready condition", running(started, NoCondition, time.Time{}), minute, PodUnready, PodReady, RuleNoReadyCondition},
		{"4 no start time", running(time.Time{}, ReadyTrue, transition), minute, PodUnready, PodReady, RuleNoStartTime},
		{"4 starting and not ready", running(starting, ReadyFalse, transition), minute, PodUnready, PodReady, RuleStartingUnready},
		{"4 starting, measured before a window passed", running(starting, ReadyTrue, transition), 30*s - 1, PodUnready, PodReady, RuleStartingSampleTooOld},
		{"4 starting, measured exactly when it passed", running(starting, ReadyTrue, transition), 30 * s, PodReady, PodReady, RuleSampled},
		{"4 starting, of unknown readiness", running(starting, ReadyUnknown, transition), 30 * s, PodReady, PodReady, RuleSampled},
		{"4 starting, of unknown readiness, measured too early", running(starting, ReadyUnknown, transition), 0, PodUnready, PodReady, RuleStartingSampleTooOld},
		{"4 exactly as old as the initialization period, measured too early", running(started, ReadyTrue, transition), 0, PodReady, PodReady, RuleSampled},
		{"4 started, unready since before the readiness delay", running(started, ReadyFalse, started.Add(30*s-1)), minute, PodUnready, PodReady, RuleNeverReady},
		{"4 started, unready since exactly the readiness delay", running(started, ReadyFalse, started.Add(30*s)), minute, PodReady, PodReady, RuleSampled},
		{"4 started, unready since later: was ready once", running(started, ReadyFalse, transition), minute, PodReady, PodReady, RuleSampled},
		{"4 started, of unknown readiness", running(started, ReadyUnknown, started), minute, PodReady, PodReady, RuleSampled},
		{"5 ready", running(started, ReadyTrue, transition), minute, PodReady, PodReady, RuleSampled},
		{"5 one that succeeded, with a sample", pod(PhaseOther, started, ReadyTrue, transition), minute, PodReady, PodReady, RuleSampled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			group := func(metric MetricSpec) PodEvaluation {
				tested := testPod{Pod: tt.pod, usage: 100, sampled: tt.measured != none}
				in := workload(metric, 2, 100, each(1, 100), []testPod{tested})
				for i := range in.PodMetrics {
					in.PodMetrics[i].Timestamp = tt.pod.ReadyTransition.Add(tt.measured)
				}
				return decide(in).Explanation.Metrics[0].Pods[1]
			}
			cpu := group(cpuUtilization(50))
			equal(t, "cpu's group", cpu.Group, tt.cpu)
			equal(t, "cpu's rule", cpu.Rule, tt.rule)
			equal(t, "an average of cpu's group", group(resourceAverage("cpu", 100)).Group, tt.cpu)
			equal(t, "memory's group", group(resourceAverage("memory", 100)).Group, tt.other)
			equal(t, "a pods metric's group", group(podsAverage(100)).Group, tt.other)
		})
	}
}

// Valid and missing samples.
func TestSamplesOfResources(t *testing.T) {
	usage := func(containers ...ContainerMetrics) PodMetrics {
		return PodMetrics{Pod: "web-0", Timestamp: t0, Containers: containers}
	}
	cpu := func(name string, milli int64) ContainerMetrics {
		return ContainerMetrics{Name: name, Usage: []ResourceUsage{{"memory", 7}, {"cpu", milli}}}
	}
	idle := ContainerMetrics{Name: "log", Usage: []ResourceUsage{{"memory", 7}}}
	for _, tt := range []struct {
		name      string
		container string
		metrics   []PodMetrics
		want      int64 // -1: no sample
	}{
		{"containers add up", "", []PodMetrics{usage(cpu("app", 100), cpu("log", 20))}, 120},
		{"a container without the resource leaves none", "", []PodMetrics{usage(cpu("app", 100), idle)}, -1},
		{"no containers leave none", "", []PodMetrics{usage()}, -1},
		{"of two items the later one counts", "", []PodMetrics{usage(cpu("app", 100)), usage(cpu("app", 30))}, 30},
		{"unless it is no sample", "", []PodMetrics{usage(cpu("app", 100)), usage(idle)}, 100},
		{"a named container counts alone", "app", []PodMetrics{usage(idle, cpu("app", 100), cpu("b", 5))}, 100},
		{"a named container without the resource leaves none", "log", []PodMetrics{usage(idle, cpu("app", 100))}, -1},
		{"a named container that is not there leaves none", "x", []PodMetrics{usage(cpu("app", 100))}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			metric := resourceAverage("cpu", 100)
			if tt.container != "" {
				metric.Type, metric.Container = ContainerResourceMetric, tt.container
			}
			in := workload(metric, 2, 0, missing(1), with(each(1, 100), func(p *Pod) { p.Name = "other" }))
			other := podMetrics("other", "cpu", 100)
			other.Containers[0].Name = tt.container
			in.PodMetrics = slices.Concat(tt.metrics, []PodMetrics{other})
			got := decide(in).Explanation.Metrics[0].Pods[0]
			if want := max(tt.want, 0); got.Usage != want || got.HasUsage != (tt.want >= 0) {
				t.Errorf("usage %d, sampled %t; want %d", got.Usage, got.HasUsage, tt.want)
			}
		})
	}
}

// Of two items for a pod, it is also the later one's time that counts.
func TestTheLaterItemsTimeCounts(t *testing.T) {
	in := workload(cpuUtilization(50), 2, 100, each(2, 100))
	in.Pods[0].StartTime, in.Pods[0].ReadyTransition = t0.Add(-time.Minute), t0.Add(-40*time.Second)
	early := in.PodMetrics[0]
	early.Timestamp = t0.Add(-time.Hour)
	in.PodMetrics = append([]PodMetrics{early}, in.PodMetrics...)
	equal(t, "the later one fresh", decide(in).Explanation.Metrics[0].Counts, PodCounts{Ready: 2})
	in.PodMetrics[0], in.PodMetrics[1] = in.PodMetrics[1], in.PodMetrics[0]
	equal(t, "the later one stale", decide(in).Explanation.Metrics[0].Counts, PodCounts{Ready: 1, Unready: 1})
}

// Samples may come in any order and number: joining finds each pod's own.
func TestSamplesJoinInAnyOrder(t *testing.T) {
	const pods = 40
	ordered := make([]int64, pods)
	for i := range ordered {
		ordered[i] = int64(100 + i)
	}
	in := workload(podsAverage(100), pods, 0, usages(ordered...))
	values := in.Readings[0].Values
	reversed := make([]Value, 0, pods)
	for i := range values {
		reversed = append(reversed, values[len(values)-1-i])
	}
	const ghosts = 20 * pods // more than the index is made for
	twice := append([]Value{{values[5].Pod, 999999}, {"ghost-0", 1}}, values...)
	for i := range 2 * ghosts {
		twice = append(twice, Value{"ghost-" + formatReplicas(int32(i%ghosts)), int64(i)})
	}
	for name, tt := range map[string]struct {
		values   []Value
		unlisted int
	}{
		"in order":             {values, 0},
		"reversed":             {reversed, 0},
		"with doubles, ghosts": {twice, ghosts},
	} {
		in.Readings[0].Values = tt.values
		e := decide(in).Explanation.Metrics[0]
		equal(t, name+": unlisted", e.Unlisted, tt.unlisted)
		for i, p := range e.Pods {
			equal(t, name+": usage of "+p.Name, p.Usage, ordered[i])
		}
	}
}
