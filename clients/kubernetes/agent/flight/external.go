package flight

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// toldApart reports whether the labels of external series show which metrics they belong to: a
// recording has one list of all series, without the selectors of the requests.
func toldApart(s *kubernetes.Snapshot) bool {
	for i := range s.ExternalMetrics {
		series := &s.ExternalMetrics[i]
		if series.Selector == nil {
			continue
		}
		for j := range s.Autoscaler.Spec.Metrics {
			if !belongsAsAsked(series, s.Autoscaler.Spec.Metrics[j].External) {
				return false
			}
		}
	}
	return true
}

// belongsAsAsked reports whether a series matches a metric by its labels exactly if it was
// requested with the metric's selector.
func belongsAsAsked(series *kubernetes.ExternalMetric, metric *autoscalingv2.ExternalMetricSource) bool {
	if metric == nil || metric.Metric.Name != series.MetricName {
		return true
	}
	spelled := metric.Metric.Selector
	if spelled == nil {
		spelled = &metav1.LabelSelector{}
	}
	selector, err := metav1.LabelSelectorAsSelector(spelled)
	if err != nil {
		return false
	}
	return selector.Matches(labels.Set(series.MetricLabels)) == equality.Semantic.DeepEqual(spelled, series.Selector)
}
