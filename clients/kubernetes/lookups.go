package kubernetes

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MetricsAPI is one of the metrics APIs, by API group.
type MetricsAPI string

// The metrics APIs.
const (
	// ResourceMetricsAPI serves Resource and ContainerResource metrics.
	ResourceMetricsAPI MetricsAPI = "metrics.k8s.io"
	// CustomMetricsAPI serves Pods and Object metrics.
	CustomMetricsAPI MetricsAPI = "custom.metrics.k8s.io"
	// ExternalMetricsAPI serves External metrics.
	ExternalMetricsAPI MetricsAPI = "external.metrics.k8s.io"
)

// describedObject identifies an object of the autoscaler's namespace.
type describedObject struct {
	schema.GroupKind
	name string
}

// lookup is the query of a spec's metric to a metrics API. It has no selector: the service
// decides whether a reading belongs to a metric.
type lookup struct {
	api    MetricsAPI
	source autoscalingv2.MetricSourceType
	// name is the name of the metric or resource.
	name string
	// object is the object that an Object metric describes.
	object describedObject
}

// lookups are the queries of a spec's metrics, each once, in their order.
type lookups []lookup

// lookupsOf returns the queries of metrics. No metrics mean the default metric; a metric
// without the source that its type names has no query.
func lookupsOf(metrics []autoscalingv2.MetricSpec) lookups {
	if len(metrics) == 0 {
		metrics = DefaultMetrics()
	}
	var all lookups
	for i := range metrics {
		l, ok := lookupOf(&metrics[i])
		if ok && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

func lookupOf(metric *autoscalingv2.MetricSpec) (l lookup, ok bool) {
	l.source = metric.Type
	switch {
	case metric.Type == autoscalingv2.ResourceMetricSourceType && metric.Resource != nil:
		l.api, l.name = ResourceMetricsAPI, string(metric.Resource.Name)
	case metric.Type == autoscalingv2.ContainerResourceMetricSourceType && metric.ContainerResource != nil:
		l.api, l.name = ResourceMetricsAPI, string(metric.ContainerResource.Name)
	case metric.Type == autoscalingv2.PodsMetricSourceType && metric.Pods != nil:
		l.api, l.name = CustomMetricsAPI, metric.Pods.Metric.Name
	case metric.Type == autoscalingv2.ObjectMetricSourceType && metric.Object != nil:
		ref := metric.Object.DescribedObject
		l.api, l.name = CustomMetricsAPI, metric.Object.Metric.Name
		l.object = describedObject{groupKind(ref.APIVersion, ref.Kind), ref.Name}
	case metric.Type == autoscalingv2.ExternalMetricSourceType && metric.External != nil:
		l.api, l.name = ExternalMetricsAPI, metric.External.Metric.Name
	default:
		return lookup{}, false
	}
	return l, true
}

// any reports whether a metric of the source queries name.
func (all lookups) any(source autoscalingv2.MetricSourceType, name string) bool {
	return slices.ContainsFunc(all, func(l lookup) bool {
		return l.source == source && l.name == name
	})
}

// objects returns the objects for which Object metrics query name.
func (all lookups) objects(name string) []describedObject {
	var out []describedObject
	for _, l := range all {
		if l.source == autoscalingv2.ObjectMetricSourceType && l.name == name {
			out = append(out, l.object)
		}
	}
	return out
}

// groupKind returns group and kind as upstream derives them from a reference: an apiVersion
// that does not parse counts as the core group's.
func groupKind(apiVersion, kind string) schema.GroupKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
}
