package kubernetes

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/quantity"
)

// previousStatus converts the stored status of an autoscaler; nil if it was never evaluated.
func previousStatus(status *autoscalingv2.HorizontalPodAutoscalerStatus) *setpointv1.HorizontalPodAutoscalerStatus {
	if equality.Semantic.DeepEqual(*status, autoscalingv2.HorizontalPodAutoscalerStatus{}) {
		return nil
	}
	return StatusToProto(status)
}

// StatusToProto converts a status of autoscaling/v2 to the service's.
func StatusToProto(status *autoscalingv2.HorizontalPodAutoscalerStatus) *setpointv1.HorizontalPodAutoscalerStatus {
	out := &setpointv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: status.ObservedGeneration,
		CurrentReplicas:    status.CurrentReplicas,
		DesiredReplicas:    status.DesiredReplicas,
	}
	if status.LastScaleTime != nil {
		out.LastScaleTime = instantUnlessZero(status.LastScaleTime.Time)
	}
	for i := range status.CurrentMetrics {
		out.CurrentMetrics = append(out.CurrentMetrics, metricStatusToProto(&status.CurrentMetrics[i]))
	}
	for _, condition := range status.Conditions {
		out.Conditions = append(out.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{
			Type:               string(condition.Type),
			Status:             string(condition.Status),
			LastTransitionTime: instantUnlessZero(condition.LastTransitionTime.Time),
			Reason:             condition.Reason,
			Message:            condition.Message,
		})
	}
	return out
}

// StatusFromProto converts the service's status to autoscaling/v2, for writing to the cluster.
// Errors name the quantities that do not parse.
func StatusFromProto(status *setpointv1.HorizontalPodAutoscalerStatus) (*autoscalingv2.HorizontalPodAutoscalerStatus, error) {
	out := &autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: status.GetCurrentReplicas(),
		DesiredReplicas: status.GetDesiredReplicas(),
	}
	if status != nil {
		out.ObservedGeneration = status.ObservedGeneration
	}
	if status.GetLastScaleTime() != nil {
		at := metav1.NewTime(status.GetLastScaleTime().AsTime())
		out.LastScaleTime = &at
	}
	for i, metric := range status.GetCurrentMetrics() {
		converted, err := metricStatusFromProto(metric)
		if err != nil {
			return nil, fmt.Errorf("currentMetrics[%d].%w", i, err)
		}
		out.CurrentMetrics = append(out.CurrentMetrics, converted)
	}
	for _, condition := range status.GetConditions() {
		out.Conditions = append(out.Conditions, conditionFromProto(condition))
	}
	return out, nil
}

func conditionFromProto(condition *setpointv1.HorizontalPodAutoscalerCondition) autoscalingv2.HorizontalPodAutoscalerCondition {
	out := autoscalingv2.HorizontalPodAutoscalerCondition{
		Type:    autoscalingv2.HorizontalPodAutoscalerConditionType(condition.GetType()),
		Status:  corev1.ConditionStatus(condition.GetStatus()),
		Reason:  condition.GetReason(),
		Message: condition.GetMessage(),
	}
	if condition.GetLastTransitionTime() != nil {
		out.LastTransitionTime = metav1.NewTime(condition.GetLastTransitionTime().AsTime())
	}
	return out
}

func valueToProto(value *autoscalingv2.MetricValueStatus) *setpointv1.MetricValueStatus {
	return &setpointv1.MetricValueStatus{
		Value:              quantityToProto(value.Value),
		AverageValue:       quantityToProto(value.AverageValue),
		AverageUtilization: value.AverageUtilization,
	}
}

func valueFromProto(value *setpointv1.MetricValueStatus) (out autoscalingv2.MetricValueStatus, err error) {
	if value == nil {
		return out, nil
	}
	out.AverageUtilization = value.AverageUtilization
	if out.Value, err = quantityFromProto(value.Value); err != nil {
		return out, fmt.Errorf("value: %w", err)
	}
	if out.AverageValue, err = quantityFromProto(value.AverageValue); err != nil {
		return out, fmt.Errorf("averageValue: %w", err)
	}
	return out, nil
}

func quantityFromProto(text *string) (*resource.Quantity, error) {
	if text == nil {
		return nil, nil
	}
	quantity, err := quantity.Parse(*text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a quantity: %w", *text, err)
	}
	return &quantity, nil
}
