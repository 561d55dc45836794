package kubernetes

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Snapshot is the input of one evaluation of a HorizontalPodAutoscaler. Only Autoscaler and one
// of Scale and ScaleError are required. The objects remain the caller's and are only read.
type Snapshot struct {
	// Autoscaler is the evaluated object, with its namespace.
	Autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// Scale is the scale of its target, nil if it could not be read.
	Scale *autoscalingv1.Scale
	// Resource is the one that Scale belongs to. Empty: the first of the target's kind.
	Resource schema.GroupResource
	// ScaleError is why there is no scale. It takes precedence over Scale. Nil: the scale was
	// read, unless the target's apiVersion does not parse or Kinds does not know its kind.
	ScaleError *ScaleError
	// Kinds returns nil if the cluster knows the kind, otherwise the error of its REST mapper.
	// Nil: every kind is known.
	Kinds func(schema.GroupKind) error
	// Pods are pods of the cluster in the API server's order. The request has those of the
	// autoscaler's namespace that the scale's selector matches. A pod without a namespace is in
	// the autoscaler's.
	Pods []*corev1.Pod
	// PodMetrics are selected like Pods, by their own labels, unless PodMetricsSelected.
	PodMetrics []metricsv1beta1.PodMetrics
	// PodMetricsSelected reports whether PodMetrics are the API's answer for the scale's
	// selector: then all are sent, with or without labels, which some metrics servers omit.
	PodMetricsSelected bool
	// CustomMetrics are values of Pods and Object metrics. The request has those whose name and
	// object the spec requests. A value of the autoscaler's Namespace belongs to every metric
	// that describes a Namespace. A value belongs to metrics with an equivalent selector; the
	// caller sets the selector of its query, because not every adapter repeats it.
	CustomMetrics []customv1beta2.MetricValue
	// ExternalMetrics are series of External metrics. The request has those whose name the spec
	// requests.
	ExternalMetrics []ExternalMetric
	// MetricErrors are the metrics that could not be read. The request has those that concern
	// the spec, the ones about a single metric first.
	MetricErrors []MetricError
	// Others are the other known autoscalers of the cluster, for the check that no pod belongs
	// to two. The evaluated one may be among them.
	Others []OtherAutoscaler
}

// ExternalMetric is one series of external.metrics.k8s.io.
type ExternalMetric struct {
	externalv1beta1.ExternalMetricValue
	// Selector is that of the query for the series; not nil, but empty, for a query without
	// one. The series then belongs to the metrics of exactly that selector, whether it has
	// labels or not. Nil: it comes from a list of all series, and belongs to the metrics whose
	// selector matches its labels.
	Selector *metav1.LabelSelector
}

// OtherAutoscaler is an autoscaler besides the evaluated one.
type OtherAutoscaler struct {
	// Namespace of the autoscaler. Empty: that of the evaluated one.
	Namespace string
	// Name of the autoscaler.
	Name string
	// Selector is the label selector last found on its scale. An empty or invalid one, before
	// the scale was read, matches no pod.
	Selector string
}
