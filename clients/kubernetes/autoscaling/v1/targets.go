package v1

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

const (
	// shownTargets is how many metrics are shown; the others are counted.
	shownTargets = 2
	unknown      = "<unknown>"
)

// Targets renders current and target values of metrics exactly as `kubectl get hpa` does
// (formatHPAMetrics of the API server), for example "cpu: 63%/80%, 12/20 + 1 more...".
// Readings are in the order of metrics; where one is missing or of another type, the
// current value is "<unknown>". Metrics are expected to be defaulted: without any it is
// "<none>". A metric without the source that its type names, at which the API server's
// printer crashes, is "<unknown type>".
func Targets(metrics []autoscalingv2.MetricSpec, readings []autoscalingv2.MetricStatus) string {
	if len(metrics) == 0 {
		return "<none>"
	}
	shown := make([]string, 0, shownTargets)
	for i := range metrics[:min(len(metrics), shownTargets)] {
		var reading autoscalingv2.MetricStatus
		if i < len(readings) {
			reading = readings[i]
		}
		shown = append(shown, renderMetric(&metrics[i], &reading))
	}
	text := strings.Join(shown, ", ")
	if more := len(metrics) - shownTargets; more > 0 {
		return fmt.Sprintf("%s + %d more...", text, more)
	}
	return text
}

func renderMetric(metric *autoscalingv2.MetricSpec, reading *autoscalingv2.MetricStatus) string {
	current := currentValue(metric.Type, reading)
	switch {
	case metric.Type == autoscalingv2.ExternalMetricSourceType && metric.External != nil:
		return renderTotal(&metric.External.Target, current)
	case metric.Type == autoscalingv2.ObjectMetricSourceType && metric.Object != nil:
		return renderTotal(&metric.Object.Target, current)
	case metric.Type == autoscalingv2.PodsMetricSourceType && metric.Pods != nil:
		return averageText(current) + "/" + metric.Pods.Target.AverageValue.String()
	case metric.Type == autoscalingv2.ResourceMetricSourceType && metric.Resource != nil:
		return renderResource(metric.Resource.Name, &metric.Resource.Target, current)
	case metric.Type == autoscalingv2.ContainerResourceMetricSourceType && metric.ContainerResource != nil:
		return renderResource(metric.ContainerResource.Name, &metric.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

// currentValue returns the reading's value for a metric of the type, nil if absent. It ignores
// the reading's own type.
func currentValue(metricType autoscalingv2.MetricSourceType, reading *autoscalingv2.MetricStatus) *autoscalingv2.MetricValueStatus {
	switch {
	case metricType == autoscalingv2.ExternalMetricSourceType && reading.External != nil:
		return &reading.External.Current
	case metricType == autoscalingv2.ObjectMetricSourceType && reading.Object != nil:
		return &reading.Object.Current
	case metricType == autoscalingv2.PodsMetricSourceType && reading.Pods != nil:
		return &reading.Pods.Current
	case metricType == autoscalingv2.ResourceMetricSourceType && reading.Resource != nil:
		return &reading.Resource.Current
	case metricType == autoscalingv2.ContainerResourceMetricSourceType && reading.ContainerResource != nil:
		return &reading.ContainerResource.Current
	}
	return nil
}

// renderTotal renders an Object or External metric, whose target is a total or per replica.
func renderTotal(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		text := unknown
		if current != nil && current.AverageValue != nil {
			text = current.AverageValue.String()
		}
		return text + "/" + target.AverageValue.String() + " (avg)"
	}
	text := unknown
	if current != nil {
		text = current.Value.String()
	}
	return text + "/" + target.Value.String()
}

// renderResource renders a resource metric, whose target is an amount or a percentage of the
// request.
func renderResource(name corev1.ResourceName, target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return fmt.Sprintf("%s: %s/%s", name, averageText(current), target.AverageValue)
	}
	text, wanted := unknown, "<auto>"
	if current != nil && current.AverageUtilization != nil {
		text = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		wanted = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return fmt.Sprintf("%s: %s/%s", name, text, wanted)
}

// averageText renders an average; a reading without one is "<nil>", as in kubectl.
func averageText(current *autoscalingv2.MetricValueStatus) string {
	if current == nil {
		return unknown
	}
	return current.AverageValue.String()
}
