package kubernetes_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
)

// An error that names no metric of the spec is left out, because the service would refuse the
// request.
func TestMetricErrorsOfOneMetricAmongNamesakes(t *testing.T) {
	t.Parallel()
	const metrics = `
- {type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: front}, metric: {name: hits}, target: {type: Value, value: "5"}}}
- {type: Pods, pods: {metric: {name: hits, selector: {matchLabels: {verb: GET}}}, target: {type: AverageValue, averageValue: "5"}}}`
	front := &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "front"}
	back := &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "back"}
	for _, test := range []struct {
		name    string
		failure kubernetes.MetricError
		want    []string
	}{
		{"the object of a metric", kubernetes.MetricError{Source: autoscalingv2.ObjectMetricSourceType, Object: front},
			[]string{`{"metric": "Object:hits", "message": "x", "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"}}`}},
		{"another object", kubernetes.MetricError{Source: autoscalingv2.ObjectMetricSourceType, Object: back}, nil},
		{"an object for a metric of pods", kubernetes.MetricError{Source: autoscalingv2.PodsMetricSourceType, Object: front}, nil},
		{"a selector", kubernetes.MetricError{Source: autoscalingv2.PodsMetricSourceType, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"verb": "GET"}}},
			[]string{`{"metric": "Pods:hits", "message": "x", "selector": {"matchLabels": {"verb": "GET"}}}`}},
		{"no selector", kubernetes.MetricError{Source: autoscalingv2.ObjectMetricSourceType, Selector: &metav1.LabelSelector{}},
			[]string{`{"metric": "Object:hits", "message": "x", "selector": {}}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			snapshot := snapshotOf(t, metrics)
			test.failure.API, test.failure.Metric, test.failure.Message = kubernetes.CustomMetricsAPI, "hits", "x"
			snapshot.MetricErrors = []kubernetes.MetricError{test.failure}
			kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetMetricErrors(), test.want...)
		})
	}
}
