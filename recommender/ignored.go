package recommender

import (
	"fmt"
	"time"
)

// OptionSet is a set of options.
type OptionSet uint8

// The options that some profiles ignore.
const (
	CPUInitializationPeriodOption OptionSet = 1 << iota
	InitialReadinessDelayOption
	DownscaleStabilizationOption
	UpscaleDelayOption
	DownscaleDelayOption
)

// Ignores returns the options that do not affect the profile's decisions.
func (p *Profile) Ignores() OptionSet {
	switch p.algorithm {
	case cooldownAlgorithm:
		return DownscaleStabilizationOption
	case designAlgorithm:
		return DownscaleStabilizationOption | CPUInitializationPeriodOption | InitialReadinessDelayOption
	case controllerAlgorithm:
	}
	return UpscaleDelayOption | DownscaleDelayOption
}

// ignored lists the settings that the profile ignores, for warnings. It lists an option that
// the request sets, or that differs from upstream's default.
func (d *decider) ignored() []string {
	var warnings []string
	warn := func(what, why string, args ...any) {
		warnings = append(warnings, what+" is ignored: the profile "+d.profile.name+" "+fmt.Sprintf(why, args...))
	}
	p, spec := d.profile, &d.in.Spec
	if b := spec.Behavior; b != nil {
		for _, rules := range []struct {
			field     string
			tolerance *float64
		}{{"scaleUp", b.ScaleUp.Tolerance}, {"scaleDown", b.ScaleDown.Tolerance}} {
			if rules.tolerance != nil && p.toleranceByDistance && !p.noBehavior {
				warn("spec.behavior."+rules.field+".tolerance", "has one tolerance for both directions, options.tolerance")
			}
		}
		if p.noBehavior {
			warn("spec.behavior", "does not have it")
		}
	}
	if p.keepsOne() && spec.MinReplicas == 0 {
		warn("spec.minReplicas 0", "keeps at least one replica")
	}
	if p.keepsOne() && d.in.Options.ScaleToZero {
		warn("options.scaleToZero", "scales neither to nor from zero")
	}
	if s := d.in.SelectorProblem; s != nil && s.Reason == AmbiguousSelector && (p.sharedPods || p.algorithm == designAlgorithm) {
		warn("the selector problem "+string(AmbiguousSelector), "tolerates another autoscaler that selects the same pods")
	}
	for _, o := range d.ignoredOptions() {
		warn("options."+o.name, "%s", o.why)
	}
	return warnings
}

// keepsOne reports whether the count is never below 1.
func (p *Profile) keepsOne() bool { return p.floorOfOne || p.algorithm == designAlgorithm }

// ignoredOption is an ignored option and the reason.
type ignoredOption struct{ name, why string }

func (d *decider) ignoredOptions() []ignoredOption {
	const noDelays, noReadiness = "has no delays after a change", "counts every pod, ready or not"
	o, upstream := &d.in.Options, DefaultOptions()
	var options []ignoredOption
	for _, option := range []struct {
		of           OptionSet
		name         string
		value, usual time.Duration
		why          string
	}{
		{CPUInitializationPeriodOption, "cpuInitializationPeriod", o.CPUInitializationPeriod, upstream.CPUInitializationPeriod, noReadiness},
		{InitialReadinessDelayOption, "initialReadinessDelay", o.InitialReadinessDelay, upstream.InitialReadinessDelay, noReadiness},
		{DownscaleStabilizationOption, "downscaleStabilization", o.DownscaleStabilization, upstream.DownscaleStabilization, "has delays in its place, options.upscaleDelay and options.downscaleDelay"},
		{UpscaleDelayOption, "upscaleDelay", o.UpscaleDelay, upstream.UpscaleDelay, noDelays},
		{DownscaleDelayOption, "downscaleDelay", o.DownscaleDelay, upstream.DownscaleDelay, noDelays},
	} {
		if d.profile.Ignores()&option.of != 0 && (o.Named&option.of != 0 || option.value != option.usual) {
			options = append(options, ignoredOption{option.name, option.why})
		}
	}
	return options
}
