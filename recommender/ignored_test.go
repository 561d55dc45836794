package recommender

import (
	"testing"
	"time"
)

// Both profiles with delays take those of the options.
func TestDelaysAreAdjustable(t *testing.T) {
	const up, down = 20 * time.Second, 40 * time.Second
	delayed := func(in *Input, changed time.Duration) int32 {
		in.Options.UpscaleDelay, in.Options.DownscaleDelay = up, down
		return decide(changedBefore(in, changed)).Desired
	}
	for _, tt := range []struct {
		name        string
		more, fewer func() *Input
		from        int32
		toMore      int32
		toFewer     int32
	}{
		{"cooldown", func() *Input { return cooled(12, notAtAll) }, func() *Input { return cooled(3, notAtAll) }, 10, 12, 3},
		{
			"design-2015", func() *Input { return utilized(3, alike(3, 160)...) },
			func() *Input { return utilized(3, alike(3, 20)...) }, 3, 6, 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, "up, exactly after the delay", delayed(tt.more(), up), tt.from)
			equal(t, "up, a nanosecond later", delayed(tt.more(), up+1), tt.toMore)
			equal(t, "down, exactly after the delay", delayed(tt.fewer(), down), tt.from)
			equal(t, "down, a nanosecond later", delayed(tt.fewer(), down+1), tt.toFewer)
		})
	}
	for _, p := range []*Profile{&v136, &v137, &v128, &v119, &v115} {
		in := wanting(10)
		in.Options.Profile = p
		read(in, 0, 12*unit)
		equal(t, p.Name()+" has no delays", delayed(in, 0), int32(12))
	}
}

// A setting that a profile ignores causes a warning if the request sets it, and only
// then.
func TestWhatAProfileIgnoresIsAWarning(t *testing.T) {
	const (
		cpuPeriod = "options.cpuInitializationPeriod is ignored: the profile design-2015 counts every pod, ready or not"
		readiness = "options.initialReadinessDelay is ignored: the profile design-2015 counts every pod, ready or not"
		window    = "has delays in its place, options.upscaleDelay and options.downscaleDelay"
	)
	withBehavior := func(in *Input) { in.Spec.Behavior = defaultBehavior() }
	withTolerance := func(in *Input) {
		in.Spec.Behavior = defaultBehavior()
		in.Spec.Behavior.ScaleDown.Tolerance = new(0.2)
	}
	atZero := func(in *Input) { in.Spec.MinReplicas, in.Options.ScaleToZero = 0, true }
	shared := func(in *Input) {
		in.SelectorProblem = &SelectorProblem{Reason: AmbiguousSelector, Message: "shared"}
	}
	named := func(options OptionSet) func(*Input) { return func(in *Input) { in.Options.Named = options } }
	const all = CPUInitializationPeriodOption | InitialReadinessDelayOption | DownscaleStabilizationOption | UpscaleDelayOption | DownscaleDelayOption
	set := func(in *Input) {
		o := &in.Options
		o.CPUInitializationPeriod, o.InitialReadinessDelay, o.DownscaleStabilization = 1, 2, 3
		o.UpscaleDelay, o.DownscaleDelay = 4, 5
	}
	noDelays := func(profile string) []string {
		return []string{
			"options.upscaleDelay is ignored: the profile " + profile + " has no delays after a change",
			"options.downscaleDelay is ignored: the profile " + profile + " has no delays after a change",
		}
	}
	zero := func(profile string) []string {
		return []string{
			"spec.minReplicas 0 is ignored: the profile " + profile + " keeps at least one replica",
			"options.scaleToZero is ignored: the profile " + profile + " scales neither to nor from zero",
		}
	}
	one := func(text string) []string { return []string{text} }
	for _, tt := range []struct {
		name   string
		change func(*Input)
		want   map[string][]string
	}{
		{"nothing is set", func(*Input) {}, nil},
		{"behavior", withBehavior, map[string][]string{
			"v1.15":       one("spec.behavior is ignored: the profile v1.15 does not have it"),
			"cooldown":    one("spec.behavior is ignored: the profile cooldown does not have it"),
			"design-2015": one("spec.behavior is ignored: the profile design-2015 does not have it"),
		}},
		{"a tolerance of behavior", withTolerance, map[string][]string{
			"v1.28":       one("spec.behavior.scaleDown.tolerance is ignored: the profile v1.28 has one tolerance for both directions, options.tolerance"),
			"v1.19":       one("spec.behavior.scaleDown.tolerance is ignored: the profile v1.19 has one tolerance for both directions, options.tolerance"),
			"v1.15":       one("spec.behavior is ignored: the profile v1.15 does not have it"),
			"cooldown":    one("spec.behavior is ignored: the profile cooldown does not have it"),
			"design-2015": one("spec.behavior is ignored: the profile design-2015 does not have it"),
		}},
		{"scaling to zero", atZero, map[string][]string{"v1.15": zero("v1.15"), "cooldown": zero("cooldown"), "design-2015": zero("design-2015")}},
		{"pods that another autoscaler selects", shared, map[string][]string{
			"v1.19":       one("the selector problem AmbiguousSelector is ignored: the profile v1.19 tolerates another autoscaler that selects the same pods"),
			"v1.15":       one("the selector problem AmbiguousSelector is ignored: the profile v1.15 tolerates another autoscaler that selects the same pods"),
			"cooldown":    one("the selector problem AmbiguousSelector is ignored: the profile cooldown tolerates another autoscaler that selects the same pods"),
			"design-2015": one("the selector problem AmbiguousSelector is ignored: the profile design-2015 tolerates another autoscaler that selects the same pods"),
		}},
		{"options that are named", named(all), map[string][]string{
			"v1.36": noDelays("v1.36"), "v1.37": noDelays("v1.37"), "v1.28": noDelays("v1.28"), "v1.19": noDelays("v1.19"), "v1.15": noDelays("v1.15"),
			"cooldown":    one("options.downscaleStabilization is ignored: the profile cooldown " + window),
			"design-2015": {cpuPeriod, readiness, "options.downscaleStabilization is ignored: the profile design-2015 " + window},
		}},
		{"options that are not the usual ones", set, map[string][]string{
			"v1.36": noDelays("v1.36"), "v1.37": noDelays("v1.37"), "v1.28": noDelays("v1.28"), "v1.19": noDelays("v1.19"), "v1.15": noDelays("v1.15"),
			"cooldown":    one("options.downscaleStabilization is ignored: the profile cooldown " + window),
			"design-2015": {cpuPeriod, readiness, "options.downscaleStabilization is ignored: the profile design-2015 " + window},
		}},
	} {
		for _, profile := range profiles {
			in := utilized(3, alike(3, 80)...)
			in.Options.Profile = profile
			tt.change(in)
			equal(t, tt.name+" by "+profile.Name(), decide(in).Explanation.Warnings, tt.want[profile.Name()])
		}
	}
}

// An evaluation that ends early warns, too.
func TestIgnoredSettingsAreReportedOnEveryPath(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"above the maximum":          func(in *Input) { in.Spec.MaxReplicas = 1 },
		"a scale that can't be read": func(in *Input) { in.ScaleError = &ScaleError{Message: "away"} },
		"metrics that fail":          func(in *Input) { in.PodMetrics = nil },
	} {
		in := utilized(3, alike(3, 80)...)
		in.Options.Profile, in.Spec.Behavior = &v115, defaultBehavior()
		change(in)
		equal(t, name, decide(in).Explanation.Warnings, []string{"spec.behavior is ignored: the profile v1.15 does not have it"})
	}
}

// The period is the one of the versions that the profile is of.
func TestPeriodsOfProfiles(t *testing.T) {
	for _, profile := range profiles {
		want := 15 * time.Second
		if profile == &cooldown || profile == &design2015 {
			want = 30 * time.Second
		}
		equal(t, profile.Name(), profile.SyncPeriod(), want)
	}
}

// design-2015 lists its pods, all of which count, within the limit, and a failure where
// there is one.
func TestDesignExplainsItsMetric(t *testing.T) {
	in := utilized(3, 100, 50, 30)
	in.ExplainLimit = 2
	e := decide(in).Explanation.Metrics[0]
	equal(t, "pods", e.Pods, []PodEvaluation{
		{Name: "web-0", Usage: 100, HasUsage: true, Request: 100, HasRequest: true},
		{Name: "web-1", Usage: 50, HasUsage: true, Request: 100, HasRequest: true},
	})
	equal(t, "pods left out", e.LeftOut, 1)
	equal(t, "the rule", e.Rule, Proportional)
	equal(t, "the rule beyond the range of a count", decide(utilized(1, 200<<32)).Explanation.Metrics[0].Rule, Saturated)
	in = utilized(3, 100, 50, 30)
	in.PodMetrics = in.PodMetrics[:2]
	d := decide(in)
	equal(t, "metrics of a failure", len(d.Explanation.Metrics), 1)
	equal(t, "the failure", d.Explanation.Metrics[0].Failure.Inner, "metrics obtained for 2/3 of pods")
}
