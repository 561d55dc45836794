package differential

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// smaller returns a scenario that still fails, without the steps, and without the pods and
// readings of steps, that it fails without. It does not change the given one.
func smaller(s *recording.Scenario, fails func(*recording.Scenario) bool) *recording.Scenario {
	best := *s
	try := func(change func(*recording.Scenario)) bool {
		candidate := best
		candidate.Steps = slices.Clone(best.Steps)
		change(&candidate)
		if len(candidate.Steps) == 0 || !fails(&candidate) {
			return false
		}
		best = candidate
		return true
	}
	drop(best.Steps, try, func(c *recording.Scenario) *[]recording.Step { return &c.Steps })
	for i := range best.Steps {
		step := best.Steps[i]
		drop(step.Pods, try, func(c *recording.Scenario) *[]*corev1.Pod { return &c.Steps[i].Pods })
		drop(step.PodMetrics, try, func(c *recording.Scenario) *[]metricsv1beta1.PodMetrics { return &c.Steps[i].PodMetrics })
		drop(step.CustomMetrics, try, func(c *recording.Scenario) *[]custommetrics.MetricValue { return &c.Steps[i].CustomMetrics })
		drop(step.ExternalMetrics, try, func(c *recording.Scenario) *[]externalmetrics.ExternalMetricValue { return &c.Steps[i].ExternalMetrics })
	}
	return &best
}

// drop tries a list of a scenario without halves of it, then without smaller parts, down to
// single elements.
func drop[T any](all []T, try func(func(*recording.Scenario)) bool, of func(*recording.Scenario) *[]T) {
	for size := (len(all) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(all); {
			fewer := slices.Delete(slices.Clone(all), at, min(at+size, len(all)))
			if try(func(c *recording.Scenario) { *of(c) = fewer }) {
				all = fewer
			} else {
				at += size
			}
		}
	}
}
