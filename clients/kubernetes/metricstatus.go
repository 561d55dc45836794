package kubernetes

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func metricStatusToProto(status *autoscalingv2.MetricStatus) *setpointv1.MetricStatus {
	out := &setpointv1.MetricStatus{Type: string(status.Type)}
	if m := status.Object; m != nil {
		out.Object = &setpointv1.ObjectMetricStatus{
			Metric:          identifierToProto(&m.Metric),
			Current:         valueToProto(&m.Current),
			DescribedObject: referenceToProto(m.DescribedObject),
		}
	}
	if m := status.Pods; m != nil {
		out.Pods = &setpointv1.PodsMetricStatus{
			Metric: identifierToProto(&m.Metric), Current: valueToProto(&m.Current),
		}
	}
	if m := status.Resource; m != nil {
		out.Resource = &setpointv1.ResourceMetricStatus{
			Name: string(m.Name), Current: valueToProto(&m.Current),
		}
	}
	if m := status.ContainerResource; m != nil {
		out.ContainerResource = &setpointv1.ContainerResourceMetricStatus{
			Name: string(m.Name), Current: valueToProto(&m.Current), Container: m.Container,
		}
	}
	if m := status.External; m != nil {
		out.External = &setpointv1.ExternalMetricStatus{
			Metric: identifierToProto(&m.Metric), Current: valueToProto(&m.Current),
		}
	}
	return out
}

// metricStatusFromProto is the reverse conversion; errors begin with the field.
func metricStatusFromProto(status *setpointv1.MetricStatus) (autoscalingv2.MetricStatus, error) {
	out := autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(status.GetType())}
	var firstErr error
	current := func(source string, value *setpointv1.MetricValueStatus) autoscalingv2.MetricValueStatus {
		converted, err := valueFromProto(value)
		if err != nil && firstErr == nil {
			firstErr = fmt.Errorf("%s.current.%w", source, err)
		}
		return converted
	}
	if m := status.GetObject(); m != nil {
		out.Object = &autoscalingv2.ObjectMetricStatus{
			Metric:          identifierFromProto(m.GetMetric()),
			Current:         current("object", m.GetCurrent()),
			DescribedObject: referenceFromProto(m.GetDescribedObject()),
		}
	}
	if m := status.GetPods(); m != nil {
		out.Pods = &autoscalingv2.PodsMetricStatus{
			Metric: identifierFromProto(m.GetMetric()), Current: current("pods", m.GetCurrent()),
		}
	}
	if m := status.GetResource(); m != nil {
		out.Resource = &autoscalingv2.ResourceMetricStatus{
			Name: corev1.ResourceName(m.GetName()), Current: current("resource", m.GetCurrent()),
		}
	}
	if m := status.GetContainerResource(); m != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name:      corev1.ResourceName(m.GetName()),
			Current:   current("containerResource", m.GetCurrent()),
			Container: m.GetContainer(),
		}
	}
	if m := status.GetExternal(); m != nil {
		out.External = &autoscalingv2.ExternalMetricStatus{
			Metric: identifierFromProto(m.GetMetric()), Current: current("external", m.GetCurrent()),
		}
	}
	return out, firstErr
}

func identifierFromProto(metric *setpointv1.MetricIdentifier) autoscalingv2.MetricIdentifier {
	return autoscalingv2.MetricIdentifier{
		Name: metric.GetName(), Selector: selectorFromProto(metric.GetSelector()),
	}
}

func referenceFromProto(ref *setpointv1.CrossVersionObjectReference) autoscalingv2.CrossVersionObjectReference {
	return autoscalingv2.CrossVersionObjectReference{
		Kind: ref.GetKind(), Name: ref.GetName(), APIVersion: ref.GetApiVersion(),
	}
}

func selectorFromProto(selector *setpointv1.LabelSelector) *metav1.LabelSelector {
	if selector == nil {
		return nil
	}
	out := &metav1.LabelSelector{MatchLabels: selector.GetMatchLabels()}
	for _, requirement := range selector.GetMatchExpressions() {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      requirement.GetKey(),
			Operator: metav1.LabelSelectorOperator(requirement.GetOperator()),
			Values:   requirement.GetValues(),
		})
	}
	return out
}
