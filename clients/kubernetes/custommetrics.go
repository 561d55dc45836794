package kubernetes

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

var (
	podKind       = schema.GroupKind{Kind: "Pod"}
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
)

// customMetrics returns the values that a Pods or Object metric may request, by metric name and
// described object. It does not match values of pods with the listed pods: the API answers for
// pods it knows.
func (s *Snapshot) customMetrics(spec lookups) []*setpointv1.CustomMetric {
	var out []*setpointv1.CustomMetric
	for i := range s.CustomMetrics {
		value := &s.CustomMetrics[i]
		if s.wanted(value, spec) {
			out = append(out, customMetricToProto(value))
		}
	}
	return out
}

// wanted reports whether the spec requests a value. A value of the autoscaler's own Namespace
// matches whatever name a spec gives, since upstream ignores the described name of a Namespace,
// and so does the service.
func (s *Snapshot) wanted(value *customv1beta2.MetricValue, spec lookups) bool {
	object := describedObject{
		GroupKind: groupKind(value.DescribedObject.APIVersion, value.DescribedObject.Kind),
		name:      value.DescribedObject.Name,
	}
	objects := spec.objects(value.Metric.Name)
	if object.GroupKind == namespaceKind {
		return object.name == s.Autoscaler.Namespace &&
			slices.ContainsFunc(objects, func(o describedObject) bool { return o.GroupKind == namespaceKind })
	}
	if !s.inNamespace(value.DescribedObject.Namespace) {
		return false
	}
	ofPod := object.GroupKind == podKind && spec.any(autoscalingv2.PodsMetricSourceType, value.Metric.Name)
	return ofPod || slices.Contains(objects, object)
}

func customMetricToProto(value *customv1beta2.MetricValue) *setpointv1.CustomMetric {
	out := &setpointv1.CustomMetric{
		Metric: &setpointv1.MetricIdentifier{
			Name:     value.Metric.Name,
			Selector: toProto[setpointv1.LabelSelector](value.Metric.Selector),
		},
		DescribedObject: &setpointv1.CrossVersionObjectReference{
			Kind:       value.DescribedObject.Kind,
			Name:       value.DescribedObject.Name,
			ApiVersion: canonicalAPIVersion(value.DescribedObject.APIVersion),
		},
		Timestamp: instantUnlessZero(value.Timestamp.Time),
		Value:     value.Value.String(),
	}
	if value.WindowSeconds != nil {
		seconds := float64(*value.WindowSeconds)
		out.WindowSeconds = &seconds
	}
	return out
}

// canonicalAPIVersion rewrites the "/v1" of some adapters as "v1"; an apiVersion that does not
// parse counts as the core group's and becomes absent.
func canonicalAPIVersion(apiVersion string) string {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return version.String()
}

// Selected returns values without those of listed pods that the scale's selector does not
// match: the metrics API, given that selector, would not return them. A pod that is not among
// Pods may have just been deleted; its values stay.
func (s *Snapshot) Selected(values []customv1beta2.MetricValue) []customv1beta2.MetricValue {
	if s.Scale == nil {
		return values
	}
	selector, problem := parseSelector(s.Scale.Status.Selector)
	if problem != nil {
		return values
	}
	passedOver := map[string]bool{}
	for _, pod := range s.Pods {
		if s.inNamespace(pod.Namespace) && !selector.Matches(labels.Set(pod.Labels)) {
			passedOver[pod.Name] = true
		}
	}
	spec := lookupsOf(s.Autoscaler.Spec.Metrics)
	var out []customv1beta2.MetricValue
	for _, value := range values {
		ref := value.DescribedObject
		object := describedObject{groupKind(ref.APIVersion, ref.Kind), ref.Name}
		ofPassedOver := object.GroupKind == podKind && s.inNamespace(ref.Namespace) && passedOver[ref.Name]
		// An Object metric may describe any pod.
		if !ofPassedOver || slices.Contains(spec.objects(value.Metric.Name), object) {
			out = append(out, value)
		}
	}
	return out
}
