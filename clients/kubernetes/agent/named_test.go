package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/samples"
)

// fakeNamed has the metric queue for the namespace shop, of 30 in series a and 12 in b.
type fakeNamed struct{}

func (fakeNamed) Named(namespace, name string) (samples.Query, bool, error) {
	switch {
	case name != "queue":
		return samples.Query{}, false, nil
	case namespace != "shop":
		return samples.Query{}, true, errors.New("not for that namespace")
	}
	return samples.Query{Source: "prom", Query: namespace}, true, nil
}

func (fakeNamed) Read(_ context.Context, metrics []samples.Metric, _ []string) (out samples.Readings) {
	for _, m := range metrics {
		for series, value := range map[string]string{"a": "30", "b": "12"} {
			if want := m.Spec.GetExternal().GetMetric().GetSelector().GetMatchLabels()["series"]; want == "" || want == series {
				out.ExternalMetrics = append(out.ExternalMetrics, &setpointv1.ExternalMetric{
					Metric: m.Spec.GetExternal().GetMetric(), Labels: map[string]string{"series": series}, Value: value,
				})
			}
		}
	}
	return out
}

// asked is a reader that writes down the metrics that the cluster is asked for.
type asked struct {
	reader
	metrics []string
}

func (a *asked) Snapshot(_ context.Context, h *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error) {
	for _, m := range h.Spec.Metrics {
		if m.External != nil {
			a.metrics = append(a.metrics, m.External.Metric.Name)
		} else {
			a.metrics = append(a.metrics, string(m.Type))
		}
	}
	return &kubernetes.Snapshot{Autoscaler: h, Scale: &autoscalingv1.Scale{}}, nil
}

func externalMetric(name, series string) autoscalingv2.MetricSpec {
	m := autoscalingv2.MetricIdentifier{Name: name}
	if series != "" {
		m.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"series": series}}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: m}}
}

func TestNamedMetrics(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		source    Source
		namespace string
		metrics   []autoscalingv2.MetricSpec
		// asked is what the cluster is asked for.
		asked  []string
		values []string
		failed int
	}{
		{"a named one, and one of the cluster's", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", ""), externalMetric("other", "")}, []string{"other"}, []string{"12", "30"}, 0},
		{"named ones only: not cpu, which none at all stands for", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a")}, []string{"Named"}, []string{"30"}, 0},
		{"twice, with two targets", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a"), externalMetric("queue", "a")}, []string{"Named"}, []string{"30"}, 0},
		{"with two selectors", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a"), externalMetric("queue", "b")}, []string{"Named"}, []string{"12", "30"}, 0},
		{"with a selector that is none", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "not a value!")}, []string{"Named"}, nil, 0},
		{"of another namespace: it fails, and the cluster is not asked instead", Autoscaler, "other",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "")}, []string{"Named"}, nil, 1},
		{"a HorizontalPodAutoscaler gets what the metrics API says", HPA, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "")}, []string{"queue"}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace, Name: "web"}}
			h.Spec.Metrics = tt.metrics
			from := &asked{}
			got, err := named{fakeNamed{}, time.Minute}.snapshot(t.Context(), from, tt.source.Key(tt.namespace, "web"), h)
			if err != nil {
				t.Fatal(err)
			}
			var values []string
			for _, m := range got.ExternalMetrics {
				values = append(values, m.Value.String())
			}
			slices.Sort(values)
			if !slices.Equal(from.metrics, tt.asked) || !slices.Equal(values, tt.values) || len(got.MetricErrors) != tt.failed {
				t.Errorf("the cluster was asked for %q, values %q, errors %v", from.metrics, values, got.MetricErrors)
			}
			if got.Autoscaler != h || len(h.Spec.Metrics) != len(tt.metrics) {
				t.Error("the snapshot is not of the whole autoscaler")
			}
		})
	}
}
