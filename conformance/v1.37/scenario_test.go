package v137

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// scenario is one HPA, one scale target and a row of reconciliations, as recordings
// have them. It is only read once it is parsed, for it may run several times.
type scenario struct {
	Config    config                                 `json:"config"`
	HPA       *autoscalingv2.HorizontalPodAutoscaler `json:"hpa"`
	OtherHPAs []otherHPA                             `json:"otherHpas"`
	Steps     []step                                 `json:"steps"`
}

// config is what the controller is made with, and the gate that scenarios switch.
type config struct {
	Tolerance                      float64 `json:"tolerance"`
	CPUInitializationPeriodSeconds float64 `json:"cpuInitializationPeriodSeconds"`
	InitialReadinessDelaySeconds   float64 `json:"initialReadinessDelaySeconds"`
	DownscaleStabilizationSeconds  float64 `json:"downscaleStabilizationSeconds"`
	ScaleToZero                    bool    `json:"scaleToZero"`
}

// otherHPA is another HPA that the controller knows.
type otherHPA struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Selector  string `json:"selector"`
}

// step is what the controller sees at one reconciliation.
type step struct {
	Time             time.Time                              `json:"time"`
	HPA              *autoscalingv2.HorizontalPodAutoscaler `json:"hpa"`
	HPADeleted       bool                                   `json:"hpaDeleted"`
	Scale            *autoscalingv1.Scale                   `json:"scale"`
	Pods             []*corev1.Pod                          `json:"pods"`
	PodMetrics       []metricsv1beta1.PodMetrics            `json:"podMetrics"`
	CustomMetrics    []customv1beta2.MetricValue            `json:"customMetrics"`
	ExternalMetrics  []externalv1beta1.ExternalMetricValue  `json:"externalMetrics"`
	Errors           map[string]string                      `json:"errors"`
	ScaleGetError    string                                 `json:"scaleGetError"`
	ScaleUpdateError string                                 `json:"scaleUpdateError"`
}

// parse reads a scenario and fills in the namespaces it leaves out.
func parse(text []byte) (*scenario, error) {
	s := &scenario{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if s.HPA == nil || s.HPA.Name == "" || s.HPA.Namespace == "" {
		return nil, errors.New("the HPA must have a name and a namespace")
	}
	for i := range s.OtherHPAs {
		if other := &s.OtherHPAs[i]; other.Namespace == "" {
			other.Namespace = s.HPA.Namespace
		}
	}
	for i := range s.Steps {
		if err := s.Steps[i].complete(s.HPA.Namespace); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

func (s *step) complete(namespace string) error {
	if s.Scale == nil && s.ScaleGetError == "" && !s.HPADeleted {
		return errors.New("there is neither a scale nor an error of reading it")
	}
	for i, pod := range s.Pods {
		if pod == nil {
			return fmt.Errorf("pod %d is null", i)
		}
		if pod.Namespace == "" {
			pod.Namespace = namespace
		}
	}
	return nil
}

// seconds is a duration given in seconds, to the nanosecond.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s * float64(time.Second)))
}
