package kubernetes

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// MetricError is a failed call of a metrics API.
type MetricError struct {
	// API that was called. Required.
	API MetricsAPI
	// Metric is the requested metric; for the resource metrics API, the resource. Empty: every
	// request to the API fails.
	Metric string
	// Source narrows Metric to metrics of one source type: the custom metrics API
	// may fail for a Pods metric and answer for an Object metric of the same
	// name. Empty: any.
	Source autoscalingv2.MetricSourceType
	// Selector narrows Metric to metrics of the custom or external metrics API with an
	// equivalent selector, which must be that of a metric of the spec; an empty one to those
	// without a selector. Nil: any.
	Selector *metav1.LabelSelector
	// Object narrows Metric to Object metrics of this object. Nil: any.
	Object *autoscalingv2.CrossVersionObjectReference
	// Message of the error. Required.
	Message string
}

// metricErrors returns the errors that concern one of the spec's metrics: first those of a
// single metric, which are more specific, then those of a whole API.
func (s *Snapshot) metricErrors(spec lookups) []*setpointv1.MetricError {
	var single, whole []*setpointv1.MetricError
	for _, failure := range s.MetricErrors {
		if !slices.ContainsFunc(spec, failure.concerns) {
			continue
		}
		converted := failure.toProto()
		if failure.Metric == "" {
			whole = append(whole, converted)
		} else {
			single = append(single, converted)
		}
	}
	return append(single, whole...)
}

// concerns reports whether l makes the failed call.
func (e MetricError) concerns(l lookup) bool {
	if e.API != l.api {
		return false
	}
	if e.Metric == "" {
		return true
	}
	if e.Object != nil && (l.source != autoscalingv2.ObjectMetricSourceType || l.object != describedObject{groupKind(e.Object.APIVersion, e.Object.Kind), e.Object.Name}) {
		return false
	}
	return e.Metric == l.name && (e.Source == "" || e.Source == l.source)
}

func (e MetricError) toProto() *setpointv1.MetricError {
	return &setpointv1.MetricError{
		Metric: e.subject(), Message: e.Message, Selector: toProto[setpointv1.LabelSelector](e.Selector),
		DescribedObject: toProto[setpointv1.CrossVersionObjectReference](e.Object),
	}
}

// subject spells the failed call for the service. The API's group before a name separates names
// with colons, which Prometheus' rules have, from types.
func (e MetricError) subject() string {
	switch {
	case e.Metric == "":
		return string(e.API)
	case e.Source != "":
		return string(e.Source) + ":" + e.Metric
	default:
		return string(e.API) + "/" + e.Metric
	}
}
