package flight

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

func TestSeriesAreDistinguishedByTheirLabels(t *testing.T) {
	t.Parallel()
	of := func(queue string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"queue": queue}}
	}
	series := func(asked *metav1.LabelSelector, labels map[string]string) kubernetes.ExternalMetric {
		return kubernetes.ExternalMetric{Selector: asked, ExternalMetricValue: externalv1beta1.ExternalMetricValue{MetricName: "depth", MetricLabels: labels}}
	}
	a := map[string]string{"queue": "a", "zone": "east"}
	for _, tt := range []struct {
		name      string
		selectors []*metav1.LabelSelector // of the spec's metrics
		series    kubernetes.ExternalMetric
		want      bool
	}{
		{"its labels match", []*metav1.LabelSelector{of("a")}, series(of("a"), a), true},
		{"it has no labels", []*metav1.LabelSelector{of("a")}, series(of("a"), nil), false},
		{"asked for without a selector", []*metav1.LabelSelector{nil}, series(&metav1.LabelSelector{}, a), true},
		{"from a list of all", []*metav1.LabelSelector{of("b")}, series(nil, a), true},
		{"another metric's selector does not match", []*metav1.LabelSelector{of("a"), of("b")}, series(of("a"), a), true},
		{"another metric's selector matches, too", []*metav1.LabelSelector{of("a"), nil}, series(of("a"), a), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &kubernetes.Snapshot{Autoscaler: &autoscalingv2.HorizontalPodAutoscaler{}, ExternalMetrics: []kubernetes.ExternalMetric{tt.series}}
			for _, selector := range tt.selectors {
				s.Autoscaler.Spec.Metrics = append(s.Autoscaler.Spec.Metrics, autoscalingv2.MetricSpec{
					External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "depth", Selector: selector}},
				})
			}
			if got := toldApart(s); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
