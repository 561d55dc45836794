package manifest

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// extensionsAutoscaler is extensions/v1beta1, the oldest version.
type extensionsAutoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              extensionsSpec   `json:"spec"`
	Status            extensionsStatus `json:"status"`
}

type extensionsSpec struct {
	ScaleRef       extensionsScaleRef `json:"scaleRef"`
	MinReplicas    *int32             `json:"minReplicas"`
	MaxReplicas    int32              `json:"maxReplicas"`
	CPUUtilization *struct {
		TargetPercentage int32 `json:"targetPercentage"`
	} `json:"cpuUtilization"`
}

type extensionsScaleRef struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	// Subresource is always "scale" and ignored.
	Subresource string `json:"subresource"`
}

type extensionsStatus struct {
	ObservedGeneration              *int64       `json:"observedGeneration"`
	LastScaleTime                   *metav1.Time `json:"lastScaleTime"`
	CurrentReplicas                 int32        `json:"currentReplicas"`
	DesiredReplicas                 int32        `json:"desiredReplicas"`
	CurrentCPUUtilizationPercentage *int32       `json:"currentCPUUtilizationPercentage"`
}

func decodeExtensions(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	var in extensionsAutoscaler
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, err
	}
	var percent *int32
	if in.Spec.CPUUtilization != nil {
		percent = &in.Spec.CPUUtilization.TargetPercentage
	}
	ref := in.Spec.ScaleRef
	out := newAutoscaler(in.ObjectMeta)
	out.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
			Kind: ref.Kind, Name: ref.Name, APIVersion: ref.APIVersion,
		},
		MinReplicas: in.Spec.MinReplicas,
		MaxReplicas: in.Spec.MaxReplicas,
	}
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		LastScaleTime:      in.Status.LastScaleTime,
		CurrentReplicas:    in.Status.CurrentReplicas,
		DesiredReplicas:    in.Status.DesiredReplicas,
		CurrentMetrics:     cpuStatus(in.Status.CurrentCPUUtilizationPercentage),
	}
	if err := applyAnnotations(out, customTargetsAnnotation, customStatusesAnnotation); err != nil {
		return nil, err
	}
	out.Spec.Metrics = withCPUTarget(out.Spec.Metrics, percent)
	return out, nil
}
