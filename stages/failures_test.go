package stages_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

func TestFreshness(t *testing.T) {
	minute := func(max time.Duration) stages.Plan {
		return stages.Plan{Freshness: &stages.Freshness{MaxAge: max, FutureTolerance: 10 * time.Second}}
	}
	t.Run("F1 one of four samples is old", func(t *testing.T) {
		g := newPods(t, 4, minute(90*time.Second))
		g.uses(900, 10*time.Second, 10*time.Second, 200*time.Second, 10*time.Second)
		before := slices.Clone(g.in.PodMetrics)
		d := g.round(noon, 4)
		if d.Desired != 6 || d.Adjusted.Plain != 8 {
			t.Errorf("%d, plain %d; want 6, plain 8", d.Desired, d.Adjusted.Plain)
		}
		want := "Resource: 1 of 4 samples does not count: one is 3m20s old, more than 1m30s"
		if got := told(&d, recommender.StageFreshness); !slices.Equal(got, []string{want}) {
			t.Errorf("told %q, want %q", got, want)
		}
		if len(g.in.PodMetrics) != len(before) || g.in.PodMetrics[2].Pod != before[2].Pod {
			t.Error("the caller's samples were changed")
		}
	})
	t.Run("F2 an old value fails its metric", func(t *testing.T) {
		g := newQueue(t, minute(time.Minute))
		d := g.round(noon, 10, taken(series(150), noon.Add(-130*time.Second)))
		if d.Desired != 10 || d.Path != recommender.PathMetricsFailed || d.Adjusted.Plain != 15 {
			t.Errorf("%d by path %v, plain %d; want 10 because metrics fail, plain 15", d.Desired, d.Path, d.Adjusted.Plain)
		}
		const problem = "the newest value is 2m10s old, more than 1m0s"
		want := "External:queue: " + problem + "; the metric counts as failed"
		if got := told(&d, recommender.StageFreshness); !slices.Equal(got, []string{want}) {
			t.Errorf("told %q, want %q", got, want)
		}
		for _, c := range d.Status.Conditions {
			if c.Type == recommender.ScalingActive && (c.Reason != "FailedGetExternalMetric" || !strings.Contains(c.Message, problem)) {
				t.Errorf("condition %+v", c)
			}
		}
	})
	for name, c := range map[string]struct {
		ages    []time.Duration
		problem string
	}{
		"F3 as old as allowed":      {[]time.Duration{90 * time.Second}, ""},
		"F3 one nanosecond more":    {[]time.Duration{90*time.Second + 1}, "the newest value is 1m30.000000001s old, more than 1m30s"},
		"F3 ahead within tolerance": {[]time.Duration{-8 * time.Second}, ""},
		"F3 ahead as allowed":       {[]time.Duration{-10 * time.Second}, ""},
		"F3 ahead beyond tolerance": {[]time.Duration{-12 * time.Second}, "the newest value is 12s ahead of the clock, more than 10s"},
		"one of a sum is old":       {[]time.Duration{0, 100 * time.Second, 120 * time.Second}, "a value is 2m0s old, more than 1m30s"},
		"an object with two fails":  {[]time.Duration{100 * time.Second, 120 * time.Second}, ""}, // in the controller's words
		"all of a sum are old":      {[]time.Duration{100 * time.Second, 120 * time.Second}, "the newest value is 1m40s old, more than 1m30s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newQueue(t, minute(90*time.Second))
			if strings.Contains(name, "object") {
				g.in.Spec.Metrics[0].Type = recommender.ObjectMetric
			}
			var readings recommender.Readings
			for _, age := range c.ages {
				readings.Add(noon, recommender.Value{Milli: 1000})
				readings.Taken = append(readings.Taken, noon.Add(-age))
			}
			d := g.round(noon, 10, readings)
			got := strings.Join(told(&d, recommender.StageFreshness), "\n")
			if want := "External:queue: " + c.problem + "; the metric counts as failed"; c.problem != "" && got != want || c.problem == "" && got != "" {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
	t.Run("no timestamp", func(t *testing.T) {
		g := newQueue(t, minute(time.Minute))
		d := g.round(noon, 10, series(20))
		if got := told(&d, recommender.StageFreshness); len(got) != 1 || got[0] != "External:queue: the value has no timestamp; the metric counts as failed" {
			t.Errorf("told %q", got)
		}
	})
	t.Run("samples that no metric reads", func(t *testing.T) {
		g := newQueue(t, minute(time.Minute))
		g.in.PodMetrics = []recommender.PodMetrics{{Pod: "web-0", Timestamp: noon.Add(-time.Hour)}}
		d := g.round(noon, 10, taken(series(100), noon))
		if len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("told %v", d.Adjusted.Adjustments)
		}
	})
	t.Run("values of pods", func(t *testing.T) {
		g := newPods(t, 2, minute(time.Minute))
		ten := int64(10_000)
		g.in.Spec.Metrics = []recommender.MetricSpec{{
			Type: recommender.PodsMetric, Metric: recommender.MetricIdentifier{Name: "pps"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &ten},
		}}
		g.plan(minute(time.Minute), "Pods:pps")
		values := recommender.Readings{Values: []recommender.Value{{Pod: "web-0", Milli: 15_000}, {Pod: "web-1", Milli: 15_000}}}
		d := g.round(noon, 2, taken(values, noon, noon))
		if d.Desired != 3 || len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("fresh: %d, told %v", d.Desired, d.Adjusted.Adjustments)
		}
		d = g.round(noon, 2, taken(values, noon, noon.Add(-time.Hour)))
		if got := told(&d, recommender.StageFreshness); d.Desired != 2 || len(got) != 1 {
			t.Errorf("one of two is old: %d, told %q", d.Desired, got)
		}
		values.Error = "away"
		if d = g.round(noon, 2, taken(values, noon, noon.Add(-time.Hour))); d.Path != recommender.PathMetricsFailed {
			t.Errorf("one of two is old, and the API fails: path %v", d.Path)
		}
	})
	for name, c := range map[string]struct {
		edit func(g *target, samples []recommender.PodMetrics)
		told string
	}{
		"a sample without a timestamp": {func(_ *target, samples []recommender.PodMetrics) {
			samples[1].Timestamp = time.Time{}
		}, "1 of 4 samples does not count: one has no timestamp"},
		"samples of containers": {func(g *target, samples []recommender.PodMetrics) {
			samples[1].Timestamp = noon.Add(-2 * time.Minute)
			m := &g.in.Spec.Metrics[0]
			m.Type, m.Container, g.around.Plan.Metrics = recommender.ContainerResourceMetric, "app", []string{"ContainerResource:cpu:app"}
		}, "1 of 4 samples does not count: one is 2m0s old, more than 1m30s"},
		"the oldest": {func(_ *target, samples []recommender.PodMetrics) {
			for i, age := range []time.Duration{100 * time.Second, 200 * time.Second, -150 * time.Second} {
				samples[i].Timestamp = noon.Add(-age)
			}
		}, "3 of 4 samples do not count: one is 3m20s old, more than 1m30s"},
		"the one that is most ahead": {func(_ *target, samples []recommender.PodMetrics) {
			samples[0].Timestamp, samples[1].Timestamp = noon.Add(-100*time.Second), noon.Add(150*time.Second)
		}, "2 of 4 samples do not count: one is 2m30s ahead of the clock, more than 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newPods(t, 4, minute(90*time.Second))
			g.uses(900, 10*time.Second, 10*time.Second, 10*time.Second, 10*time.Second)
			c.edit(g, g.in.PodMetrics)
			d := g.round(noon, 4)
			if got := told(&d, recommender.StageFreshness); !slices.Equal(got, []string{"Resource: " + c.told}) {
				t.Errorf("told %q, want %q", got, c.told)
			}
			if strings.HasPrefix(c.told, "1 of") && d.Desired != 6 {
				t.Errorf("%d, want 6", d.Desired)
			}
		})
	}
	t.Run("F4 all samples are old", func(t *testing.T) {
		g := newPods(t, 4, minute(90*time.Second))
		g.uses(10, 100*time.Second, 100*time.Second, 200*time.Second, 100*time.Second)
		d := g.round(noon, 10)
		if d.Desired != 10 || d.Path != recommender.PathMetricsFailed {
			t.Errorf("%d by path %v", d.Desired, d.Path)
		}
	})
}

func TestFallback(t *testing.T) {
	ten := stages.Fallback{After: 3 * time.Minute, Replicas: 10}
	with := func(f stages.Fallback) stages.Plan { return stages.Plan{Fallbacks: []stages.Fallback{f}} }
	t.Run("B1", func(t *testing.T) {
		g := newQueue(t, with(ten))
		current, _ := g.rounds("09:55:00", "10:00:00", 4, series(40))
		_, all := g.rounds("10:00:00", "10:05:00", current, away)
		counts(t, all, map[string]int32{"10:00:00": 4, "10:02:45": 4, "10:03:00": 8, "10:03:15": 10, "10:04:45": 10})
		d := all["10:03:00"]
		if got := told(&d, recommender.StageFallback); len(got) != 1 || got[0] != "External:queue has failed for 3m0s, at least 3m0s; 10 replicas are proposed instead" {
			t.Errorf("told %q", got)
		}
		if d.Adjusted.Plain != 4 {
			t.Errorf("plain %d, want 4", d.Adjusted.Plain)
		}
		before := all["10:02:45"]
		if got, _ := status(&before, stages.ExternalMetricFallbackActive); got != "" || len(before.Adjusted.Adjustments) != 0 {
			t.Errorf("before the fallback: condition %q, adjustments %v", got, before.Adjusted.Adjustments)
		}
		for _, at := range []string{"10:03:00", "10:04:45"} {
			d := all[at]
			if got, since := status(&d, stages.ExternalMetricFallbackActive); got != "True" || !since.Equal(clock(t, "10:03:00")) {
				t.Errorf("%s: condition %q since %s", at, got, since)
			}
		}
		d = g.round(clock(t, "10:05:00"), 10, series(100))
		if got, since := status(&d, stages.ExternalMetricFallbackActive); got != "False" || !since.Equal(clock(t, "10:05:00")) {
			t.Errorf("after the fallback: condition %q since %s", got, since)
		}
		if g.state != nil {
			t.Errorf("%d bytes of state without a failure", len(g.state))
		}
	})
	t.Run("a workload that is switched off ends the failure", func(t *testing.T) {
		g := newQueue(t, with(ten))
		g.rounds("08:00:00", "08:04:00", 4, away)
		d := g.round(clock(t, "08:04:00"), 0, away)
		if got, since := status(&d, stages.ExternalMetricFallbackActive); got != "False" || !since.Equal(clock(t, "08:04:00")) {
			t.Errorf("while it is off: condition %q since %s", got, since)
		}
		_, all := g.rounds("10:00:00", "10:04:00", 4, away)
		counts(t, all, map[string]int32{"10:02:45": 4, "10:03:00": 8})
	})
	for name, c := range map[string]struct {
		upOnly bool
		want   map[string]int32
	}{
		"B2":         {false, map[string]int32{"10:00:00": 12, "10:03:00": 12, "10:04:30": 12, "10:04:45": 10, "10:05:00": 10}},
		"B2 UP_ONLY": {true, map[string]int32{"10:03:00": 12, "10:04:45": 12, "10:09:45": 12}},
	} {
		t.Run(name, func(t *testing.T) {
			f := ten
			f.UpOnly = c.upOnly
			g := newPair(t, with(f))
			current, _ := g.rounds("09:55:00", "10:00:00", 12, series(120), series(3))
			_, all := g.rounds("10:00:00", "10:10:00", current, away, series(3))
			counts(t, all, c.want)
		})
	}
	t.Run("B3", func(t *testing.T) {
		g := newPair(t, with(ten))
		current, _ := g.rounds("09:59:00", "10:00:00", 12, series(120), series(12))
		current, _ = g.rounds("10:00:00", "10:03:00", current, away, series(12))
		d := g.round(clock(t, "10:03:00"), current, away, series(15))
		if current != 12 || d.Desired != 15 || len(told(&d, recommender.StageFallback)) != 1 {
			t.Errorf("%d, then %d, want 12, then 15", current, d.Desired)
		}
	})
	t.Run("B4", func(t *testing.T) {
		g := newQueue(t, with(ten))
		g.rounds("09:59:00", "10:00:00", 10, series(100))
		g.rounds("10:00:00", "10:05:00", 10, away)
		g.round(clock(t, "10:05:00"), 10, series(100))
		_, all := g.rounds("10:05:15", "10:09:00", 10, away)
		for at, d := range all {
			if in := len(told(&d, recommender.StageFallback)) > 0; d.Desired != 10 || in != (at >= "10:08:15") {
				t.Errorf("%s: %d, fallback %v", at, d.Desired, in)
			}
		}
	})
	t.Run("B5", func(t *testing.T) {
		g := newQueue(t, with(ten))
		g.in.Spec.MinReplicas, g.in.Options.ScaleToZero = 0, true
		g.in.PreviousStatus = &recommender.Status{Conditions: []recommender.Condition{{Type: recommender.ScaledToZero, Status: recommender.ConditionTrue}}}
		_, all := g.rounds("10:00:00", "10:04:00", 0, away)
		counts(t, all, map[string]int32{"10:02:45": 0, "10:03:00": 4, "10:03:15": 8, "10:03:30": 10, "10:03:45": 10})
	})
	t.Run("B6", func(t *testing.T) {
		g := newPair(t, with(stages.Fallback{After: 3 * time.Minute, LastGood: 10 * time.Minute}))
		g.rounds("09:55:00", "10:00:00", 12, series(70), series(12))
		_, all := g.rounds("10:00:00", "10:11:00", 12, away, series(3))
		counts(t, all, map[string]int32{"10:03:00": 12, "10:04:30": 12, "10:04:45": 7, "10:09:45": 7, "10:10:00": 7, "10:10:45": 7})
		for at, d := range all {
			if in := len(told(&d, recommender.StageFallback)) > 0; in != (at >= "10:03:00" && at < "10:10:00") || in == (d.Path == recommender.PathMetricsFailed) {
				t.Errorf("%s: fallback %v, path %v", at, in, d.Path)
			}
		}
		d := all["10:03:00"]
		if got := told(&d, recommender.StageFallback); got[0] != "External:queue has failed for 3m0s, at least 3m0s; its last 7 replicas, proposed 3m15s ago, are proposed again" {
			t.Errorf("told %q", got)
		}
	})
	t.Run("ignored", func(t *testing.T) {
		g := newPair(t, with(stages.Fallback{After: 3 * time.Minute}))
		g.rounds("09:55:00", "10:00:00", 12, series(120), series(3))
		_, all := g.rounds("10:00:00", "10:06:00", 12, away, series(3))
		counts(t, all, map[string]int32{"10:04:30": 12, "10:04:45": 3})
	})
	t.Run("all ignored: they fail", func(t *testing.T) {
		g := newPair(t, stages.Plan{Fallbacks: []stages.Fallback{{Metric: 0}, {Metric: 1}}})
		d := g.round(clock(t, "10:00:00"), 12, away, away)
		if d.Desired != 12 || d.Path != recommender.PathMetricsFailed || len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("%d by path %v, adjusted %v", d.Desired, d.Path, d.Adjusted.Adjustments)
		}
		d = g.round(clock(t, "10:00:15"), 12, away, series(13))
		if d.Desired != 12 || d.Path != recommender.PathMetrics {
			t.Errorf("with one of them: %d by path %v", d.Desired, d.Path)
		}
	})
	for name, c := range map[string]struct {
		fallback stages.Fallback
		combine  *stages.Combine
		want     int32
	}{
		"a part is known, which asks for more":               {stages.Fallback{Replicas: 5}, nil, 8},
		"a part is known, which asks for less":               {stages.Fallback{Replicas: 9}, nil, 9},
		"a part is known, UP_ONLY":                           {stages.Fallback{Replicas: 5, UpOnly: true}, nil, 12},
		"a part is known of an ignored one":                  {stages.Fallback{}, nil, 8},
		"a part is known of an ignored one, of the smallest": {stages.Fallback{}, &stages.Combine{Method: stages.Min}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := newPair(t, stages.Plan{Fallbacks: []stages.Fallback{c.fallback}, Combine: c.combine})
			g.around.Least = []int32{8}
			if _, all := g.rounds("10:00:00", "10:06:00", 12, away, series(3)); all["10:05:45"].Desired != c.want {
				d := all["10:05:45"]
				t.Errorf("%d, want %d: %q", d.Desired, c.want, told(&d, recommender.StageFallback))
			}
		})
	}
	t.Run("another that fails still blocks", func(t *testing.T) {
		g := newPair(t, with(stages.Fallback{Replicas: 5}))
		d := g.round(clock(t, "10:00:00"), 12, away, away)
		if d.Desired != 12 || d.Path != recommender.PathMetricsFailed {
			t.Errorf("%d by path %v", d.Desired, d.Path)
		}
	})
	t.Run("v1.19 has cpu last", func(t *testing.T) {
		g := newPods(t, 4, stages.Plan{})
		profile, _ := recommender.ProfileByName("v1.19")
		g.in.Options.Profile = profile
		ten := int64(10_000)
		g.in.Spec.Metrics = append(g.in.Spec.Metrics, recommender.MetricSpec{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &ten},
		})
		g.plan(with(stages.Fallback{Metric: 1, Replicas: 7}), "Resource:cpu", "External:queue")
		g.uses(500, 0, 0, 0, 0)
		if d := g.round(noon, 4, recommender.Readings{}, away); d.Desired != 7 {
			t.Errorf("%d, want 7", d.Desired)
		}
	})
	t.Run("two metrics of one name", func(t *testing.T) {
		g := newPair(t, stages.Plan{})
		g.in.Spec.Metrics[1].Metric.Name = "queue" // with another selector
		g.plan(stages.Plan{Fallbacks: []stages.Fallback{{Metric: 1, After: time.Minute, Replicas: 10}}}, "External:queue", "External:queue")
		// The first fails all the time, the second for less than its fallback waits.
		_, all := g.rounds("10:00:00", "10:01:00", 4, away, series(4))
		d := all["10:00:45"]
		if len(told(&d, recommender.StageFallback)) != 0 {
			t.Errorf("before the second fails: %q", told(&d, recommender.StageFallback))
		}
		_, all = g.rounds("10:01:00", "10:02:15", 4, series(40), away)
		before, after := all["10:01:45"], all["10:02:00"]
		if len(told(&before, recommender.StageFallback)) != 0 || before.Desired != 4 || len(told(&after, recommender.StageFallback)) != 1 || after.Desired != 8 {
			t.Errorf("then %d by %q and %d by %q", before.Desired, told(&before, recommender.StageFallback), after.Desired, told(&after, recommender.StageFallback))
		}
	})
	t.Run("one that comes back waits anew", func(t *testing.T) {
		g := newQueue(t, with(ten))
		g.rounds("10:00:00", "10:01:00", 5, away)
		g.plan(stages.Plan{ZeroGuards: []stages.ZeroGuard{{DropPercent: 100}}}, "External:queue")
		g.rounds("10:01:00", "10:02:00", 5, away)
		g.plan(with(ten), "External:queue")
		_, all := g.rounds("10:02:00", "10:06:00", 5, away)
		counts(t, all, map[string]int32{"10:04:45": 5, "10:05:00": 10})
	})
	t.Run("a fallback that is taken away", func(t *testing.T) {
		g := newQueue(t, with(ten))
		_, all := g.rounds("10:00:00", "10:04:00", 10, away)
		d := all["10:03:45"]
		if got, _ := status(&d, stages.ExternalMetricFallbackActive); got != "True" {
			t.Fatalf("condition %q", got)
		}
		g.around.Plan = nil
		d = g.round(clock(t, "10:04:00"), 10, away)
		if got, _ := status(&d, stages.ExternalMetricFallbackActive); got != "" || g.state != nil || d.Adjusted != nil {
			t.Errorf("condition %q, %d bytes of state, adjusted %v", got, len(g.state), d.Adjusted)
		}
	})
}

func TestZeroGuard(t *testing.T) {
	guard := stages.Plan{ZeroGuards: []stages.ZeroGuard{{DropPercent: 100, Confirm: 5 * time.Minute}}}
	t.Run("Z1", func(t *testing.T) {
		for name, c := range map[string]struct {
			plan stages.Plan
			want map[string]int32
		}{
			"guarded": {guard, map[string]int32{"10:00:00": 12, "10:04:45": 12, "10:05:00": 2}},
			"plain":   {stages.Plan{}, map[string]int32{"10:04:30": 12, "10:04:45": 2}},
		} {
			g := newQueue(t, c.plan)
			current, _ := g.rounds("09:50:00", "10:00:00", 12, series(120))
			_, all := g.rounds("10:00:00", "10:05:15", current, series(0))
			t.Log(name)
			counts(t, all, c.want)
			if name == "plain" {
				continue
			}
			d := all["10:00:00"]
			want := "External:queue fell from 120 to 0 at 10:00:00Z; not believed until it has lasted 5m0s (10:05:00Z)"
			if got := told(&d, recommender.StageZeroGuard); !slices.Equal(got, []string{want}) {
				t.Errorf("told %q", got)
			}
			if got, since := status(&d, stages.MetricSuspect); got != "True" || !since.Equal(clock(t, "10:00:00")) || !d.Adjusted.Adjustments[0].Until.Equal(clock(t, "10:05:00")) {
				t.Errorf("condition %q since %s, %+v", got, since, d.Adjusted.Adjustments)
			}
			d = all["10:05:00"]
			if got, _ := status(&d, stages.MetricSuspect); got != "False" {
				t.Errorf("believed: condition %q", got)
			}
			if d = g.round(clock(t, "10:05:15"), d.Desired, series(0)); len(d.Adjusted.Adjustments) > 0 {
				t.Errorf("after it was believed: %v", d.Adjusted.Adjustments)
			}
		}
	})
	t.Run("one that comes back believes anew", func(t *testing.T) {
		g := newQueue(t, guard)
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		g.plan(stages.Plan{Fallbacks: []stages.Fallback{{Replicas: 12, After: time.Hour}}}, "External:queue")
		g.rounds("10:00:00", "10:01:00", 12, series(0))
		g.plan(guard, "External:queue")
		if d := g.round(clock(t, "10:01:00"), 12, series(0)); len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("told %v", d.Adjusted.Adjustments)
		}
	})
	t.Run("Z2", func(t *testing.T) {
		g := newPair(t, guard)
		g.rounds("09:50:00", "10:00:00", 12, series(120), series(12))
		g.rounds("10:00:00", "10:00:45", 12, series(0), series(12))
		if d := g.round(clock(t, "10:00:45"), 12, series(0), series(15)); d.Desired != 15 {
			t.Errorf("%d, want 15", d.Desired)
		}
	})
	t.Run("Z3", func(t *testing.T) {
		g := newQueue(t, guard)
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		g.rounds("10:00:00", "10:01:30", 12, series(0))
		d := g.round(clock(t, "10:01:30"), 12, series(110))
		if d.Path != recommender.PathMetrics || len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("path %v, adjusted %v", d.Path, d.Adjusted.Adjustments)
		}
		// A new fall has a clock of its own.
		_, all := g.rounds("10:01:45", "10:07:00", 12, series(0))
		counts(t, all, map[string]int32{"10:06:30": 12, "10:06:45": 2})
	})
	for name, c := range map[string]struct {
		plan stages.Plan
		want int32
	}{
		"Z4":                   {guard, 12},
		"Z4 without":           {stages.Plan{}, 2},
		"Z6":                   {stages.Plan{WindowThroughFailures: true}, 12},
		"zeros around Z4":      {guard, 12},
		"both, and a fallback": {stages.Plan{WindowThroughFailures: true, ZeroGuards: guard.ZeroGuards, Fallbacks: []stages.Fallback{{Replicas: 12, After: 3 * time.Minute}}}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			g := newQueue(t, c.plan)
			current, _ := g.rounds("09:50:00", "10:00:00", 12, series(120))
			if strings.HasPrefix(name, "zeros") {
				current, _ = g.rounds("10:00:00", "10:02:00", current, series(0))
				current, _ = g.rounds("10:02:00", "10:10:15", current, away)
			} else {
				current, _ = g.rounds("10:00:00", "10:10:15", current, away)
			}
			current, _ = g.rounds("10:10:15", "10:11:00", current, series(0))
			if current != c.want {
				t.Errorf("after the outage %d, want %d", current, c.want)
			}
			if d := g.round(clock(t, "10:11:00"), current, series(118)); c.want == 12 && d.Desired != 12 {
				t.Errorf("at 10:11:00 %d, want 12", d.Desired)
			}
		})
	}
	t.Run("both wait at the same time", func(t *testing.T) {
		both := stages.Plan{WindowThroughFailures: true, ZeroGuards: guard.ZeroGuards}
		g := newQueue(t, both)
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		_, all := g.rounds("10:00:00", "10:06:00", 12, series(0))
		counts(t, all, map[string]int32{"10:04:45": 12, "10:05:00": 2})
		g = newQueue(t, both)
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		g.rounds("10:00:00", "10:10:15", 12, away)
		_, all = g.rounds("10:10:15", "10:16:00", 12, series(0))
		counts(t, all, map[string]int32{"10:15:00": 12, "10:15:15": 2})
	})
	t.Run("nobody saw that it lasted", func(t *testing.T) {
		g := newQueue(t, guard)
		g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32)
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		g.round(clock(t, "10:00:00"), 12, series(0))
		if !g.history.RestartAfterPause(clock(t, "10:20:00"), &g.in) {
			t.Fatal("no pause")
		}
		_, all := g.rounds("10:20:00", "10:26:00", 12, series(0))
		counts(t, all, map[string]int32{"10:20:00": 12, "10:24:45": 12, "10:25:00": 2})
	})
	t.Run("a doubt alone is not recorded beside an ignored failure", func(t *testing.T) {
		g := newPair(t, stages.Plan{
			WindowThroughFailures: true, Fallbacks: []stages.Fallback{{}}, ZeroGuards: []stages.ZeroGuard{{Metric: 1, DropPercent: 100, Confirm: 5 * time.Minute}},
		})
		g.rounds("09:50:00", "10:00:00", 12, away, series(12))
		_, all := g.rounds("10:00:00", "10:06:00", 12, away, series(0))
		counts(t, all, map[string]int32{"10:04:45": 12, "10:05:00": 2})
	})
	t.Run("a failure is recorded beside an ignored doubt", func(t *testing.T) {
		g := newPair(t, stages.Plan{WindowThroughFailures: true, Fallbacks: []stages.Fallback{{}}, ZeroGuards: guard.ZeroGuards})
		g.rounds("09:59:00", "10:00:00", 12, series(120), series(12))
		g.rounds("10:00:00", "10:01:00", 12, away, series(12))
		if d := g.round(clock(t, "10:01:00"), 12, series(0), away); len(told(&d, recommender.StageZeroGuard)) != 1 || len(told(&d, recommender.StageWindow)) != 1 {
			t.Errorf("adjusted %+v", d.Adjusted.Adjustments)
		}
	})
	t.Run("where the others decide nothing is recorded for a failure", func(t *testing.T) {
		g := newPair(t, stages.Plan{WindowThroughFailures: true})
		if d := g.round(noon, 12, away, series(15)); d.Desired != 15 || len(d.Adjusted.Adjustments) > 0 {
			t.Errorf("%d, adjusted %+v", d.Desired, d.Adjusted.Adjustments)
		}
	})
	t.Run("Z6 ends with the window", func(t *testing.T) {
		g := newQueue(t, stages.Plan{WindowThroughFailures: true})
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		_, all := g.rounds("10:00:00", "10:10:15", 12, away)
		d := all["10:10:00"]
		if got := told(&d, recommender.StageWindow); len(got) != 1 || got[0] != "metrics fail: the current 12 replicas are recorded for the stabilization window" {
			t.Errorf("told %q", got)
		}
		_, all = g.rounds("10:10:15", "10:16:00", 12, series(0))
		counts(t, all, map[string]int32{"10:14:45": 12, "10:15:00": 2})
		d = all["10:14:45"]
		if got := told(&d, recommender.StageWindow); len(got) > 0 {
			t.Errorf("told %q where metrics are valid", got)
		}
	})
	t.Run("Z5", func(t *testing.T) {
		for name, c := range map[string]struct {
			values  []int64
			drop    int32
			suspect bool
		}{
			"first sight":             {[]int64{0}, 100, false},
			"idle":                    {[]int64{0, 0, 0}, 100, false},
			"a little is enough":      {[]int64{120, 1}, 100, false},
			"nothing":                 {[]int64{120, 0}, 100, true},
			"below zero":              {[]int64{120, -1}, 100, true},
			"drop 50, just above":     {[]int64{120, 61}, 50, false},
			"drop 50, inclusive":      {[]int64{120, 60}, 50, true},
			"drop 50 of an odd value": {[]int64{121, 61}, 50, false},
			"the largest":             {[]int64{9_000_000_000_000_000, 4_500_000_000_000_001}, 50, false},
			"half of the largest":     {[]int64{9_000_000_000_000_000, 4_500_000_000_000_000}, 50, true},
		} {
			g := newQueue(t, stages.Plan{ZeroGuards: []stages.ZeroGuard{{DropPercent: c.drop, Confirm: 5 * time.Minute}}})
			value := int64(10)
			g.in.Spec.Metrics[0].Target = recommender.MetricTarget{Type: recommender.ValueTarget, Value: &value} // sums may be below 0
			var d recommender.Decision
			for i, v := range c.values {
				d = g.round(noon.Add(time.Duration(i)*period), 2, series(v))
			}
			got := told(&d, recommender.StageZeroGuard)
			if (len(got) > 0) != c.suspect {
				t.Errorf("%s: suspect %v, want %v", name, got, c.suspect)
			}
			if name == "below zero" && !strings.HasPrefix(got[0], "External:queue fell from 120 to -1 at ") {
				t.Errorf("told %q", got)
			}
		}
	})
	t.Run("a share of thousandths", func(t *testing.T) {
		g := newQueue(t, stages.Plan{ZeroGuards: []stages.ZeroGuard{{DropPercent: 1, Confirm: 5 * time.Minute}}})
		g.round(noon, 2, recommender.Readings{Values: []recommender.Value{{Milli: 150}}})
		if d := g.round(noon.Add(period), 2, recommender.Readings{Values: []recommender.Value{{Milli: 120}}}); len(told(&d, recommender.StageZeroGuard)) != 1 {
			t.Error("the fall from 0.15 to 0.12 is believed")
		}
	})
	t.Run("suspicion starts no fallback", func(t *testing.T) {
		g := newQueue(t, stages.Plan{
			ZeroGuards: []stages.ZeroGuard{{DropPercent: 100, Confirm: 10 * time.Minute}},
			Fallbacks:  []stages.Fallback{{After: time.Minute, Replicas: 18}},
		})
		g.rounds("09:50:00", "10:00:00", 12, series(120))
		_, all := g.rounds("10:00:00", "10:05:00", 12, series(0))
		counts(t, all, map[string]int32{"10:04:45": 12})
		// And it does not stop one.
		g.rounds("10:05:00", "10:06:30", 12, away)
		if d := g.round(clock(t, "10:06:30"), 18, series(0)); len(told(&d, recommender.StageFallback)) != 1 {
			t.Errorf("adjusted %+v", d.Adjusted.Adjustments)
		}
	})
}

// Nothing about failures is in a status, a state or an answer before a stage acted.
func TestNoTraceBeforeAStageActs(t *testing.T) {
	plan := stages.Plan{
		Freshness:             &stages.Freshness{MaxAge: time.Hour},
		Fallbacks:             []stages.Fallback{{After: time.Minute, Replicas: 3}},
		WindowThroughFailures: true,
	}
	with, plain := newQueue(t, plan), newQueue(t, stages.Plan{})
	current := int32(12)
	for at := noon; at.Before(noon.Add(10 * time.Minute)); at = at.Add(period) {
		v := taken(series(int64(at.Minute()+20)*4), at)
		a, b := with.round(at, current, v), plain.round(at, current, v)
		if a.Desired != b.Desired || !slices.Equal(a.Status.Conditions, b.Status.Conditions) || with.state != nil || len(a.Adjusted.Adjustments) > 0 {
			t.Fatalf("%s: %+v, want %+v", at, a, b)
		}
		current = a.Desired
	}
}
