package v115

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2beta2"
	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// scenario is one autoscaler, its target and a row of reconciles. The autoscaling/v2
// of scenarios is written as the autoscaling/v2beta2 of this version is. Fields that
// this version does not know are dropped when they are decoded, as its API server
// would. Other autoscalers are left out, for the controller does not look at them.
type scenario struct {
	Config config                                 `json:"config"`
	HPA    *autoscalingv2.HorizontalPodAutoscaler `json:"hpa"`
	Steps  []step                                 `json:"steps"`
}

// config holds the settings of the controller. The feature HPAScaleToZero is not
// among them: the controller of this version does not ask for it.
type config struct {
	Tolerance                      float64 `json:"tolerance"`
	CPUInitializationPeriodSeconds float64 `json:"cpuInitializationPeriodSeconds"`
	InitialReadinessDelaySeconds   float64 `json:"initialReadinessDelaySeconds"`
	DownscaleStabilizationSeconds  float64 `json:"downscaleStabilizationSeconds"`
}

// step is one reconcile: what the controller sees in it.
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

// parse reads a scenario and puts the namespace in wherever it is left out.
func parse(data []byte) (*scenario, error) {
	var s scenario
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("parse the scenario: %w", err)
	}
	if s.HPA == nil || s.HPA.Name == "" || s.HPA.Namespace == "" {
		return nil, errors.New("parse the scenario: no hpa with a name and a namespace")
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		for j, pod := range step.Pods {
			if pod == nil {
				return nil, fmt.Errorf("parse the scenario: pod %d of step %d is null", j, i)
			}
			inNamespace(&pod.Namespace, s.HPA.Namespace)
		}
		for j := range step.PodMetrics {
			inNamespace(&step.PodMetrics[j].Namespace, s.HPA.Namespace)
		}
	}
	return &s, nil
}

func inNamespace(namespace *string, of string) {
	if *namespace == "" {
		*namespace = of
	}
}

// seconds is a duration of s seconds, to the nanosecond.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s * float64(time.Second)))
}
