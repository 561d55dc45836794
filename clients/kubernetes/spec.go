package kubernetes

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// SpecToProto converts a spec as it is: it adds and drops nothing, except that it can't
// distinguish absent policies from an empty list.
func SpecToProto(spec *autoscalingv2.HorizontalPodAutoscalerSpec) *setpointv1.HorizontalPodAutoscalerSpec {
	out := &setpointv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: referenceToProto(spec.ScaleTargetRef),
		MinReplicas:    spec.MinReplicas,
		MaxReplicas:    spec.MaxReplicas,
		Behavior:       behaviorToProto(spec.Behavior),
	}
	for i := range spec.Metrics {
		out.Metrics = append(out.Metrics, metricToProto(&spec.Metrics[i]))
	}
	return out
}

func referenceToProto(ref autoscalingv2.CrossVersionObjectReference) *setpointv1.CrossVersionObjectReference {
	return &setpointv1.CrossVersionObjectReference{Kind: ref.Kind, Name: ref.Name, ApiVersion: ref.APIVersion}
}

// metricToProto converts every source that is set, even if type names another one, so that the
// service can refuse them.
func metricToProto(metric *autoscalingv2.MetricSpec) *setpointv1.MetricSpec {
	out := &setpointv1.MetricSpec{Type: string(metric.Type)}
	if m := metric.Object; m != nil {
		out.Object = &setpointv1.ObjectMetricSource{
			DescribedObject: referenceToProto(m.DescribedObject),
			Target:          metricTargetToProto(&m.Target),
			Metric:          identifierToProto(&m.Metric),
		}
	}
	if m := metric.Pods; m != nil {
		out.Pods = &setpointv1.PodsMetricSource{
			Metric: identifierToProto(&m.Metric), Target: metricTargetToProto(&m.Target),
		}
	}
	if m := metric.Resource; m != nil {
		out.Resource = &setpointv1.ResourceMetricSource{
			Name: string(m.Name), Target: metricTargetToProto(&m.Target),
		}
	}
	if m := metric.ContainerResource; m != nil {
		out.ContainerResource = &setpointv1.ContainerResourceMetricSource{
			Name: string(m.Name), Target: metricTargetToProto(&m.Target), Container: m.Container,
		}
	}
	if m := metric.External; m != nil {
		out.External = &setpointv1.ExternalMetricSource{
			Metric: identifierToProto(&m.Metric), Target: metricTargetToProto(&m.Target),
		}
	}
	return out
}

func metricTargetToProto(target *autoscalingv2.MetricTarget) *setpointv1.MetricTarget {
	return &setpointv1.MetricTarget{
		Type:               string(target.Type),
		Value:              quantityToProto(target.Value),
		AverageValue:       quantityToProto(target.AverageValue),
		AverageUtilization: target.AverageUtilization,
	}
}

func identifierToProto(metric *autoscalingv2.MetricIdentifier) *setpointv1.MetricIdentifier {
	return &setpointv1.MetricIdentifier{Name: metric.Name, Selector: selectorToProto(metric.Selector)}
}

// selectorToProto distinguishes nil and empty selectors, which mean the same and print
// differently.
func selectorToProto(selector *metav1.LabelSelector) *setpointv1.LabelSelector {
	if selector == nil {
		return nil
	}
	out := &setpointv1.LabelSelector{MatchLabels: selector.MatchLabels}
	for _, requirement := range selector.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, &setpointv1.LabelSelectorRequirement{
			Key: requirement.Key, Operator: string(requirement.Operator), Values: requirement.Values,
		})
	}
	return out
}

func behaviorToProto(behavior *autoscalingv2.HorizontalPodAutoscalerBehavior) *setpointv1.HorizontalPodAutoscalerBehavior {
	if behavior == nil {
		return nil
	}
	return &setpointv1.HorizontalPodAutoscalerBehavior{
		ScaleUp: rulesToProto(behavior.ScaleUp), ScaleDown: rulesToProto(behavior.ScaleDown),
	}
}

func rulesToProto(rules *autoscalingv2.HPAScalingRules) *setpointv1.HPAScalingRules {
	if rules == nil {
		return nil
	}
	out := &setpointv1.HPAScalingRules{
		StabilizationWindowSeconds: rules.StabilizationWindowSeconds,
		SelectPolicy:               (*string)(rules.SelectPolicy),
		Tolerance:                  quantityToProto(rules.Tolerance),
	}
	for _, policy := range rules.Policies {
		out.Policies = append(out.Policies, &setpointv1.HPAScalingPolicy{
			Type: string(policy.Type), Value: policy.Value, PeriodSeconds: policy.PeriodSeconds,
		})
	}
	return out
}
