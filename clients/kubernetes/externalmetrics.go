package kubernetes

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// externalMetrics returns the series that an External metric may request, by name.
func (s *Snapshot) externalMetrics(spec lookups) []*setpointv1.ExternalMetric {
	var out []*setpointv1.ExternalMetric
	for i := range s.ExternalMetrics {
		series := &s.ExternalMetrics[i]
		if spec.any(autoscalingv2.ExternalMetricSourceType, series.MetricName) {
			out = append(out, externalMetricToProto(series))
		}
	}
	return out
}

func externalMetricToProto(series *ExternalMetric) *setpointv1.ExternalMetric {
	return &setpointv1.ExternalMetric{
		Metric: &setpointv1.MetricIdentifier{
			Name:     series.MetricName,
			Selector: toProto[setpointv1.LabelSelector](series.Selector),
		},
		Labels:    series.MetricLabels,
		Timestamp: instantUnlessZero(series.Timestamp.Time),
		Value:     series.Value.String(),
	}
}
