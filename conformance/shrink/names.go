package shrink

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// shortNames returns the changes that give each of names a unique single letter, from
// first on.
func shortNames(names []string, first byte, rename func(from, to string)) []func() {
	var out []func()
	free := first
	for _, name := range names {
		if len(name) <= 1 {
			continue
		}
		for free <= 'z' && slices.Contains(names, string(free)) {
			free++
		}
		if free > 'z' {
			break
		}
		to := string(free)
		free++
		out = append(out, func() { rename(name, to) })
	}
	return out
}

// replace replaces a text that equals from.
func replace(text *string, from, to string) {
	if *text == from {
		*text = to
	}
}

// shortPodNames renames pods with their samples and values, including pods with the
// same name in other namespaces.
func shortPodNames(s *recording.Scenario) []func() {
	return shortNames(podNames(s), 'a', func(from, to string) {
		for _, spec := range specs(s) {
			for i := range spec.Metrics {
				if o := spec.Metrics[i].Object; o != nil && o.DescribedObject.Kind == "Pod" {
					replace(&o.DescribedObject.Name, from, to)
				}
			}
		}
		for i := range s.Steps {
			step := &s.Steps[i]
			for _, p := range step.Pods {
				replace(&p.Name, from, to)
			}
			for j := range step.PodMetrics {
				replace(&step.PodMetrics[j].Name, from, to)
			}
			for j := range step.CustomMetrics {
				if of := &step.CustomMetrics[j].DescribedObject; of.Kind == "Pod" {
					replace(&of.Name, from, to)
				}
			}
		}
	})
}

// shortMetricNames renames metrics with their values and errors.
func shortMetricNames(s *recording.Scenario) []func() {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, spec := range specs(s) {
		for _, id := range identifiers(spec) {
			add(id.Name)
		}
	}
	for i := range s.Steps {
		for j := range s.Steps[i].CustomMetrics {
			add(s.Steps[i].CustomMetrics[j].Metric.Name)
		}
		for j := range s.Steps[i].ExternalMetrics {
			add(s.Steps[i].ExternalMetrics[j].MetricName)
		}
	}
	return shortNames(names, 'm', func(from, to string) {
		for _, spec := range specs(s) {
			for _, id := range identifiers(spec) {
				replace(&id.Name, from, to)
			}
		}
		for i := range s.Steps {
			renameReadings(&s.Steps[i], from, to)
		}
	})
}

func renameReadings(s *recording.Step, from, to string) {
	for i := range s.CustomMetrics {
		replace(&s.CustomMetrics[i].Metric.Name, from, to)
	}
	for i := range s.ExternalMetrics {
		replace(&s.ExternalMetrics[i].MetricName, from, to)
	}
	for _, api := range []string{"custom:", "external:"} {
		if message, ok := s.Errors[api+from]; ok {
			delete(s.Errors, api+from)
			s.Errors[api+to] = message
		}
	}
}

// shortContainerNames renames containers with their samples.
func shortContainerNames(s *recording.Scenario) []func() {
	var names []string
	containers := func(visit func(name *string)) {
		for _, spec := range specs(s) {
			for i := range spec.Metrics {
				if c := spec.Metrics[i].ContainerResource; c != nil {
					visit(&c.Container)
				}
			}
		}
		for i := range s.Steps {
			step := &s.Steps[i]
			for _, p := range step.Pods {
				for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
					for j := range list {
						visit(&list[j].Name)
					}
				}
			}
			for j := range step.PodMetrics {
				for k := range step.PodMetrics[j].Containers {
					visit(&step.PodMetrics[j].Containers[k].Name)
				}
			}
		}
	}
	containers(func(name *string) {
		if !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	})
	return shortNames(names, 'c', func(from, to string) {
		containers(func(name *string) { replace(name, from, to) })
	})
}

// shortTexts shortens messages of errors to a letter.
var shortTexts = ofSteps(func(s *recording.Step) []func() {
	long := func(text *string) []func() {
		return if1(len(*text) > 1, func() { *text = "x" })
	}
	out := slices.Concat(long(&s.ScaleGetError), long(&s.ScaleUpdateError))
	for _, key := range slices.Sorted(maps.Keys(s.Errors)) {
		if len(s.Errors[key]) > 1 {
			out = append(out, func() { s.Errors[key] = "x" })
		}
	}
	return out
})
