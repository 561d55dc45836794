package manifest

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// decodeV1 converts as the API server does: the annotations' metrics come first, then the one
// of targetCPUUtilizationPercentage; without any metrics, cpu at 80 %.
func decodeV1(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	var in autoscalingv1.HorizontalPodAutoscaler
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, err
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
		MinReplicas:    in.Spec.MinReplicas,
		MaxReplicas:    in.Spec.MaxReplicas,
	}
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		LastScaleTime:      in.Status.LastScaleTime,
		CurrentReplicas:    in.Status.CurrentReplicas,
		DesiredReplicas:    in.Status.DesiredReplicas,
		CurrentMetrics:     cpuStatus(in.Status.CurrentCPUUtilizationPercentage),
	}
	err := applyAnnotations(out, metricsAnnotation, behaviorAnnotation, currentMetricsAnnotation, conditionsAnnotation,
		customTargetsAnnotation, customStatusesAnnotation)
	if err != nil {
		return nil, err
	}
	out.Spec.Metrics = withCPUTarget(out.Spec.Metrics, in.Spec.TargetCPUUtilizationPercentage)
	return out, nil
}

// withCPUTarget appends the cpu metric of percent to metrics; without both it returns the
// default metric.
func withCPUTarget(metrics []autoscalingv2.MetricSpec, percent *int32) []autoscalingv2.MetricSpec {
	switch {
	case percent != nil:
		return append(metrics, kubernetes.CPUUtilization(*percent))
	case len(metrics) == 0:
		return kubernetes.DefaultMetrics()
	default:
		return metrics
	}
}

// cpuStatus is the status of the cpu metric, empty without percent.
func cpuStatus(percent *int32) []autoscalingv2.MetricStatus {
	if percent == nil {
		return nil
	}
	return []autoscalingv2.MetricStatus{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricStatus{
			Name:    corev1.ResourceCPU,
			Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent},
		},
	}}
}
