package manifest

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// metricStatusesFromV1 converts statuses in the shape of autoscaling/v2beta1 and of the
// annotation of autoscaling/v1. That shape can't omit some values, so a zero may mean absent;
// as in the API server it stays a zero.
func metricStatusesFromV1(statuses []autoscalingv1.MetricStatus) []autoscalingv2.MetricStatus {
	var out []autoscalingv2.MetricStatus
	for i := range statuses {
		out = append(out, metricStatusFromV1(&statuses[i]))
	}
	return out
}

func metricStatusFromV1(status *autoscalingv1.MetricStatus) autoscalingv2.MetricStatus {
	out := autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(status.Type)}
	if m := status.Object; m != nil {
		out.Object = &autoscalingv2.ObjectMetricStatus{
			Metric:          identifierFromV1(m.MetricName, m.Selector),
			Current:         autoscalingv2.MetricValueStatus{Value: &m.CurrentValue, AverageValue: m.AverageValue},
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
		}
	}
	if m := status.Pods; m != nil {
		out.Pods = &autoscalingv2.PodsMetricStatus{
			Metric:  identifierFromV1(m.MetricName, m.Selector),
			Current: autoscalingv2.MetricValueStatus{AverageValue: &m.CurrentAverageValue},
		}
	}
	if m := status.Resource; m != nil {
		out.Resource = &autoscalingv2.ResourceMetricStatus{
			Name: m.Name, Current: resourceCurrentFromV1(m.CurrentAverageUtilization, &m.CurrentAverageValue),
		}
	}
	if m := status.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name:      m.Name,
			Current:   resourceCurrentFromV1(m.CurrentAverageUtilization, &m.CurrentAverageValue),
			Container: m.Container,
		}
	}
	if m := status.External; m != nil {
		out.External = &autoscalingv2.ExternalMetricStatus{
			Metric:  identifierFromV1(m.MetricName, m.MetricSelector),
			Current: autoscalingv2.MetricValueStatus{Value: &m.CurrentValue, AverageValue: m.CurrentAverageValue},
		}
	}
	return out
}

func resourceCurrentFromV1(utilization *int32, averageValue *resource.Quantity) autoscalingv2.MetricValueStatus {
	return autoscalingv2.MetricValueStatus{AverageUtilization: utilization, AverageValue: averageValue}
}
