package recommender

import (
	"math"
	"slices"
	"testing"
	"time"
)

// The profile design-2015, step by step.

// utilized is an input with a target of 80 % and pods that use so many percent.
func utilized(replicas int32, percent ...int64) *Input {
	in := workload(cpuUtilization(80), replicas, 100, usages(percent...))
	in.Options.Profile = &design2015
	return in
}

// changedBefore is the input of a target that was changed that long ago.
func changedBefore(in *Input, ago time.Duration) *Input {
	in.PreviousStatus = &Status{LastScaleTime: t0.Add(-ago)}
	return in
}

// alike are n pods' percentages.
func alike(n int, percent int64) []int64 { return slices.Repeat([]int64{percent}, n) }

// Steps 2 to 6.
func TestDesignCounts(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   *Input
		// proposal is the proposal of the sum, want the decision.
		proposal, want int32
		ratio          float64
		// of136 is what v1.36 comes to.
		of136 int32
	}{
		{"W54: the sum over the target", utilized(3, 100, 95, 90), 4, 4, 1.1875, 4},
		{"W56: within tolerance", utilized(4, alike(4, 87)...), 5, 4, 1.0875, 4},
		{"exactly a tenth above", utilized(4, alike(4, 88)...), 5, 4, 1.1, 4},
		{"one percent more", utilized(4, alike(4, 89)...), 5, 5, 1.1125, 5},
		{"exactly a tenth below", utilized(10, alike(10, 72)...), 9, 10, 0.9, 10},
		{"one percent less", utilized(10, alike(10, 71)...), 9, 9, 0.8875, 9},
		{"on target", utilized(4, alike(4, 80)...), 4, 4, 1, 4},
		{"percents do not truncate", changed(utilized(2, 0, 0), func(in *Input) {
			for i := range in.Pods { // 88.8 %, which truncated is within tolerance
				in.Pods[i].Containers[0].Requests[0].Quantity = milliQuantity(1000)
				in.PodMetrics[i].Containers[0].Usage[0].Milli = 888
			}
		}), 3, 3, 1.11, 2},
		{"each pod counts by its own request", changed(utilized(2, 100, 100), func(in *Input) {
			in.Pods[1].Containers[0].Requests[0].Quantity = milliQuantity(400)
		}), 2, 2, 0.78125, 1}, // (1 + 1/4) / 0.8 against 200 over 500
		{"at most the maximum", changed(utilized(3, alike(3, 400)...), func(in *Input) { in.Spec.MaxReplicas = 10 }), 15, 10, 5, 6},
		{"not limited otherwise", utilized(1, 4000), 50, 50, 50, 4},
		{"at least the minimum", changed(utilized(5, alike(5, 10)...), func(in *Input) { in.Spec.MinReplicas = 2 }), 1, 2, 0.125, 2},
		{"at least one", changed(utilized(5, alike(5, 0)...), func(in *Input) { in.Spec.MinReplicas = 0 }), 0, 1, 0, 0},
		{"against what is observed", changed(utilized(9, alike(5, 120)...), func(in *Input) { in.Scale.StatusReplicas = 5 }), 8, 8, 1.5, 8},
		{"up although there are fewer pods", utilized(6, alike(4, 160)...), 8, 8, 2, 8},
		{"not down although the ratio is above", utilized(9, alike(4, 160)...), 8, 9, 2, 8},
		{"not up although the ratio is below", utilized(2, alike(4, 60)...), 3, 2, 0.75, 3},
		{"another target", changed(utilized(3, alike(3, 90)...), func(in *Input) { in.Spec.Metrics[0] = cpuUtilization(30) }), 9, 9, 3, 6},
		{"80 where there is none", changed(utilized(3, alike(3, 100)...), func(in *Input) { in.Spec.Metrics[0].Target = MetricTarget{} }), 4, 4, 1.25, 3},
		{"80 where there is no metric", changed(utilized(3, alike(3, 100)...), func(in *Input) { in.Spec.Metrics = nil }), 4, 4, 1.25, 0},
		{"behavior is not known", changed(utilized(3, alike(3, 160)...), func(in *Input) {
			in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 1, 60}), nil)
			in.Spec.Behavior.ScaleUp.Tolerance = new(5.0)
		}), 6, 6, 2, 3},
		{"its own tolerance", changed(utilized(4, alike(4, 89)...), func(in *Input) { in.Options.Tolerance = 0.12 }), 5, 4, 1.1125, 4},
		{"no tolerance", changed(utilized(4, alike(4, 81)...), func(in *Input) { in.Options.Tolerance = 0 }), 5, 5, 1.0125, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(tt.in)
			equal(t, "path", d.Path, PathMetrics)
			equal(t, "the proposal", d.Explanation.Proposal, tt.proposal)
			equal(t, "replicas", d.Desired, tt.want)
			equal(t, "the ratio", d.Explanation.Metrics[0].UsageRatio, tt.ratio)
			equal(t, "conditions", len(d.Status.Conditions), 0)
			equal(t, "events", len(d.Events), 0)
			if len(tt.in.Spec.Metrics) > 0 { // which the API never leaves without one
				equal(t, "replicas of v1.36", by(&v136, tt.in).Desired, tt.of136)
			}
		})
	}
}

// No pod is unready, missing or ignored.
func TestDesignCountsAllPods(t *testing.T) {
	pods := slices.Concat(
		each(1, 160),
		with(each(1, 160), func(p *Pod) { p.Phase = PhasePending }),
		with(each(1, 160), func(p *Pod) { p.Phase = PhaseFailed }),
		deleted(each(1, 160)),
		with(each(1, 160), func(p *Pod) { p.Ready, p.StartTime, p.ReadyTransition = ReadyFalse, t0, t0 }),
	)
	in := workload(cpuUtilization(80), 5, 100, pods)
	in.PodMetrics = append(in.PodMetrics, podMetrics("ghost", "cpu", 1e6)) // of an unlisted pod
	d := by(&design2015, in)
	equal(t, "replicas", d.Desired, int32(10))
	e := d.Explanation.Metrics[0]
	equal(t, "pods", e.Counts, PodCounts{Ready: 5})
	equal(t, "sums", [2]int64{e.TotalUsage, e.TotalRequests}, [2]int64{800, 500})
	equal(t, "the reading", d.Status.CurrentMetrics, []MetricStatus{{
		Type: ResourceMetric, Resource: "cpu",
		Current: MetricValue{AverageUtilization: 160, HasAverageUtilization: true, AverageValue: 160, HasAverageValue: true},
	}})
	equal(t, "replicas of v1.36, which leaves three out", by(&v136, in).Desired, int32(5))
}

// What floating point, summed up as written, gets wrong by one.
func TestDesignIsExact(t *testing.T) {
	for _, tt := range []struct {
		pods            int
		percent, target int64
		want            int32
	}{
		{3, 160, 80, 6},
		{3, 110, 30, 11},
		{10, 70, 35, 20},
		{9, 70, 10, 63},
	} {
		var sum float64
		for range tt.pods {
			sum += float64(tt.percent) / 100
		}
		if inexact := math.Ceil(sum / (float64(tt.target) / 100)); inexact != float64(tt.want+1) {
			t.Errorf("%d pods at %d %% of %d %%: floating point has %v, which tells nothing", tt.pods, tt.percent, tt.target, inexact)
		}
		in := utilized(int32(tt.pods), alike(tt.pods, tt.percent)...)
		in.Spec.Metrics[0] = cpuUtilization(int32(tt.target))
		equal(t, "replicas", decide(in).Desired, tt.want)
	}
	// Ratios of exactly 1.1 and 0.9, which floating point has outside of that.
	for _, tt := range []struct {
		pods            int
		percent, target int64
	}{
		{7, 77, 70},
		{10, 72, 80},
	} {
		var sum float64
		for range tt.pods {
			sum += float64(tt.percent) / 100
		}
		if inexact := sum / float64(tt.pods) / (float64(tt.target) / 100); inexact <= 1.1 && inexact >= 0.9 {
			t.Errorf("%d pods at %d %% of %d %%: floating point has %v, which tells nothing", tt.pods, tt.percent, tt.target, inexact)
		}
		in := utilized(int32(tt.pods), alike(tt.pods, tt.percent)...)
		in.Spec.Metrics[0] = cpuUtilization(int32(tt.target))
		equal(t, "replicas", decide(in).Desired, int32(tt.pods))
	}
}

// Steps 5 to 7.
func TestDesignWaits(t *testing.T) {
	const up, down = 3 * time.Minute, 5 * time.Minute
	more := func() *Input { return utilized(3, alike(3, 160)...) }
	fewer := func() *Input { return utilized(3, alike(3, 20)...) }
	for _, tt := range []struct {
		name    string
		in      *Input
		changed time.Duration
		want    int32
		of136   int32
	}{
		{"up within three minutes", more(), up - 1, 3, 6},
		{"up after exactly three", more(), up, 3, 6},
		{"up a nanosecond later", more(), up + 1, 6, 6},
		{"down just then", fewer(), up + 1, 3, 1},
		{"down after exactly five", fewer(), down, 3, 1},
		{"down a nanosecond later", fewer(), down + 1, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := changedBefore(tt.in, tt.changed)
			in.PodMetrics[0].Timestamp = t0.Add(-time.Hour) // which plays no part
			equal(t, "replicas", decide(in).Desired, tt.want)
			equal(t, "replicas of v1.36", by(&v136, in).Desired, tt.of136)
		})
	}
	s := decide(changedBefore(more(), 4*time.Minute)).Explanation.Stabilization
	at := func(d time.Duration) int64 { return t0.Add(d).UnixNano() }
	equal(t, "the explanation's windows", s.Windows[:s.WindowsLen], []Window{
		{Direction: Up, Length: up, Replicas: 3},
		{Direction: Down, Length: down, Counted: 1, Replicas: 3, Held: true, HeldSince: at(-4 * time.Minute), ReleasedAt: at(time.Minute) + 1, FullyReleasedAt: at(time.Minute) + 1},
	})
}

func TestDesignCorrectsWhatIsOutOfRangeAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		observed int32
		min, max int32
		path     Path
		want     int32
		reason   string
	}{
		{"above the maximum", 12, 2, 10, PathAboveMax, 10, "Current number of replicas above Spec.MaxReplicas"},
		{"below the minimum", 3, 5, 10, PathBelowMin, 5, "Current number of replicas below Spec.MinReplicas"},
		{"none and no minimum", 0, 0, 10, PathBelowMin, 1, "Current number of replicas must be greater than 0"},
		{"none", 0, 2, 10, PathBelowMin, 2, "Current number of replicas below Spec.MinReplicas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := changedBefore(utilized(7, alike(7, 80)...), 0)
			in.Scale.StatusReplicas, in.Spec.MinReplicas, in.Spec.MaxReplicas = tt.observed, tt.min, tt.max
			in.Readings[0].Error = "not even asked"
			d := decide(in)
			equal(t, "path", d.Path, tt.path)
			equal(t, "replicas", [2]int32{d.Current, d.Desired}, [2]int32{tt.observed, tt.want})
			equal(t, "the reason", d.Reason, tt.reason)
			equal(t, "conditions", len(d.Status.Conditions), 0)
			equal(t, "path of v1.36, which goes by what is asked for", by(&v136, in).Path, PathMetricsFailed)
		})
	}
	t.Run("what someone scaled to zero is scaled up again", func(t *testing.T) {
		in := utilized(0)
		equal(t, "replicas", decide(in).Desired, int32(1))
		equal(t, "replicas of v1.36", by(&v136, in).Desired, int32(0))
	})
}

// Step 1 and what else is an error.
func TestDesignErrors(t *testing.T) {
	const oneMetric = "the profile design-2015 knows one metric: the cpu utilization of the pods"
	three := func(change func(*Input)) *Input { return changed(utilized(3, alike(3, 160)...), change) }
	for _, tt := range []struct {
		name, event, text string
		in                *Input
	}{
		{"a pod without usage", "FailedGetMetrics", "metrics obtained for 2/3 of pods", three(func(in *Input) { in.PodMetrics = in.PodMetrics[:2] })},
		{"one whose container has none", "FailedGetMetrics", "metrics obtained for 2/3 of pods", three(func(in *Input) { in.PodMetrics[1].Containers[0].Usage = nil })},
		{"no usage at all", "FailedGetMetrics", "no metrics returned from resource metrics API", three(func(in *Input) { in.PodMetrics = nil })},
		{"no answer", "FailedGetMetrics", "unable to fetch metrics from resource metrics API: away", three(func(in *Input) { in.Readings[0].Error = "away" })},
		{"no pods", "FailedGetMetrics", "no pods returned by selector while calculating replica count", three(func(in *Input) { in.Pods = nil })},
		{"a pod without request", "FailedGetMetrics", "some pods do not have request for cpu", three(func(in *Input) { in.Pods[2].Containers[0].Requests = nil })},
		{"one that requests nothing", "FailedGetMetrics", "some pods do not have request for cpu", three(func(in *Input) {
			in.Pods[2].Containers[0].Requests[0].Quantity = milliQuantity(0)
		})},
		{"one that requests at the pod's level alone", "FailedGetMetrics", "some pods do not have request for cpu", three(func(in *Input) {
			in.Pods[2].Containers[0].Requests, in.Pods[2].PodLevelRequests = nil, in.Pods[0].Containers[0].Requests
		})},
		{"an average", "FailedGetMetrics", oneMetric, three(func(in *Input) { in.Spec.Metrics[0] = resourceAverage("cpu", 80) })},
		{"memory", "FailedGetMetrics", oneMetric, three(func(in *Input) { in.Spec.Metrics[0].Resource = "memory" })},
		{"one container", "FailedGetMetrics", oneMetric, three(func(in *Input) { in.Spec.Metrics[0] = containerUtilization("app", 80) })},
		{"another metric", "FailedGetMetrics", oneMetric, three(func(in *Input) { in.Spec.Metrics[0] = externalAverage(unit) })},
		{"two metrics", "FailedGetMetrics", oneMetric, three(func(in *Input) { in.Spec.Metrics = append(in.Spec.Metrics, cpuUtilization(80)) })},
		{"no selector", "SelectorRequired", "selector is required", three(func(in *Input) { in.SelectorProblem = &SelectorProblem{Reason: SelectorRequired} })},
		{"a malformed selector", "InvalidSelector", "bad", three(func(in *Input) { in.SelectorProblem = &SelectorProblem{Reason: InvalidSelector, Message: "bad"} })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PreviousStatus = &Status{DesiredReplicas: 6, CurrentMetrics: previous.CurrentMetrics, LastScaleTime: longAgo}
			d := decide(tt.in)
			equal(t, "path", d.Path, PathMetricsFailed)
			equal(t, "replicas", [2]int32{d.Current, d.Desired}, [2]int32{3, 3})
			equal(t, "events", d.Events, []Event{{EventWarning, tt.event, tt.text}})
			equal(t, "the error", d.Error, "failed to compute desired number of replicas based on CPU utilization for Deployment/ns/web: "+tt.text)
			equal(t, "the status", d.Status, Status{CurrentReplicas: 3, DesiredReplicas: 6, CurrentMetrics: previous.CurrentMetrics, LastScaleTime: longAgo})
		})
	}
	t.Run("pods that another autoscaler selects are no problem", func(t *testing.T) {
		in := three(func(in *Input) {
			in.SelectorProblem = &SelectorProblem{Reason: AmbiguousSelector, Message: "ambiguous"}
		})
		equal(t, "replicas", decide(in).Desired, int32(6))
		equal(t, "path of v1.36", by(&v136, in).Path, PathSelectorFailed)
	})
	t.Run("without a scale", func(t *testing.T) {
		in := three(func(in *Input) { in.ScaleError = &ScaleError{Message: "gone"} })
		in.PreviousStatus = &Status{CurrentReplicas: 7}
		d := decide(in)
		equal(t, "path", d.Path, PathScaleUnavailable)
		equal(t, "replicas", [2]int32{d.Current, d.Desired}, [2]int32{7, 7})
		equal(t, "events", d.Events, []Event{{EventWarning, "FailedGetScale", "gone"}})
		equal(t, "the error", d.Error, "failed to query scale subresource for Deployment/ns/web: gone")
		equal(t, "conditions", len(d.Status.Conditions), 0)
	})
}

func TestDesignSettles(t *testing.T) {
	decided := func(t *testing.T) (*target, Decision) {
		in := changedBefore(utilized(3, alike(3, 160)...), 10*time.Minute)
		in.PreviousStatus.CurrentMetrics, in.PreviousStatus.DesiredReplicas = previous.CurrentMetrics, 3
		in.Options.ScaleToZero, in.Spec.Behavior = true, defaultBehavior()
		x := &target{in: in}
		d := x.recommend(t, 0)
		equal(t, "replicas", d.Desired, int32(6))
		equal(t, "the reason", d.Reason, "CPU utilization above target")
		return x, d
	}
	t.Run("applied", func(t *testing.T) {
		x, d := decided(t)
		s := x.settle(t, d)
		equal(t, "events", s.Events, []Event{{EventNormal, "SuccessfulRescale", "New size: 6"}})
		equal(t, "the last change", s.Status.LastScaleTime, t0)
		equal(t, "replicas of the status", [2]int32{s.Status.CurrentReplicas, s.Status.DesiredReplicas}, [2]int32{3, 6})
		equal(t, "percent", s.Status.CurrentMetrics[0].Current.AverageUtilization, int32(160))
		equal(t, "conditions", len(s.Status.Conditions), 0)
		equal(t, "scale events", len(x.history.ScaleUps), 0)
		equal(t, "recommendations", len(x.history.Recommendations), 0)
	})
	t.Run("failed", func(t *testing.T) {
		x, d := decided(t)
		s, next := mustSettle(t, x.history, "ns", d.ID, Failed, "conflict")
		equal(t, "events", s.Events, []Event{{EventWarning, "FailedRescale", "New size: 6; error: conflict"}})
		equal(t, "the error", s.Error, "failed to rescale Deployment/ns/web: conflict")
		equal(t, "the last change", s.Status.LastScaleTime, t0.Add(-10*time.Minute))
		equal(t, "replicas of the status", [2]int32{s.Status.CurrentReplicas, s.Status.DesiredReplicas}, [2]int32{3, 3})
		equal(t, "readings", s.Status.CurrentMetrics, previous.CurrentMetrics)
		equal(t, "conditions", len(s.Status.Conditions), 0)
		x.keep(t, next)
		equal(t, "replicas at once", x.recommend(t, time.Second).Desired, int32(6))
	})
	t.Run("seen", func(t *testing.T) {
		x, d := decided(t)
		x.in.Scale = Scale{SpecReplicas: 6, StatusReplicas: 3}
		next := x.recommend(t, time.Second)
		equal(t, "settled before", next.SettledBefore, Settled{d.ID, Applied})
		equal(t, "replicas", next.Desired, int32(3)) // it goes by those observed, and waits
		equal(t, "the last change", next.Status.LastScaleTime, t0)
	})
}

func TestDesignOverTime(t *testing.T) {
	const s, m = time.Second, time.Minute
	in := utilized(4, alike(4, 80)...)
	x := &target{in: in}
	for _, tt := range []struct {
		at      time.Duration
		percent int64
		want    int32
	}{
		{0, 160, 8},
		{30 * s, 160, 8},
		{3 * m, 160, 8},
		{3*m + 30*s, 160, 16},
		{5*m + 30*s, 20, 16},
		{8*m + 30*s, 20, 16},
		{9 * m, 20, 4},
		{12 * m, 160, 4},
		{12*m + 1, 160, 8},
	} {
		pods := workload(cpuUtilization(80), 0, 100, each(int(in.Scale.StatusReplicas), tt.percent))
		in.Pods, in.PodMetrics = pods.Pods, pods.PodMetrics
		d := x.recommend(t, tt.at)
		equal(t, "replicas at "+tt.at.String(), d.Desired, tt.want)
		if d.Changes() {
			x.settle(t, d)
		}
	}
}

// What the API never lets through decides something all the same.
func TestDesignOfStrangeNumbers(t *testing.T) {
	for _, tolerance := range []float64{math.NaN(), math.Inf(1)} {
		in := utilized(3, alike(3, 160)...)
		in.Options.Tolerance = tolerance
		equal(t, "replicas with a tolerance that is no number", decide(in).Desired, int32(3))
	}
	in := utilized(3, alike(3, 100)...)
	in.Spec.Metrics[0] = cpuUtilization(0)
	equal(t, "replicas with a target of 0", decide(in).Desired, int32(4))
}

// Resource metrics come with the pods; no reading is needed beside them.
func TestDesignNeedsNoReading(t *testing.T) {
	in := utilized(4, alike(4, 89)...)
	in.Readings = nil
	equal(t, "replicas without a reading", decide(in).Desired, int32(5))
}
