package kubernetes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// podKey identifies a pod of the dump.
type podKey struct{ namespace, name string }

// labelledPodMetrics returns the dump's PodMetrics, those without labels with the
// labels of their pod.
func (d *Dump) labelledPodMetrics() []metricsv1beta1.PodMetrics {
	pods := map[podKey]*corev1.Pod{}
	for _, pod := range d.Pods {
		pods[podKey{pod.Namespace, pod.Name}] = pod
	}
	out := make([]metricsv1beta1.PodMetrics, len(d.PodMetrics))
	for i, metrics := range d.PodMetrics {
		if pod := pods[podKey{metrics.Namespace, metrics.Name}]; pod != nil && len(metrics.Labels) == 0 {
			metrics.Labels = pod.Labels
		}
		out[i] = metrics
	}
	return out
}

// customMetricsFor returns the dump's custom values without those of pods that the
// snapshot's selector passes over: the metrics API, asked with that selector, does
// not answer for them. A pod that is not listed may be one that just went.
func (d *Dump) customMetricsFor(snapshot *Snapshot) []customv1beta2.MetricValue {
	if snapshot.Scale == nil {
		return d.CustomMetrics
	}
	selector, problem := parseSelector(snapshot.Scale.Status.Selector)
	if problem != nil {
		return d.CustomMetrics
	}
	passedOver := map[string]bool{}
	for _, pod := range d.Pods {
		if snapshot.inNamespace(pod.Namespace) && !selector.Matches(labels.Set(pod.Labels)) {
			passedOver[pod.Name] = true
		}
	}
	spec := lookupsOf(snapshot.Autoscaler.Spec.Metrics)
	var out []customv1beta2.MetricValue
	for _, value := range d.CustomMetrics {
		ref := value.DescribedObject
		object := describedObject{groupKind(ref.APIVersion, ref.Kind), ref.Name}
		ofPassedOver := object.GroupKind == podKind && snapshot.inNamespace(ref.Namespace) && passedOver[ref.Name]
		// An Object metric may describe any pod.
		if !ofPassedOver || slices.Contains(spec.objects(value.Metric.Name), object) {
			out = append(out, value)
		}
	}
	return out
}
