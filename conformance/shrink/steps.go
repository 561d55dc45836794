package shrink

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// remove returns the change that takes an item out of a list.
func remove[T any](list *[]T, i int) func() {
	return func() { *list = slices.Delete(*list, i, i+1) }
}

// each returns the changes that take out single items of a list.
func each[T any](list *[]T) []func() {
	var out []func()
	for i := range *list {
		out = append(out, remove(list, i))
	}
	return out
}

// ofSteps joins what a rule finds at each step.
func ofSteps(places func(*recording.Step) []func()) rule {
	return func(s *recording.Scenario) []func() {
		var out []func()
		for i := range s.Steps {
			out = append(out, places(&s.Steps[i])...)
		}
		return out
	}
}

// if1 returns the change as the only one, if it changes anything.
func if1(is bool, change func()) []func() {
	if !is {
		return nil
	}
	return []func(){change}
}

func dropSteps(s *recording.Scenario) []func() { return each(&s.Steps) }

// dropStepsKeepingEdits drops a step, and makes its edit in the next one.
func dropStepsKeepingEdits(s *recording.Scenario) []func() {
	var out []func()
	for i := range max(0, len(s.Steps)-1) {
		if s.Steps[i].HPA == nil {
			continue
		}
		out = append(out, func() {
			if i+1 < len(s.Steps) {
				if next := &s.Steps[i+1]; next.HPA == nil && !next.HPADeleted {
					next.HPA = s.Steps[i].HPA
				}
			}
			s.Steps = slices.Delete(s.Steps, i, i+1)
		})
	}
	return out
}

// beginWithEdit makes the first edit the first spec.
func beginWithEdit(s *recording.Scenario) []func() {
	for i := range s.Steps {
		if step := &s.Steps[i]; step.HPA != nil {
			return []func(){func() {
				s.HPA.Spec = step.HPA.Spec
				step.HPA = nil
			}}
		}
	}
	return nil
}

// dropEdits drops those that steps make, and deletions.
var dropEdits = ofSteps(func(s *recording.Step) []func() {
	return slices.Concat(
		if1(s.HPA != nil, func() { s.HPA = nil }),
		if1(s.HPADeleted, func() { s.HPADeleted = false }),
	)
})

// dropExpectations drops the recorded outcomes, which no longer apply.
var dropExpectations = ofSteps(func(s *recording.Step) []func() {
	return if1(s.Expect != nil || s.PlatformDependent != nil, func() { s.Expect, s.PlatformDependent = nil, nil })
})

func dropOtherHPAs(s *recording.Scenario) []func() { return each(&s.OtherHPAs) }

func dropTags(s *recording.Scenario) []func() { return each(&s.Tags) }

var (
	dropPods            = ofSteps(func(s *recording.Step) []func() { return each(&s.Pods) })
	dropSamples         = ofSteps(func(s *recording.Step) []func() { return each(&s.PodMetrics) })
	dropCustomMetrics   = ofSteps(func(s *recording.Step) []func() { return each(&s.CustomMetrics) })
	dropExternalMetrics = ofSteps(func(s *recording.Step) []func() { return each(&s.ExternalMetrics) })
)

var dropErrors = ofSteps(func(s *recording.Step) []func() {
	var out []func()
	for _, key := range slices.Sorted(maps.Keys(s.Errors)) {
		out = append(out, func() {
			delete(s.Errors, key)
			if len(s.Errors) == 0 {
				s.Errors = nil
			}
		})
	}
	return out
})

// dropScaleErrors drops the errors of an existing scale.
var dropScaleErrors = ofSteps(func(s *recording.Step) []func() {
	return slices.Concat(
		if1(s.ScaleGetError != "" && s.Scale != nil, func() { s.ScaleGetError = "" }),
		if1(s.ScaleUpdateError != "", func() { s.ScaleUpdateError = "" }),
	)
})

// dropScaleSelectors drops the scales' pod selectors.
var dropScaleSelectors = ofSteps(func(s *recording.Step) []func() {
	return if1(s.Scale != nil && s.Scale.Status.Selector != "", func() { s.Scale.Status.Selector = "" })
})

// dropPodEverywhere drops a pod at all steps, with its samples and values.
func dropPodEverywhere(s *recording.Scenario) []func() {
	var out []func()
	for _, name := range podNames(s) {
		out = append(out, func() {
			for i := range s.Steps {
				dropPod(&s.Steps[i], name)
			}
		})
	}
	return out
}

func dropPod(s *recording.Step, name string) {
	keep := s.Pods[:0]
	for _, p := range s.Pods {
		if p.Name != name {
			keep = append(keep, p)
		}
	}
	s.Pods = keep
	samples := s.PodMetrics[:0]
	for i := range s.PodMetrics {
		if s.PodMetrics[i].Name != name {
			samples = append(samples, s.PodMetrics[i])
		}
	}
	s.PodMetrics = samples
	values := s.CustomMetrics[:0]
	for i := range s.CustomMetrics {
		if of := &s.CustomMetrics[i].DescribedObject; of.Kind != "Pod" || of.Name != name {
			values = append(values, s.CustomMetrics[i])
		}
	}
	s.CustomMetrics = values
}

// podNames returns the names of pods, listed or measured, in order of appearance.
func podNames(s *recording.Scenario) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		for _, p := range step.Pods {
			add(p.Name)
		}
		for j := range step.PodMetrics {
			add(step.PodMetrics[j].Name)
		}
		for j := range step.CustomMetrics {
			if of := &step.CustomMetrics[j].DescribedObject; of.Kind == "Pod" {
				add(of.Name)
			}
		}
	}
	return names
}
