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

// Snapshot is what one evaluation of one HorizontalPodAutoscaler sees of its
// cluster. Only Autoscaler and one of Scale and ScaleError are required. The
// objects stay the caller's and are only read.
type Snapshot struct {
	// Autoscaler is the object that is evaluated, with its namespace.
	Autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// Scale is the scale of its target, nil when it could not be read.
	Scale *autoscalingv1.Scale
	// ScaleError says why there is no scale. It comes before Scale. Nil: the
	// scale could be read, unless the target's apiVersion does not parse or
	// Kinds does not know it.
	ScaleError *ScaleError
	// Kinds returns nil when the cluster knows the kind, otherwise the error of
	// its REST mapper. Nil: every kind is known.
	Kinds func(schema.GroupKind) error
	// Pods are pods of the cluster in the order in which the API server lists
	// them. Those of the autoscaler's namespace that the scale's selector matches
	// are sent. A pod without a namespace is in the autoscaler's.
	Pods []*corev1.Pod
	// PodMetrics are chosen like Pods, by their own labels, unless
	// PodMetricsSelected.
	PodMetrics []metricsv1beta1.PodMetrics
	// PodMetricsSelected reports whether PodMetrics are what the API answered for the
	// scale's selector: they are sent as they are, with labels or without, which
	// some metrics servers leave out.
	PodMetricsSelected bool
	// CustomMetrics are values of Pods and Object metrics. Those whose name and
	// object the spec asks for are sent. A value of the autoscaler's Namespace
	// belongs to every metric that describes a Namespace. A value belongs to
	// metrics whose selector means the same as its own; who asked an API with a
	// selector sets it, as not every adapter repeats it.
	CustomMetrics []customv1beta2.MetricValue
	// ExternalMetrics are series of External metrics. Those whose name the spec
	// asks for are sent.
	ExternalMetrics []ExternalMetric
	// MetricErrors are the metrics that could not be read. Those that concern the
	// spec are sent, the ones about a single metric first.
	MetricErrors []MetricError
	// Others are the other autoscalers of the cluster that are known, for the
	// check that no pod belongs to two. The evaluated one may be among them.
	Others []OtherAutoscaler
}

// ExternalMetric is one series of external.metrics.k8s.io.
type ExternalMetric struct {
	externalv1beta1.ExternalMetricValue
	// Selector is the one the series was asked for with; not nil, but empty, when
	// it was asked for without. The series then belongs to the metrics of exactly
	// that selector, whether it shows its labels or not. Nil: it is from a list
	// of all series, and belongs to the metrics whose selector matches its labels.
	Selector *metav1.LabelSelector
}

// OtherAutoscaler is an autoscaler besides the evaluated one.
type OtherAutoscaler struct {
	// Namespace of the autoscaler. Empty: that of the evaluated one.
	Namespace string
	// Name of the autoscaler.
	Name string
	// Selector is the label selector last found on its scale. Empty, or one that
	// does not parse: no scale was read yet, it matches no pod.
	Selector string
}
