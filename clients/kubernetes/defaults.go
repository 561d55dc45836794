package kubernetes

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Defaults sets what the API server sets when it stores a HorizontalPodAutoscaler of
// autoscaling/v2: one replica at least, cpu at 80 % without metrics, and the rules of both
// directions if there is behavior. Absent behavior stays absent, and so does scaleDown's
// stabilization window, because a setting of the controller is its default. Given policies,
// even an empty list, stay as they are.
func Defaults(autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	spec := &autoscaler.Spec
	if spec.MinReplicas == nil {
		one := int32(1)
		spec.MinReplicas = &one
	}
	if len(spec.Metrics) == 0 {
		spec.Metrics = DefaultMetrics()
	}
	if spec.Behavior == nil {
		return
	}
	spec.Behavior.ScaleUp = defaultRules(spec.Behavior.ScaleUp,
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
	if spec.Behavior.ScaleUp.StabilizationWindowSeconds == nil {
		none := int32(0)
		spec.Behavior.ScaleUp.StabilizationWindowSeconds = &none
	}
	spec.Behavior.ScaleDown = defaultRules(spec.Behavior.ScaleDown,
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
}

// defaultRules sets the absent fields of a direction's rules.
func defaultRules(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	if rules == nil {
		rules = &autoscalingv2.HPAScalingRules{}
	}
	if rules.SelectPolicy == nil {
		largest := autoscalingv2.MaxChangePolicySelect
		rules.SelectPolicy = &largest
	}
	if rules.Policies == nil {
		rules.Policies = policies
	}
	return rules
}

// DefaultMetrics is the default for a spec without metrics.
func DefaultMetrics() []autoscalingv2.MetricSpec {
	return []autoscalingv2.MetricSpec{CPUUtilization(defaultCPUUtilization)}
}

// defaultCPUUtilization is the target of the default metric, percent of the request.
const defaultCPUUtilization = 80

// CPUUtilization is a Resource metric: cpu at percent of the request.
func CPUUtilization(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{
				Type:               autoscalingv2.UtilizationMetricType,
				AverageUtilization: &percent,
			},
		},
	}
}
