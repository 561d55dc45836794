package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// podKey identifies a pod of the dump.
type podKey struct{ namespace, name string }

// labelledPodMetrics returns the dump's PodMetrics; those without labels get the labels of
// their pod.
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
