package kubernetes_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
)

// everySource has one metric of each source, two for a Namespace.
const everySource = `
- {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
- {type: ContainerResource, containerResource: {name: cpu, container: app, target: {type: Utilization, averageUtilization: 60}}}
- {type: Pods, pods: {metric: {name: "job:rps"}, target: {type: AverageValue, averageValue: "1"}}}
- {type: Object, object: {describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: front}, metric: {name: "job:rps"}, target: {type: Value, value: "1"}}}
- {type: Object, object: {describedObject: {apiVersion: v1, kind: Namespace, name: ignored}, metric: {name: quota}, target: {type: Value, value: "1"}}}
- {type: Object, object: {describedObject: {kind: Namespace, name: shop}, metric: {name: quota}, target: {type: Value, value: "1"}}}
- {type: External, external: {metric: {name: depth}, target: {type: Value, value: "1"}}}`

func TestCustomMetricsAreThoseTheSpecAsksFor(t *testing.T) {
	const value = "timestamp: null, value: 1500m"
	for _, test := range []struct {
		name, reading string
		want          []string
	}{
		{"of a pod, listed or not", `{metric: {name: "job:rps"}, describedObject: {kind: Pod, name: web-a, apiVersion: v1}, ` + value + `}`,
			[]string{`{"metric":{"name":"job:rps"},"describedObject":{"kind":"Pod","name":"web-a","apiVersion":"v1"},"value":"1500m"}`}},
		{"time, window and selector come along",
			`{metric: {name: "job:rps", selector: {matchLabels: {verb: GET}}}, describedObject: {kind: Pod, name: web-a, namespace: shop, apiVersion: /v1}, timestamp: "2026-03-02T09:00:00Z", windowSeconds: 30, value: "2"}`,
			[]string{`{"metric":{"name":"job:rps","selector":{"matchLabels":{"verb":"GET"}}},"describedObject":{"kind":"Pod","name":"web-a","apiVersion":"v1"},"timestamp":"2026-03-02T09:00:00Z","windowSeconds":30,"value":"2"}`}},
		{"of the object, whatever the version", `{metric: {name: "job:rps"}, describedObject: {kind: Ingress, name: front, apiVersion: networking.k8s.io/v1beta1}, ` + value + `}`,
			[]string{`{"metric":{"name":"job:rps"},"describedObject":{"kind":"Ingress","name":"front","apiVersion":"networking.k8s.io/v1beta1"},"value":"1500m"}`}},
		{"not of the object of another group", `{metric: {name: "job:rps"}, describedObject: {kind: Ingress, name: front, apiVersion: extensions/v1beta1}, ` + value + `}`, nil},
		{"not of another object", `{metric: {name: "job:rps"}, describedObject: {kind: Ingress, name: back, apiVersion: networking.k8s.io/v1}, ` + value + `}`, nil},
		{"not another metric", `{metric: {name: rps}, describedObject: {kind: Pod, name: web-a, apiVersion: v1}, ` + value + `}`, nil},
		{"not of a pod where only objects are asked for", `{metric: {name: quota}, describedObject: {kind: Pod, name: web-a, apiVersion: v1}, ` + value + `}`, nil},
		{"not of another namespace", `{metric: {name: "job:rps"}, describedObject: {kind: Pod, name: web-a, namespace: staging, apiVersion: v1}, ` + value + `}`, nil},
		{"of the own Namespace, once, whatever names the spec gives it", `{metric: {name: quota}, describedObject: {kind: Namespace, name: shop, apiVersion: v1}, ` + value + `}`,
			[]string{`{"metric":{"name":"quota"},"describedObject":{"kind":"Namespace","name":"shop","apiVersion":"v1"},"value":"1500m"}`}},
		{"not of the Namespace that the spec names, if it is another", `{metric: {name: quota}, describedObject: {kind: Namespace, name: ignored, apiVersion: v1}, ` + value + `}`, nil},
		{"not the Namespace's value of another metric", `{metric: {name: "job:rps"}, describedObject: {kind: Namespace, name: shop, apiVersion: v1}, ` + value + `}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshotOf(t, everySource)
			snapshot.CustomMetrics = []customv1beta2.MetricValue{kubernetestest.FromYAML[customv1beta2.MetricValue](t, test.reading)}
			kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetCustomMetrics(), test.want...)
		})
	}
}

func TestExternalMetricsAreThoseTheSpecNames(t *testing.T) {
	series := func(text string) externalv1beta1.ExternalMetricValue {
		return kubernetestest.FromYAML[externalv1beta1.ExternalMetricValue](t, text)
	}
	snapshot := snapshotOf(t, everySource)
	snapshot.ExternalMetrics = []kubernetes.ExternalMetric{
		{ExternalMetricValue: series(`{metricName: depth, metricLabels: {queue: orders}, timestamp: "2026-03-02T09:00:00Z", value: "1e3"}`)},
		{ExternalMetricValue: series(`{metricName: width, metricLabels: {}, timestamp: null, value: "1"}`)},
		{ExternalMetricValue: series(`{metricName: depth, metricLabels: {}, timestamp: null, value: "7"}`), Selector: &metav1.LabelSelector{}},
	}
	kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetExternalMetrics(),
		`{"metric":{"name":"depth"},"labels":{"queue":"orders"},"timestamp":"2026-03-02T09:00:00Z","value":"1e3"}`,
		`{"metric":{"name":"depth","selector":{}},"value":"7"}`)
}

func TestMetricErrors(t *testing.T) {
	const (
		resource = kubernetes.ResourceMetricsAPI
		custom   = kubernetes.CustomMetricsAPI
		external = kubernetes.ExternalMetricsAPI
	)
	failure := func(api kubernetes.MetricsAPI, metric string, source autoscalingv2.MetricSourceType) kubernetes.MetricError {
		return kubernetes.MetricError{API: api, Metric: metric, Source: source, Message: "down"}
	}
	for _, test := range []struct {
		name, metrics string
		failures      []kubernetes.MetricError
		// want are the subjects of the errors.
		want []string
	}{
		{"whole APIs", everySource,
			[]kubernetes.MetricError{failure(resource, "", ""), failure(custom, "", ""), failure(external, "", "")},
			[]string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}},
		{"single metrics", everySource,
			[]kubernetes.MetricError{failure(resource, "cpu", ""), failure(custom, "job:rps", ""), failure(external, "depth", "")},
			[]string{"metrics.k8s.io/cpu", "custom.metrics.k8s.io/job:rps", "external.metrics.k8s.io/depth"}},
		{"single metrics come before APIs", everySource,
			[]kubernetes.MetricError{failure(custom, "", ""), failure(external, "depth", ""), failure(custom, "quota", "")},
			[]string{"external.metrics.k8s.io/depth", "custom.metrics.k8s.io/quota", "custom.metrics.k8s.io"}},
		{"one source type", everySource,
			[]kubernetes.MetricError{failure(custom, "job:rps", autoscalingv2.PodsMetricSourceType)}, []string{"Pods:job:rps"}},
		{"a source type without such a metric", everySource,
			[]kubernetes.MetricError{failure(custom, "quota", autoscalingv2.PodsMetricSourceType)}, nil},
		{"metrics that the spec does not have", everySource,
			[]kubernetes.MetricError{failure(custom, "depth", ""), failure(external, "quota", ""), failure(resource, "nvidia.com/gpu", "")}, nil},
		{"APIs that the spec does not ask", `[{type: External, external: {metric: {name: depth}, target: {type: Value, value: "1"}}}]`,
			[]kubernetes.MetricError{failure(resource, "", ""), failure(custom, "", ""), failure(external, "", "")},
			[]string{"external.metrics.k8s.io"}},
		{"a spec without metrics asks for cpu", `[]`,
			[]kubernetes.MetricError{failure(resource, "", ""), failure(custom, "", "")}, []string{"metrics.k8s.io"}},
		{"a metric without the source its type names asks for nothing", `[{type: External}, {type: Object}, {type: Cheese}]`,
			[]kubernetes.MetricError{failure(resource, "", ""), failure(custom, "", ""), failure(external, "", "")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshotOf(t, test.metrics)
			snapshot.MetricErrors = test.failures
			var want []string
			for _, subject := range test.want {
				want = append(want, `{"metric":"`+subject+`","message":"down"}`)
			}
			kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetMetricErrors(), want...)
		})
	}
}
