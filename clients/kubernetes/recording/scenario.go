package recording

import (
	"encoding/json"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Scenario is one autoscaler, its target and a sequence of evaluations.
type Scenario struct {
	// Name is unique in its file. Required.
	Name string `json:"name"`
	// Source is the origin of the scenario, for example "curated".
	Source string `json:"source,omitempty"`
	// Tags mark scenarios; "platform-dependent" if a step has such a mark.
	Tags []string `json:"tags,omitempty"`
	// Config has the controller's settings. With calls it is empty: each step's Request has options.
	Config Config `json:"config"`
	// HPA is the autoscaler as stored, with the API's defaults; its status is the
	// one before the first step. Required, with name and namespace. Its annotation
	// setpoint.dev/stages has its stages.
	HPA *autoscalingv2.HorizontalPodAutoscaler `json:"hpa"`
	// History is the target's history before the first step. Nil: none.
	History *History `json:"history,omitempty"`
	// Kinds are additional scale targets that the cluster knows, each "Kind.group".
	Kinds []string `json:"kinds,omitempty"`
	// OtherHPAs are other autoscalers that the controller knows.
	OtherHPAs []OtherHPA `json:"otherHpas,omitempty"`
	// Steps are the evaluations, in order of time.
	Steps []Step `json:"steps"`

	// State is the target's record before the first call, as the service keeps it, in place of Before; only
	// package replay reads it.
	State []byte `json:"state,omitempty"`
	// Calls replace HPA and Steps in recordings of agents and of the service: requests and
	// answers, in order of time. Reading converts them to Steps. Before is the target's
	// setpoint.v1.History before the first call, in JSON; reading converts it to History.
	Calls  []Call          `json:"calls,omitempty"`
	Before json.RawMessage `json:"before,omitempty"`
}

// Call is one evaluation as request and answer, with messages of setpoint.v1 in JSON.
type Call struct {
	// Time of the evaluation. Not before that of the call before. Required.
	Time time.Time `json:"time"`
	// Request is the RecommendRequest. Required.
	Request json.RawMessage `json:"request"`
	// Answer is the RecommendResponse, Report the ReportScaleResponse; without an answer there
	// is no expectation, without a report there was nothing to report.
	Answer json.RawMessage `json:"answer,omitempty"`
	Report json.RawMessage `json:"report,omitempty"`
	// ApplyError is why writing the count failed; empty: it succeeded, or the count stayed.
	ApplyError string `json:"applyError,omitempty"`
	// Sums stand for the request's pods and readings, which it then lacks: so the service records calls. Their
	// answers have neither events nor current metrics. Nil: the request has the pods.
	Sums *Sums `json:"sums,omitempty"`
	// Unreported reports whether nobody said if the answer was applied.
	Unreported bool `json:"unreported,omitempty"`
	// Basis is the DecisionBasis of the answer, for display.
	Basis json.RawMessage `json:"basis,omitempty"`
}

// Config has the settings of a controller.
type Config struct {
	// Profile is the version of the controller. Empty: "v1.36".
	Profile string `json:"profile,omitempty"`
	// Tolerance is a ratio: 0.1 is 10 %.
	Tolerance float64 `json:"tolerance"`
	// CPUInitializationPeriodSeconds is the controller's CPU initialization period.
	CPUInitializationPeriodSeconds float64 `json:"cpuInitializationPeriodSeconds"`
	// InitialReadinessDelaySeconds is its initial readiness delay.
	InitialReadinessDelaySeconds float64 `json:"initialReadinessDelaySeconds"`
	// DownscaleStabilizationSeconds is its downscale stabilization window.
	DownscaleStabilizationSeconds float64 `json:"downscaleStabilizationSeconds"`
	// UpscaleDelaySeconds and DownscaleDelaySeconds are the delays after a change of a
	// controller that has them. Nil: 180 and 300.
	UpscaleDelaySeconds   *float64 `json:"upscaleDelaySeconds,omitempty"`
	DownscaleDelaySeconds *float64 `json:"downscaleDelaySeconds,omitempty"`
	// ScaleToZero reports whether its HPAScaleToZero feature is on.
	ScaleToZero bool `json:"scaleToZero"`
}

// OtherHPA is an autoscaler besides the scenario's.
type OtherHPA struct {
	// Name of the autoscaler.
	Name string `json:"name"`
	// Namespace of it; empty: that of the scenario's.
	Namespace string `json:"namespace,omitempty"`
	// Selector is the last one found on its scale.
	Selector string `json:"selector,omitempty"`
}

// Step is one evaluation: the controller's input and the outcome.
type Step struct {
	// Time of the evaluation. Not before that of the step before. Required.
	Time time.Time `json:"time"`
	// HPA replaces the spec, its generation and its stages from this step on; nil: unchanged. The
	// status continues, unless the autoscaler was deleted.
	HPA *autoscalingv2.HorizontalPodAutoscaler `json:"hpa,omitempty"`
	// HPADeleted deletes the autoscaler, and its history, at this step. A later step with HPA
	// recreates it.
	HPADeleted bool `json:"hpaDeleted,omitempty"`
	// Scale of the target.
	Scale *autoscalingv1.Scale `json:"scale,omitempty"`
	// Pods of the namespace, selected or not. Without a namespace: that of the
	// autoscaler.
	Pods []*corev1.Pod `json:"pods,omitempty"`
	// PodMetrics of the namespace, selected or not.
	PodMetrics []metricsv1beta1.PodMetrics `json:"podMetrics,omitempty"`
	// CustomMetrics are the contents of the custom metrics API.
	CustomMetrics []customv1beta2.MetricValue `json:"customMetrics,omitempty"`
	// ExternalMetrics are the contents of the external metrics API.
	ExternalMetrics []externalv1beta1.ExternalMetricValue `json:"externalMetrics,omitempty"`
	// Errors of failing metrics APIs, by "resource", "custom", "external", "custom:<metric>" or
	// "external:<metric>"; those of a metric take precedence.
	Errors map[string]string `json:"errors,omitempty"`
	// ScaleGetError is the error of reading the scale; empty: it succeeds.
	ScaleGetError string `json:"scaleGetError,omitempty"`
	// ScaleUpdateError is the error of writing the scale, if the step writes it; empty: it
	// succeeds.
	ScaleUpdateError string `json:"scaleUpdateError,omitempty"`
	// PlatformDependent names the fields of Expect that differ on platforms where out-of-range
	// numbers saturate. Other names are refused.
	PlatformDependent []string `json:"platformDependent,omitempty"`
	// Expect is the expected outcome. Nil: unknown.
	Expect *Expect `json:"expect,omitempty"`

	// Request replaces the objects in a step that comes from a call. Sums, Unreported and Basis are the call's.
	Request    *setpointv1.RecommendRequest `json:"-"`
	Sums       *Sums                        `json:"-"`
	Unreported bool                         `json:"-"`
	Basis      *setpointv1.DecisionBasis    `json:"-"`
}
