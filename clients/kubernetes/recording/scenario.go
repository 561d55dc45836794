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

// Scenario is one autoscaler, its target and a row of evaluations.
type Scenario struct {
	// Name is unique in its file. Required.
	Name string `json:"name"`
	// Source says where the scenario comes from, for example "curated".
	Source string `json:"source,omitempty"`
	// Tags mark scenarios; "platform-dependent" when a step has such a mark.
	Tags []string `json:"tags,omitempty"`
	// Config holds the controller's settings.
	Config Config `json:"config"`
	// HPA is the autoscaler as stored, with the API's defaults; its status is the
	// one before the first step. Required, with name and namespace.
	HPA *autoscalingv2.HorizontalPodAutoscaler `json:"hpa"`
	// History is what the target has before the first step. Nil: nothing.
	History *History `json:"history,omitempty"`
	// Kinds are scale targets that the cluster knows besides the usual ones, each
	// "Kind.group".
	Kinds []string `json:"kinds,omitempty"`
	// OtherHPAs are other autoscalers that the controller knows.
	OtherHPAs []OtherHPA `json:"otherHpas,omitempty"`
	// Steps are the evaluations, in order of time.
	Steps []Step `json:"steps"`

	// Calls are in place of HPA and Steps in what agents of other platforms record: what
	// was asked and answered, in order of time. Reading makes them into Steps. Before is
	// the setpoint.v1.History, in JSON, that the target had before the first, and made into
	// History.
	Calls  []Call          `json:"calls,omitempty"`
	Before json.RawMessage `json:"before,omitempty"`
}

// Call is one evaluation as the service was asked about it, with messages of setpoint.v1 in
// JSON.
type Call struct {
	// Time of the evaluation. Not before that of the call before. Required.
	Time time.Time `json:"time"`
	// Request is the RecommendRequest. Required.
	Request json.RawMessage `json:"request"`
	// Answer is the RecommendResponse, Report the ReportScaleResponse; without an answer
	// nothing is expected, without a report there was nothing to report.
	Answer json.RawMessage `json:"answer,omitempty"`
	Report json.RawMessage `json:"report,omitempty"`
	// ApplyError is why the count could not be written; empty: it was, or was to stay.
	ApplyError string `json:"applyError,omitempty"`
}

// Config holds the settings of a controller.
type Config struct {
	// Profile is the version of the controller. Empty: "v1.36".
	Profile string `json:"profile,omitempty"`
	// Tolerance, 0.1 for 10 %.
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
	// Selector last found on the scale of it.
	Selector string `json:"selector,omitempty"`
}

// Step is one evaluation: what the controller would see, and what came of it.
type Step struct {
	// Time of the evaluation. Not before that of the step before. Required.
	Time time.Time `json:"time"`
	// HPA holds the spec and its generation from this step on; nil: as before. The
	// status goes on, unless the autoscaler had been deleted.
	HPA *autoscalingv2.HorizontalPodAutoscaler `json:"hpa,omitempty"`
	// HPADeleted: there is no autoscaler at this step, its history is dropped. A
	// later step with HPA makes it again.
	HPADeleted bool `json:"hpaDeleted,omitempty"`
	// Scale of the target.
	Scale *autoscalingv1.Scale `json:"scale,omitempty"`
	// Pods of the namespace, selected or not. Without a namespace: that of the
	// autoscaler.
	Pods []*corev1.Pod `json:"pods,omitempty"`
	// PodMetrics of the namespace, selected or not.
	PodMetrics []metricsv1beta1.PodMetrics `json:"podMetrics,omitempty"`
	// CustomMetrics that the custom metrics API holds.
	CustomMetrics []customv1beta2.MetricValue `json:"customMetrics,omitempty"`
	// ExternalMetrics that the external metrics API holds.
	ExternalMetrics []externalv1beta1.ExternalMetricValue `json:"externalMetrics,omitempty"`
	// Errors of metrics APIs that fail, by "resource", "custom", "external",
	// "custom:<metric>" or "external:<metric>"; those of a metric come first.
	Errors map[string]string `json:"errors,omitempty"`
	// ScaleGetError: reading the scale fails with this message; empty: it does not.
	ScaleGetError string `json:"scaleGetError,omitempty"`
	// ScaleUpdateError: writing the scale, if the step does, fails with this
	// message; empty: it does not.
	ScaleUpdateError string `json:"scaleUpdateError,omitempty"`
	// PlatformDependent names the fields of Expect that come out otherwise where
	// numbers out of range saturate. Other names are refused.
	PlatformDependent []string `json:"platformDependent,omitempty"`
	// Expect is the outcome. Nil: nothing is known of it.
	Expect *Expect `json:"expect,omitempty"`

	// Request is what is asked, in place of what is seen. It comes from a call.
	Request *setpointv1.RecommendRequest `json:"-"`
}
