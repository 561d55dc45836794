package shrink

import (
	"maps"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// clone copies all of a scenario.
func clone(s *recording.Scenario) *recording.Scenario {
	c := *s
	c.Tags = slices.Clone(s.Tags)
	c.HPA = s.HPA.DeepCopy()
	c.OtherHPAs = slices.Clone(s.OtherHPAs)
	c.Steps = slices.Clone(s.Steps)
	for i := range c.Steps {
		cloneStep(&c.Steps[i])
	}
	return &c
}

func cloneStep(s *recording.Step) {
	s.HPA = s.HPA.DeepCopy()
	s.Scale = s.Scale.DeepCopy()
	s.Pods = cloneAll(s.Pods, func(p **corev1.Pod) { *p = (*p).DeepCopy() })
	s.PodMetrics = cloneAll(s.PodMetrics, func(m *metricsv1beta1.PodMetrics) { *m = *m.DeepCopy() })
	s.CustomMetrics = cloneAll(s.CustomMetrics, func(v *customv1beta2.MetricValue) { *v = *v.DeepCopy() })
	s.ExternalMetrics = cloneAll(s.ExternalMetrics, func(v *externalv1beta1.ExternalMetricValue) { *v = *v.DeepCopy() })
	s.Errors = maps.Clone(s.Errors)
	s.PlatformDependent = slices.Clone(s.PlatformDependent)
	if s.Expect != nil {
		e := *s.Expect
		e.Conditions, e.Events = slices.Clone(e.Conditions), slices.Clone(e.Events)
		e.CurrentMetrics = cloneAll(e.CurrentMetrics, func(m *autoscalingv2.MetricStatus) { *m = *m.DeepCopy() })
		s.Expect = &e
	}
}

// cloneAll copies a list and what its items refer to.
func cloneAll[T any](list []T, item func(*T)) []T {
	list = slices.Clone(list)
	for i := range list {
		item(&list[i])
	}
	return list
}
