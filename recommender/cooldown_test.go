package recommender

import (
	"testing"
	"time"
)

// The cooldown profile, step by step.

const notAtAll = time.Duration(-1)

// cooled is an input of 10 replicas that want so many, last changed that long before
// their reading, which is of now.
func cooled(wanted int32, changed time.Duration) *Input {
	in := wants(10, wanted)
	in.Options.Profile = &cooldown
	in.Readings[0].Timestamp = t0
	if changed != notAtAll {
		in.PreviousStatus = &Status{LastScaleTime: t0.Add(-changed)}
	}
	return in
}

// Steps 5 to 7.
func TestCooldownDelays(t *testing.T) {
	const (
		up, down = 3 * time.Minute, 5 * time.Minute

		ready        = "the last scale time was sufficiently old as to warrant a new scale"
		backoffDown  = "the time since the previous scale is still within the downscale forbidden window"
		backoffBoth  = "the time since the previous scale is still within both the downscale and upscale forbidden windows"
		notUp        = "False BackoffBoth"
		notDown      = "False BackoffDownscale"
		readyForMore = "True ReadyForNewScale"
	)
	for _, tt := range []struct {
		name    string
		changed time.Duration
		wants   int32
		want    int32
		able    string
		message string
	}{
		{"never changed, fewer", notAtAll, 3, 3, readyForMore, ready},
		{"never changed, more", notAtAll, 12, 12, readyForMore, ready},
		{"changed just now, fewer", 0, 3, 10, notUp, backoffBoth},
		{"changed just now, more", 0, 12, 10, notUp, backoffBoth},
		{"changed just now, as many", 0, 10, 10, notUp, backoffBoth},
		{"changed after the reading", -time.Second, 12, 10, notUp, backoffBoth},
		{"within the delay of a way up", up - 1, 12, 10, notUp, backoffBoth},
		{"exactly after it", up, 12, 10, notUp, backoffBoth},
		{"a nanosecond later, more", up + 1, 12, 12, notDown, backoffDown},
		{"a nanosecond later, fewer", up + 1, 3, 10, notDown, backoffDown},
		{"a nanosecond later, as many", up + 1, 10, 10, notDown, backoffDown},
		{"exactly after the delay of a way down", down, 3, 10, notDown, backoffDown},
		{"and more then", down, 12, 12, notDown, backoffDown},
		{"a nanosecond after that", down + 1, 3, 3, readyForMore, ready},
		{"a nanosecond after that, as many", down + 1, 10, 10, readyForMore, ready},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := cooled(tt.wants, tt.changed)
			d := decide(in)
			equal(t, "path", d.Path, PathMetrics)
			equal(t, "replicas", d.Desired, tt.want)
			equal(t, "AbleToScale", reasonOf(d.Status.Conditions, AbleToScale), tt.able)
			equal(t, "its message", conditionByType(d.Status.Conditions, AbleToScale).Message, tt.message)
			equal(t, "ScalingActive", reasonOf(d.Status.Conditions, ScalingActive), "True ValidMetricFound")
			equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), "False DesiredWithinRange")
			equal(t, "desired replicas of the status", d.Status.DesiredReplicas, tt.want)
			equal(t, "readings", d.Status.CurrentMetrics[0].Type, ExternalMetric)
			equal(t, "what v1.36, which waits for nothing, comes to", by(&v136, in).Desired, tt.wants)
		})
	}
}

// Of the four reasons BackoffUpscale can't come up with the usual delays: the
// one upwards is shorter, and both begin with the same change.
func TestCooldownReasons(t *testing.T) {
	read, usual := t0, DefaultOptions()
	for _, tt := range []struct {
		name string
		last time.Time
		want string
	}{
		{"never changed", time.Time{}, "ReadyForNewScale"},
		{"just now", read, "BackoffBoth"},
		{"a while ago", read.Add(-4 * time.Minute), "BackoffDownscale"},
		{"long ago", read.Add(-6 * time.Minute), "ReadyForNewScale"},
	} {
		equal(t, tt.name, coolDown(&usual, tt.last, read, 10, 10).Reason, tt.want)
	}
	turned := Options{UpscaleDelay: 5 * time.Minute, DownscaleDelay: time.Minute}
	equal(t, "a longer delay upwards", coolDown(&turned, read.Add(-4*time.Minute), read, 10, 10).Reason, "BackoffUpscale")
}

// It is the metric that wins whose reading's instant counts: here that of a minute
// ago, four minutes after the change before.
func TestCooldownRunsToTheReading(t *testing.T) {
	const (
		changedAgo = 5 * time.Minute
		readAgo    = time.Minute
	)
	cpu := func(metric MetricSpec) *Input {
		in := workload(metric, 10, 100, each(10, 20))
		for i := range in.PodMetrics {
			in.PodMetrics[i].Timestamp = t0
		}
		in.PodMetrics[0].Timestamp = t0.Add(-readAgo)
		return in
	}
	stamped := func(in *Input) *Input {
		in.Readings[0].Timestamp = t0.Add(-readAgo)
		return in
	}
	unstamped := func(in *Input) *Input {
		in.Readings[0].Timestamp = time.Time{}
		for i := range in.PodMetrics {
			in.PodMetrics[i].Timestamp = time.Time{}
		}
		return in
	}
	for _, tt := range []struct {
		name string
		in   *Input
	}{
		{"a resource: the first pod's", cpu(cpuUtilization(50))},
		{"an average of one", cpu(resourceAverage("cpu", 50))},
		{"a Pods metric", stamped(workload(podsAverage(50), 10, 0, each(10, 20)))},
		{"an object's total", stamped(withReady(total(objectValue(10*unit), 10, 4*unit)))},
		{"an object's average", stamped(total(objectAverage(10*unit), 10, 40*unit))},
		{"an external total", stamped(withReady(total(externalValue(10*unit), 10, 4*unit)))},
		{"an external average", stamped(total(externalAverage(10*unit), 10, 40*unit))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PreviousStatus = &Status{LastScaleTime: t0.Add(-changedAgo - 1)}
			d := by(&cooldown, tt.in)
			equal(t, "replicas", d.Desired, int32(10))
			equal(t, "AbleToScale", reasonOf(d.Status.Conditions, AbleToScale), "False BackoffDownscale")
			equal(t, "what is asked for", d.Explanation.Proposal, int32(4))
			equal(t, "the same read now", by(&cooldown, unstamped(tt.in)).Desired, int32(4))
		})
	}

	t.Run("the winner's", func(t *testing.T) {
		in := cooled(12, 4*time.Minute)
		in.Spec.Metrics = append(in.Spec.Metrics, externalAverage(unit))
		in.Readings = append(in.Readings, Readings{Values: []Value{{Milli: 14 * unit}}, Timestamp: t0.Add(-time.Minute)})
		equal(t, "the second one, of a minute ago", by(&cooldown, in).Desired, int32(10))
		in.Readings[1].Timestamp = t0.Add(-time.Minute + 1)
		equal(t, "a nanosecond less", by(&cooldown, in).Desired, int32(14))
		in.Readings[0].Values[0].Milli = 14 * unit
		in.Readings[0].Timestamp = t0.Add(-time.Minute)
		equal(t, "of equals the first one", by(&cooldown, in).Desired, int32(10))
	})

	t.Run("now where nothing is asked for", func(t *testing.T) {
		in := cooled(0, changedAgo+1)
		in.Readings[0].Timestamp = t0.Add(-readAgo)
		equal(t, "replicas", decide(in).Desired, int32(1))
		read(in, 0, unit)
		in.Readings[0].Timestamp = t0.Add(-readAgo)
		equal(t, "where one is", decide(in).Desired, int32(10))
	})

	t.Run("the first value's is the reading's", func(t *testing.T) {
		var r Readings
		r.Add(t0, Value{Milli: 1})
		r.Add(t0.Add(time.Hour), Value{Milli: 2})
		equal(t, "the reading", r, Readings{Timestamp: t0, Values: []Value{{Milli: 1}, {Milli: 2}}})
	})
}

// Steps 1 and 2.
func TestCooldownCountsWhatIsObserved(t *testing.T) {
	scaled := func(spec, observed, wanted int32) *Input {
		in := cooled(wanted, notAtAll)
		in.Scale = Scale{SpecReplicas: spec, StatusReplicas: observed}
		in.Spec.MinReplicas, in.Spec.MaxReplicas = 2, 20
		return in
	}
	for _, tt := range []struct {
		name    string
		in      *Input
		path    Path
		current int32
		want    int32
		reason  string
		// of136 is v1.36's count, which counts the desired replicas.
		of136 int32
	}{
		{"as many as wanted", scaled(5, 8, 8), PathMetrics, 8, 8, "", 8},
		{"fewer than wanted", scaled(8, 5, 8), PathMetrics, 5, 8, "external metric queue(nil) above target", 8},
		{"twice as many at once", scaled(10, 5, 19), PathMetrics, 5, 10, "external metric queue(nil) above target", 19},
		{"none asked for", scaled(0, 5, 8), PathScalingDisabled, 5, 5, "", 0},
		{"above the maximum", scaled(10, 25, 8), PathAboveMax, 25, 20, "Current number of replicas above Spec.MaxReplicas", 8},
		{"below the minimum", scaled(10, 1, 8), PathBelowMin, 1, 2, "Current number of replicas below Spec.MinReplicas", 8},
		{"none observed", scaled(10, 0, 8), PathBelowMin, 0, 2, "Current number of replicas below Spec.MinReplicas", 8},
		{
			"none observed and no minimum", changed(scaled(10, 0, 8), func(in *Input) { in.Spec.MinReplicas = 0 }),
			PathBelowMin, 0, 1, "Current number of replicas must be greater than 0", 8,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Explain = true
			d, next := Recommend(t0, tt.in, nil)
			equal(t, "path", d.Path, tt.path)
			equal(t, "from", d.Current, tt.current)
			equal(t, "to", d.Desired, tt.want)
			equal(t, "the reason", d.Reason, tt.reason)
			equal(t, "the status", [2]int32{d.Status.CurrentReplicas, d.Status.DesiredReplicas}, [2]int32{tt.current, tt.want})
			equal(t, "a change is pending", next.Pending != nil, d.Changes())
			equal(t, "recommendations", len(next.Recommendations), 0)
			equal(t, "replicas of v1.36", by(&v136, tt.in).Desired, tt.of136)
		})
	}
}

func TestCooldownForcesBoundsWithoutDelay(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Input)
		want   int32
	}{
		"to the maximum":     {func(in *Input) { in.Spec.MaxReplicas = 4 }, 4},
		"to the minimum":     {func(in *Input) { in.Spec.MinReplicas = 30 }, 30},
		"to one from none":   {func(in *Input) { in.Spec.MinReplicas, in.Scale.StatusReplicas = 0, 0 }, 1},
		"without the metric": {func(in *Input) { in.Spec.MaxReplicas, in.Readings[0].Error = 4, "away" }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			in := cooled(10, 0)
			in.PreviousStatus.CurrentMetrics = previous.CurrentMetrics
			d := decide(changed(in, tt.change))
			equal(t, "replicas", d.Desired, tt.want)
			equal(t, "AbleToScale", reasonOf(d.Status.Conditions, AbleToScale), "True SucceededGetScale")
			equal(t, "conditions", len(d.Status.Conditions), 1)
			equal(t, "readings", len(d.Status.CurrentMetrics), 0)
			equal(t, "events", len(d.Events), 0)
		})
	}
}

// Step 3: what fails first is all there is.
func TestCooldownEndsWithTheFirstFailure(t *testing.T) {
	in := cooled(15, 0)
	in.Spec.Metrics = []MetricSpec{externalAverage(unit), podsAverage(unit), objectValue(unit)}
	in.Readings = append(in.Readings, Readings{Error: "away"}, Readings{Error: "gone"})
	in.PreviousStatus = &previous
	d := decide(in)
	const text = "unable to get metric pps: unable to fetch metrics from custom metrics API: away"
	equal(t, "path", d.Path, PathMetricsFailed)
	equal(t, "replicas", d.Desired, int32(10))
	equal(t, "the error", d.Error,
		"failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: failed to get pods metric value: "+text)
	equal(t, "events", d.Events, []Event{
		{EventWarning, "FailedGetPodsMetric", text},
		{EventWarning, "FailedComputeMetricsReplicas", "failed to get pods metric value: " + text},
	})
	equal(t, "metrics that were looked at", len(d.Explanation.Metrics), 2)
	equal(t, "conditions", d.Status.Conditions[1:], []Condition{
		gotScale, {ScalingActive, ConditionFalse, "FailedGetPodsMetric", "the HPA was unable to compute the replica count: " + text, t0},
	})
	equal(t, "desired replicas stay", d.Status.DesiredReplicas, previous.DesiredReplicas)
	equal(t, "readings stay", d.Status.CurrentMetrics, previous.CurrentMetrics)
	equal(t, "replicas of v1.36", by(&v136, in).Desired, int32(15))

	first := cooled(15, 0)
	first.Spec.Metrics = []MetricSpec{podsAverage(unit), externalAverage(unit)}
	first.Readings = []Readings{{Error: "away"}, first.Readings[0]}
	equal(t, "metrics that were looked at where the first fails", len(decide(first).Explanation.Metrics), 1)
}

// Step 4: the limits come before the delays.
func TestCooldownLimits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to int32
		change   func(*Input)
		want     int32
		limited  string
	}{
		{"twice as many", 10, 50, func(*Input) {}, 20, "True ScaleUpLimit"},
		{"at least four", 1, 50, func(*Input) {}, 4, "True ScaleUpLimit"},
		{"to the maximum where that is less", 10, 50, func(in *Input) { in.Spec.MaxReplicas = 20 }, 20, "True TooManyReplicas"},
		{"to the minimum", 10, 3, func(in *Input) { in.Spec.MinReplicas = 4 }, 4, "True TooFewReplicas"},
		{"to one", 10, 0, func(in *Input) { in.Spec.MinReplicas = 0 }, 1, "True TooFewReplicas"},
		{"behavior is not known", 10, 15, func(in *Input) { in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 1, 60}), nil) }, 15, "False DesiredWithinRange"},
		{"held back by the delay too", 10, 50, func(in *Input) { in.PreviousStatus = &Status{LastScaleTime: t0} }, 10, "True ScaleUpLimit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := changed(wants(tt.from, tt.to), tt.change)
			d := by(&cooldown, in)
			equal(t, "replicas", d.Desired, tt.want)
			equal(t, "ScalingLimited", reasonOf(d.Status.Conditions, ScalingLimited), tt.limited)
		})
	}
}

func TestCooldownWithoutAScale(t *testing.T) {
	in := cooled(12, notAtAll)
	in.ScaleError, in.PreviousStatus = &ScaleError{Message: "gone"}, &Status{CurrentReplicas: 7}
	d := decide(in)
	equal(t, "path", d.Path, PathScaleUnavailable)
	equal(t, "replicas", [2]int32{d.Current, d.Desired}, [2]int32{7, 7})
	equal(t, "AbleToScale", reasonOf(d.Status.Conditions, AbleToScale), "False FailedGetScale")
	equal(t, "the error", d.Error, "failed to query scale subresource for Deployment/ns/web: gone")
}

// AbleToScale is True within each evaluation before it is False again.
func TestCooldownConditions(t *testing.T) {
	in := cooled(12, time.Minute)
	in.PreviousStatus.Conditions = []Condition{
		{AbleToScale, ConditionFalse, "BackoffBoth", "before", longAgo},
		{ScalingActive, ConditionTrue, "ValidMetricFound", "before", longAgo},
	}
	d := decide(in)
	equal(t, "conditions", d.Status.Conditions, []Condition{
		{AbleToScale, ConditionFalse, "BackoffBoth", "the time since the previous scale is still within both the downscale and upscale forbidden windows", t0},
		validQueue, inRange,
	})
	s := d.Explanation.Stabilization
	changedAt := t0.Add(-time.Minute).UnixNano()
	window := func(direction Direction, length time.Duration) Window {
		over := changedAt + int64(length) + 1
		return Window{Direction: direction, Length: length, Counted: 1, Replicas: 10, Held: true, HeldSince: changedAt, ReleasedAt: over, FullyReleasedAt: over}
	}
	equal(t, "the explanation's windows", s.Windows[:s.WindowsLen], []Window{window(Up, 3*time.Minute), window(Down, 5*time.Minute)})
	equal(t, "what they made of it", [2]int32{s.Proposed, s.Stabilized}, [2]int32{12, 10})
}

// Each change, of either direction, restarts both delays; and only an applied change
// does.
func TestCooldownOverTime(t *testing.T) {
	const s, m = time.Second, time.Minute
	in := wanting(10)
	in.Options.Profile = &cooldown
	x := follow(t, in, []step{
		{at: 0, wants: 12, want: 12, able: ReadyForNewScale, reason: "external metric queue(nil) above target"},
		{at: 15 * s, wants: 14, want: 12, able: "BackoffBoth"},
		{at: 3 * m, wants: 14, want: 12, able: "BackoffBoth"},
		{at: 3*m + 1, wants: 14, want: 14, able: "BackoffDownscale"},
		{at: 5*m + 1, wants: 7, want: 14, able: "BackoffBoth"},
		{at: 8*m + 1, wants: 7, want: 14, able: "BackoffDownscale"},
		{at: 8*m + 2, wants: 7, want: 7, able: ReadyForNewScale, reason: "All metrics below target"},
		{at: 10 * m, wants: 14, want: 7, able: "BackoffBoth"},
		{at: 11*m + 2, wants: 9, want: 7, able: "BackoffBoth"},
		{at: 11*m + 3, wants: 9, want: 9, able: "BackoffDownscale"},
	})
	equal(t, "the last change", x.history.Status.LastScaleTime, t0.Add(11*m+3))
	equal(t, "recommendations", len(x.history.Recommendations), 0)
	equal(t, "scale events", len(x.history.ScaleUps)+len(x.history.ScaleDowns), 0)

	read(in, 0, 11*unit)
	d := x.recommend(t, 15*m)
	equal(t, "replicas", d.Desired, int32(11))
	settled, next := mustSettle(t, x.history, "ns", d.ID, Failed, "conflict")
	equal(t, "events of one that fails", settled.Events,
		[]Event{{EventWarning, "FailedRescale", "New size: 11; reason: external metric queue(nil) above target; error: conflict"}})
	x.keep(t, next)
	equal(t, "the last change is the one before", next.Status.LastScaleTime, t0.Add(11*m+3))
	d = x.recommend(t, 15*m+15*s)
	equal(t, "replicas at once", d.Desired, int32(11))
	equal(t, "events of one that is applied", x.settle(t, d).Events,
		[]Event{{EventNormal, "SuccessfulRescale", "New size: 11; reason: external metric queue(nil) above target"}})
}
