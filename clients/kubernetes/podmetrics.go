package kubernetes

import (
	"k8s.io/apimachinery/pkg/labels"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// podMetrics returns what metrics.k8s.io would return for the autoscaler's namespace and
// selector, which it matches with the labels of the PodMetrics themselves. Their pods need not
// be listed; several items of one pod stay.
func (s *Snapshot) podMetrics(selector labels.Selector) []*setpointv1.PodMetrics {
	var out []*setpointv1.PodMetrics
	for i := range s.PodMetrics {
		metrics := &s.PodMetrics[i]
		if !s.inNamespace(metrics.Namespace) {
			continue
		}
		if s.PodMetricsSelected || selector.Matches(labels.Set(metrics.Labels)) {
			out = append(out, podMetricsToProto(metrics))
		}
	}
	return out
}

func podMetricsToProto(metrics *metricsv1beta1.PodMetrics) *setpointv1.PodMetrics {
	out := &setpointv1.PodMetrics{
		Pod:           metrics.Name,
		Timestamp:     instantUnlessZero(metrics.Timestamp.Time),
		WindowSeconds: metrics.Window.Seconds(),
	}
	for i := range metrics.Containers {
		container := &metrics.Containers[i]
		out.Containers = append(out.Containers, &setpointv1.ContainerMetrics{
			Name:  container.Name,
			Usage: quantitiesToProto(container.Usage),
		})
	}
	return out
}
