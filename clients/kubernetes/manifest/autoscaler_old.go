package manifest

import (
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// oldStatus has the fields of the statuses before v2beta2. Those of v2beta1's metrics have the same
// shape as in the annotations of autoscaling/v1, so it uses v1's types.
type oldStatus struct {
	ObservedGeneration              *int64                                           `json:"observedGeneration"`
	LastScaleTime                   *metav1.Time                                     `json:"lastScaleTime"`
	CurrentReplicas                 int32                                            `json:"currentReplicas"`
	DesiredReplicas                 int32                                            `json:"desiredReplicas"`
	CurrentCPUUtilizationPercentage *int32                                           `json:"currentCPUUtilizationPercentage"`
	CurrentMetrics                  []autoscalingv1.MetricStatus                     `json:"currentMetrics"`
	Conditions                      []autoscalingv2.HorizontalPodAutoscalerCondition `json:"conditions"`
}

// readOld reads an autoscaler with a spec of that type: metadata, status and the named annotations
// become those of autoscaling/v2, the spec is the caller's.
func readOld[S any](data []byte, annotations ...string) (*autoscalingv2.HorizontalPodAutoscaler, *S, error) {
	var in struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              S         `json:"spec"`
		Status            oldStatus `json:"status"`
	}
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, nil, err
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		LastScaleTime:      in.Status.LastScaleTime,
		CurrentReplicas:    in.Status.CurrentReplicas,
		DesiredReplicas:    in.Status.DesiredReplicas,
		CurrentMetrics:     append(cpuStatus(in.Status.CurrentCPUUtilizationPercentage), metricStatusesFromV1(in.Status.CurrentMetrics)...),
		Conditions:         in.Status.Conditions,
	}
	return out, &in.Spec, applyAnnotations(out, annotations...)
}

// decodeV1 converts as the API server does: the annotations' metrics come first, then the one
// of targetCPUUtilizationPercentage; without any metrics, cpu at 80 %.
func decodeV1(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	out, spec, err := readOld[autoscalingv1.HorizontalPodAutoscalerSpec](data, metricsAnnotation, behaviorAnnotation,
		currentMetricsAnnotation, conditionsAnnotation, customTargetsAnnotation, customStatusesAnnotation)
	if err != nil {
		return nil, err
	}
	out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference(spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = spec.MinReplicas, spec.MaxReplicas
	out.Spec.Metrics = withCPUTarget(out.Spec.Metrics, spec.TargetCPUUtilizationPercentage)
	return out, nil
}

// extensionsSpec is that of extensions/v1beta1, the oldest version.
type extensionsSpec struct {
	ScaleRef struct {
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		APIVersion string `json:"apiVersion"`
		// Subresource is always "scale" and ignored.
		Subresource string `json:"subresource"`
	} `json:"scaleRef"`
	MinReplicas    *int32 `json:"minReplicas"`
	MaxReplicas    int32  `json:"maxReplicas"`
	CPUUtilization *struct {
		TargetPercentage int32 `json:"targetPercentage"`
	} `json:"cpuUtilization"`
}

func decodeExtensions(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	out, spec, err := readOld[extensionsSpec](data, customTargetsAnnotation, customStatusesAnnotation)
	if err != nil {
		return nil, err
	}
	ref := spec.ScaleRef
	out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: ref.Kind, Name: ref.Name, APIVersion: ref.APIVersion}
	out.Spec.MinReplicas, out.Spec.MaxReplicas = spec.MinReplicas, spec.MaxReplicas
	var percent *int32
	if spec.CPUUtilization != nil {
		percent = &spec.CPUUtilization.TargetPercentage
	}
	out.Spec.Metrics = withCPUTarget(out.Spec.Metrics, percent)
	return out, nil
}

type v2beta1Spec struct {
	ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
	MinReplicas    *int32                                    `json:"minReplicas"`
	MaxReplicas    int32                                     `json:"maxReplicas"`
	Metrics        []autoscalingv1.MetricSpec                `json:"metrics"`
}

// decodeV2beta1 reads the version that has no field for behavior and stored it in v1's annotation.
func decodeV2beta1(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	out, spec, err := readOld[v2beta1Spec](data, behaviorAnnotation)
	if err != nil {
		return nil, err
	}
	out.Spec.ScaleTargetRef, out.Spec.MinReplicas, out.Spec.MaxReplicas = spec.ScaleTargetRef, spec.MinReplicas, spec.MaxReplicas
	out.Spec.Metrics = metricSpecsFromV1(spec.Metrics)
	return out, nil
}

// decodeV2beta2 reads the version that is v2 without the tolerances.
func decodeV2beta2(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	var in autoscalingv2.HorizontalPodAutoscaler
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, err
	}
	var unknown []error
	if b := in.Spec.Behavior; b != nil {
		for i, rules := range []*autoscalingv2.HPAScalingRules{b.ScaleUp, b.ScaleDown} {
			if rules != nil && rules.Tolerance != nil {
				unknown = append(unknown, fmt.Errorf("unknown field %q", "spec.behavior."+[]string{"scaleUp", "scaleDown"}[i]+".tolerance"))
			}
		}
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Spec, out.Status = in.Spec, in.Status
	return out, errors.Join(unknown...)
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
