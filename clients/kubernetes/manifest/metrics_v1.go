package manifest

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metricSpecsFromV1 converts metrics in the shape of autoscaling/v2beta1 and of the annotation
// of autoscaling/v1.
func metricSpecsFromV1(metrics []autoscalingv1.MetricSpec) []autoscalingv2.MetricSpec {
	var out []autoscalingv2.MetricSpec
	for i := range metrics {
		out = append(out, metricSpecFromV1(&metrics[i]))
	}
	return out
}

func metricSpecFromV1(metric *autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	out := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(metric.Type)}
	if m := metric.Object; m != nil {
		out.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Target:          objectTargetFromV1(m),
			Metric:          identifierFromV1(m.MetricName, m.Selector),
		}
	}
	if m := metric.Pods; m != nil {
		out.Pods = &autoscalingv2.PodsMetricSource{
			Metric: identifierFromV1(m.MetricName, m.Selector),
			Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.AverageValueMetricType, AverageValue: &m.TargetAverageValue,
			},
		}
	}
	if m := metric.Resource; m != nil {
		out.Resource = &autoscalingv2.ResourceMetricSource{
			Name: m.Name, Target: resourceTargetFromV1(m.TargetAverageUtilization, m.TargetAverageValue),
		}
	}
	if m := metric.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name:      m.Name,
			Target:    resourceTargetFromV1(m.TargetAverageUtilization, m.TargetAverageValue),
			Container: m.Container,
		}
	}
	if m := metric.External; m != nil {
		out.External = &autoscalingv2.ExternalMetricSource{
			Metric: identifierFromV1(m.MetricName, m.MetricSelector),
			Target: externalTargetFromV1(m.TargetValue, m.TargetAverageValue),
		}
	}
	return out
}

func identifierFromV1(name string, selector *metav1.LabelSelector) autoscalingv2.MetricIdentifier {
	return autoscalingv2.MetricIdentifier{Name: name, Selector: selector}
}

// objectTargetFromV1: the older shape can't omit targetValue, so that beside an average a zero
// value means absent.
func objectTargetFromV1(m *autoscalingv1.ObjectMetricSource) autoscalingv2.MetricTarget {
	if m.AverageValue == nil {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &m.TargetValue}
	}
	out := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: m.AverageValue}
	if !m.TargetValue.IsZero() {
		out.Value = &m.TargetValue
	}
	return out
}

func resourceTargetFromV1(utilization *int32, averageValue *resource.Quantity) autoscalingv2.MetricTarget {
	out := autoscalingv2.MetricTarget{
		Type: autoscalingv2.UtilizationMetricType, AverageUtilization: utilization, AverageValue: averageValue,
	}
	if utilization == nil {
		out.Type = autoscalingv2.AverageValueMetricType
	}
	return out
}

func externalTargetFromV1(value, averageValue *resource.Quantity) autoscalingv2.MetricTarget {
	out := autoscalingv2.MetricTarget{
		Type: autoscalingv2.ValueMetricType, Value: value, AverageValue: averageValue,
	}
	if value == nil {
		out.Type = autoscalingv2.AverageValueMetricType
	}
	return out
}
