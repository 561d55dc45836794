package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

func TestNoMetricsAskForTheDefault(t *testing.T) {
	t.Parallel()
	if request := requestOf(t, readerOf(t, shop(t)), autoscalerOf(t, "[]")); len(request.GetPodMetrics()) != 2 {
		t.Errorf("got %v", request.GetPodMetrics())
	}
}

func TestTwoResourcesAreReadOnce(t *testing.T) {
	t.Parallel()
	both := cpuMetric[:len(cpuMetric)-1] + ", " + strings.Replace(cpuMetric, "cpu", "memory", 1)[1:]
	if request := requestOf(t, readerOf(t, shop(t)), autoscalerOf(t, both)); len(request.GetPodMetrics()) != 2 {
		t.Errorf("got %v", request.GetPodMetrics())
	}
}

// The API may omit the labels of a series or rename it, and two spellings of one selector are
// one metric: a series must not count twice.
func TestExternalSeriesAreThoseThatWereAskedFor(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/queue") {
			return false
		}
		writeJSON(w, map[string]any{"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "items": []any{
			map[string]any{"metricName": "sqs-queue", "metricLabels": nil, "value": "4", "timestamp": "2026-03-02T09:00:00Z"},
		}})
		return true
	})
	other := strings.Replace(externalMetric, "matchLabels: {of: web}", "matchExpressions: [{key: of, operator: In, values: [web]}]", 1)
	request := requestOf(t, readerOf(t, server), autoscalerOf(t, externalMetric[:len(externalMetric)-1]+", "+other[1:]))
	for i, reading := range takeReadings(t, request) {
		if len(reading.Values) != 1 || reading.Values[0].Milli != 4000 {
			t.Errorf("metric %d: got %+v", i, reading)
		}
	}
	if got := server.asked("/queue"); len(got) != 1 {
		t.Errorf("asked %q", got)
	}
}

// A Pods metric and an Object metric may request the same value.
func TestAValueThatTwoMetricsAskForCountsOnce(t *testing.T) {
	t.Parallel()
	server := shop(t)
	object := strings.NewReplacer("Service", "Pod", "front", "web-0", "hits", "rps").Replace(objectMetric)
	request := requestOf(t, readerOf(t, server), autoscalerOf(t, podsMetric[:len(podsMetric)-1]+", "+object[1:]))
	readings := takeReadings(t, request)
	if len(readings[0].Values) != 2 || len(readings[1].Values) != 1 {
		t.Errorf("got %+v", readings)
	}
}

// Values are requested with the spec's selector, whether the adapter repeats it or not.
func TestValuesWithASelector(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/rps") || r.URL.Query().Get("metricLabelSelector") != "verb=GET" {
			return false
		}
		writeJSON(w, &customv1beta2.MetricValueList{TypeMeta: typed("custom.metrics.k8s.io/v1beta2", "MetricValueList"), Items: []customv1beta2.MetricValue{
			{DescribedObject: corev1.ObjectReference{Kind: "Pod", Name: "web-0"}, Metric: customv1beta2.MetricIdentifier{Name: "requests"}, Value: quantity("8")},
		}})
		return true
	})
	metric := strings.Replace(podsMetric, "name: rps", "name: rps, selector: {matchLabels: {verb: GET}}", 1)
	readings := takeReadings(t, requestOf(t, readerOf(t, server), autoscalerOf(t, metric)))
	if len(readings[0].Values) != 1 || readings[0].Values[0].Milli != 8000 {
		t.Errorf("got %+v", readings)
	}
}

func TestAMetricWhoseSelectorIsNotValidIsNotAskedFor(t *testing.T) {
	t.Parallel()
	server := shop(t)
	for _, metrics := range []string{
		strings.Replace(externalMetric, "matchLabels: {of: web}", "matchExpressions: [{key: of, operator: Near}]", 1),
		strings.Replace(podsMetric, "name: rps", "name: rps, selector: {matchExpressions: [{key: of, operator: Near}]}", 1),
	} {
		request := requestOf(t, readerOf(t, server), autoscalerOf(t, metrics))
		if readings := takeReadings(t, request); readings[0].SelectorError == "" || readings[0].Error != "" {
			t.Errorf("got %+v", readings)
		}
	}
	if got := server.asked("metrics.k8s.io/"); len(got) > 0 {
		for _, request := range got {
			if strings.Contains(request, "/namespaces/") {
				t.Errorf("asked %s", request)
			}
		}
	}
}

// Without a selector nothing else is read: an empty one would match all pods.
func TestAScaleWithoutSelector(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.addScale("shop", "deployments", "web", "")
	got := snapshot(t, readerOf(t, server), autoscalerOf(t, cpuMetric))
	if len(got.Pods)+len(got.PodMetrics) > 0 || len(server.asked("/namespaces/shop/pods")) > 0 {
		t.Errorf("got %d pods, %d PodMetrics", len(got.Pods), len(got.PodMetrics))
	}
	request, err := got.Request("demo")
	if err != nil || request.GetSelectorProblem().GetReason() != "SelectorRequired" {
		t.Errorf("got %v, %v", request, err)
	}
}

func TestAHangingScale(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/scale") {
			<-r.Context().Done()
		}
		return false
	})
	clients := server.clients(t)
	reader := cluster.NewReader(cluster.Sources{Mapper: clients.Mapper(), Scales: clients, Pods: clients, Metrics: clients},
		cluster.Options{Timeout: 50 * time.Millisecond})
	if got := snapshot(t, reader, autoscalerOf(t, cpuMetric)); got.ScaleError == nil || !strings.Contains(got.ScaleError.Message, "context deadline exceeded") {
		t.Errorf("got %+v", got.ScaleError)
	}
}

// For a Namespace upstream uses the autoscaler's own, whatever name the spec gives.
func TestAMetricOfANamespace(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.custom = append(server.custom, customv1beta2.MetricValue{
		DescribedObject: corev1.ObjectReference{APIVersion: "/v1", Kind: "Namespace", Name: "shop"},
		Metric:          customv1beta2.MetricIdentifier{Name: "hits"}, Value: quantity("7"),
	})
	metric := strings.NewReplacer("Service", "Namespace", "front", "elsewhere").Replace(objectMetric)
	request := requestOf(t, readerOf(t, server), autoscalerOf(t, metric))
	if readings := takeReadings(t, request); len(readings[0].Values) != 1 || readings[0].Values[0].Milli != 7000 {
		t.Errorf("got %+v", readings)
	}
	if got := server.asked("/hits"); len(got) != 1 || !strings.Contains(got[0], "/v1beta2/namespaces/shop/metrics/hits") {
		t.Errorf("asked %q", got)
	}
}
