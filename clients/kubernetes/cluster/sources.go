package cluster

import (
	"context"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Sources are the sources of a Reader. All are required and must be safe for concurrent use.
// Callers share the returned objects and must not change them.
type Sources struct {
	// Mapper finds the resources of a kind.
	Mapper meta.RESTMapper
	// Scales reads and writes scale subresources.
	Scales Scales
	// Pods lists pods.
	Pods Pods
	// Metrics queries the metrics APIs.
	Metrics Metrics
}

// Scales reads and writes scale subresources. Errors are the API's own.
type Scales interface {
	// Get returns the scale of an object.
	Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (*autoscalingv1.Scale, error)
	// Update writes a scale with the resource version at which it was read, and returns the
	// stored one.
	Update(ctx context.Context, resource schema.GroupResource, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error)
}

// ScalesCache is a source of scales that reports whether an answer needed a request. Without it
// each counts as one.
type ScalesCache interface {
	// GetCached returns a scale, and whether it needed no request.
	GetCached(ctx context.Context, resource schema.GroupResource, namespace, name string) (scale *autoscalingv1.Scale, cached bool, err error)
}

// Pods lists pods.
type Pods interface {
	// Pods returns the pods of a namespace that selector matches, by name.
	Pods(ctx context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error)
}

// PodCounter is a source of pods that counts them cheaply. Without it the usage of all pods of
// a namespace is never read in one list.
type PodCounter interface {
	// CountPods returns the number of a namespace's pods.
	CountPods(namespace string) int
}

// Metrics queries the metrics APIs. Errors are the API's own, without the prefixes of the
// upstream controller.
type Metrics interface {
	// PodMetrics lists resource usage of the pods of a namespace that selector
	// matches.
	PodMetrics(ctx context.Context, namespace string, selector labels.Selector) ([]metricsv1beta1.PodMetrics, error)
	// PodsMetric lists values of a metric of the pods that selector matches.
	PodsMetric(ctx context.Context, namespace string, selector labels.Selector, metric Metric) ([]customv1beta2.MetricValue, error)
	// ObjectMetric lists values of a metric of one object; there should be one. For a Namespace
	// the name is that of the namespace.
	ObjectMetric(ctx context.Context, namespace string, object Object, metric Metric) ([]customv1beta2.MetricValue, error)
	// ExternalMetric lists the series of a metric.
	ExternalMetric(ctx context.Context, namespace string, metric Metric) ([]externalv1beta1.ExternalMetricValue, error)
}

// Own returns how to read a metric of a spec from elsewhere than the metrics APIs; nil: the APIs have it.
type Own func(metric *autoscalingv2.MetricSpec) OwnRead

// OwnRead reads a metric: the series of an External one, or the values of these pods or of the
// described object. What they are called is the spec's, except for the names of pods.
type OwnRead func(ctx context.Context, pods []*corev1.Pod) (values []customv1beta2.MetricValue, series []externalv1beta1.ExternalMetricValue, err error)

// Metric is a query of the custom or external metrics API.
type Metric struct {
	// Name of the metric. Required.
	Name string
	// Selector selects its series. Required; labels.Everything() for all.
	Selector labels.Selector
}

// Object identifies an object that a metric describes.
type Object struct {
	// Kind of the object.
	Kind schema.GroupKind
	// Name of the object.
	Name string
}

// IsNamespace reports whether the object is a Namespace, for which the custom metrics API has a
// path of its own.
func (o Object) IsNamespace() bool { return o.Kind == schema.GroupKind{Kind: "Namespace"} }
