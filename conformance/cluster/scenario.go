package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Scenario is one HPA, one scale target and a sequence of reconciles, in the format of
// recordings. After parsing it is immutable, because it may run several times.
//
// HPA is the version's own type, of autoscaling/v2 or of the earlier v2beta2, which has
// the same encoding. Fields unknown to a version are dropped when decoding, as by its
// API server.
type Scenario[HPA any] struct {
	Config    Config      `json:"config"`
	HPA       *HPA        `json:"hpa"`
	OtherHPAs []OtherHPA  `json:"otherHpas"`
	Steps     []Step[HPA] `json:"steps"`
}

// Config is the configuration of the controller, and the feature gate that scenarios
// set. Versions before v1.36 ignore the gate.
type Config struct {
	Tolerance               float64 `json:"tolerance"`
	CPUInitializationPeriod Seconds `json:"cpuInitializationPeriodSeconds"`
	InitialReadinessDelay   Seconds `json:"initialReadinessDelaySeconds"`
	DownscaleStabilization  Seconds `json:"downscaleStabilizationSeconds"`
	ScaleToZero             bool    `json:"scaleToZero"`
}

// Seconds is a duration in seconds.
type Seconds float64

// Duration converts it, to the nanosecond.
func (s Seconds) Duration() time.Duration {
	return time.Duration(math.Round(float64(s) * float64(time.Second)))
}

// OtherHPA is another HPA that the controller knows. Versions before v1.28 ignore
// others.
type OtherHPA struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Selector  string `json:"selector"`
}

// Step is one reconcile: its time, the changes of the HPA before it, and the state that
// the controller sees.
type Step[HPA any] struct {
	Time       time.Time `json:"time"`
	HPA        *HPA      `json:"hpa"`
	HPADeleted bool      `json:"hpaDeleted"`
	State
}

// State is the content of the APIs at a step.
type State struct {
	Scale            *autoscalingv1.Scale                  `json:"scale"`
	Pods             []*corev1.Pod                         `json:"pods"`
	PodMetrics       []metricsv1beta1.PodMetrics           `json:"podMetrics"`
	CustomMetrics    []customv1beta2.MetricValue           `json:"customMetrics"`
	ExternalMetrics  []externalv1beta1.ExternalMetricValue `json:"externalMetrics"`
	Errors           map[string]string                     `json:"errors"`
	ScaleGetError    string                                `json:"scaleGetError"`
	ScaleUpdateError string                                `json:"scaleUpdateError"`
	// ScaleUpdates are the counts that may be written; nil: any.
	ScaleUpdates *Counts `json:"scaleUpdates"`
}

// Counts are counts of replicas from one to another, inclusive.
type Counts struct {
	Least int32 `json:"least"`
	Most  int32 `json:"most"`
}

// RefusedUpdate is the error of writing a count that is not one of State.ScaleUpdates.
const RefusedUpdate = "another count is in force"

// Object is an HPA by its metadata.
type Object[HPA any] interface {
	*HPA
	metav1.Object
}

// Parse parses a scenario and fills in omitted namespaces.
func Parse[HPA any, Pointer Object[HPA]](text []byte) (*Scenario[HPA], error) {
	s := &Scenario[HPA]{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if s.HPA == nil || Pointer(s.HPA).GetName() == "" || Pointer(s.HPA).GetNamespace() == "" {
		return nil, errors.New("the HPA must have a name and a namespace")
	}
	namespace := Pointer(s.HPA).GetNamespace()
	for i := range s.OtherHPAs {
		complete(&s.OtherHPAs[i].Namespace, namespace)
	}
	for i := range s.Steps {
		if err := s.Steps[i].complete(namespace); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

func (s *Step[HPA]) complete(namespace string) error {
	if s.Scale == nil && s.ScaleGetError == "" && !s.HPADeleted {
		return errors.New("there is neither a scale nor an error of reading it")
	}
	for i, pod := range s.Pods {
		if pod == nil {
			return fmt.Errorf("pod %d is null", i)
		}
		complete(&pod.Namespace, namespace)
	}
	for i := range s.PodMetrics {
		complete(&s.PodMetrics[i].Namespace, namespace)
	}
	return nil
}

func complete(namespace *string, of string) {
	if *namespace == "" {
		*namespace = of
	}
}
