package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
)

// Metrics of each API.
const (
	cpuMetric      = `[{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]`
	podsMetric     = `[{type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "5"}}}]`
	objectMetric   = `[{type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: front}, metric: {name: hits}, target: {type: Value, value: "5"}}}]`
	externalMetric = `[{type: External, external: {metric: {name: queue, selector: {matchLabels: {of: web}}}, target: {type: Value, value: "5"}}}]`
)

// shop is a server with the deployment web and two pods of it, all with metrics.
func shop(t testing.TB) *apiServer {
	t.Helper()
	server := newAPIServer(t)
	server.addScale("shop", "deployments", "web", "app=web")
	addPods(server, "web", "web-0", "web-1")
	server.custom = append(server.custom, customv1beta2.MetricValue{
		DescribedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Name: "front"},
		Metric:          customv1beta2.MetricIdentifier{Name: "hits"}, Value: quantity("7"),
	})
	for _, of := range []string{"web", "worker"} {
		server.external = append(server.external, externalv1beta1.ExternalMetricValue{
			MetricName: "queue", MetricLabels: map[string]string{"of": of}, Value: quantity("9"),
		})
	}
	return server
}

// addPods adds pods of namespace shop with a label, their usage and their rps.
func addPods(server *apiServer, app string, names ...string) {
	for _, name := range names {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}
		server.pods = append(server.pods, &corev1.Pod{ObjectMeta: meta})
		server.usage = append(server.usage, metricsv1beta1.PodMetrics{ObjectMeta: meta, Containers: []metricsv1beta1.ContainerMetrics{
			{Name: "app", Usage: corev1.ResourceList{corev1.ResourceCPU: quantity("250m")}},
		}})
		server.custom = append(server.custom, customv1beta2.MetricValue{
			DescribedObject: corev1.ObjectReference{APIVersion: "/v1", Kind: "Pod", Namespace: "shop", Name: name},
			Metric:          customv1beta2.MetricIdentifier{Name: "rps"}, Value: quantity("3"),
		})
	}
}

func TestWhyAScaleCouldNotBeRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, ref     string
		breaks        func(*apiServer)
		step, message string
	}{
		{"an apiVersion that does not parse", `{apiVersion: a/b/c, kind: Deployment, name: web}`, nil,
			"InvalidAPIVersion", "unexpected GroupVersion string: a/b/c"},
		{"an unknown kind", `{apiVersion: apps/v1, kind: Widget, name: web}`, nil,
			"UnknownKind", `no matches for kind "Widget" in group "apps"`},
		{"an unknown group", `{apiVersion: example.com/v1, kind: Widget, name: web}`, nil,
			"UnknownKind", `no matches for kind "Widget" in group "example.com"`},
		{"no such object", `{apiVersion: apps/v1, kind: Deployment, name: gone}`, nil,
			"FailedGet", `deployments.apps "gone" not found`},
		{"a kind without a scale subresource", `{apiVersion: v1, kind: ConfigMap, name: web}`, nil,
			"FailedGet", "the server could not find the requested resource"},
		{"no permission", `{apiVersion: apps/v1, kind: Deployment, name: web}`, func(s *apiServer) {
			s.refuse("/scale", http.StatusForbidden, metav1.StatusReasonForbidden, `deployments.apps "web" is forbidden: User "agent" cannot get resource "deployments/scale" in API group "apps" in the namespace "shop"`)
		}, "FailedGet", `deployments.apps "web" is forbidden: User "agent" cannot get resource "deployments/scale" in API group "apps" in the namespace "shop"`},
		{"a version of the kind that there is not", `{apiVersion: apps/v0, kind: Deployment, name: web}`, nil, "", ""},
		{"text that is no scale", `{apiVersion: apps/v1, kind: Deployment, name: web}`, func(s *apiServer) {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/scale") {
					return false
				}
				_, _ = w.Write([]byte("<html>sign in</html>"))
				return true
			})
		}, "FailedGet", "couldn't get version/kind; json parse error: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := shop(t)
			if test.breaks != nil {
				test.breaks(server)
			}
			autoscaler := autoscalerOf(t, cpuMetric)
			autoscaler.Spec.ScaleTargetRef = kubernetestest.FromYAML[autoscalingv2.CrossVersionObjectReference](t, test.ref)
			request := requestOf(t, readerOf(t, server), autoscaler)
			if got := request.GetScaleError(); got.GetReason() != test.step || !strings.HasPrefix(got.GetMessage(), test.message) {
				t.Errorf("got %q %q\nwant %q %q", got.GetReason(), got.GetMessage(), test.step, test.message)
			}
			if test.step != "" && (request.GetScale() != nil || len(server.asked("metrics.k8s.io/v1beta1/namespaces")) > 0) {
				t.Errorf("without a scale nothing else is read; got %v", request.GetScale())
			}
		})
	}
}

func TestWhyAMetricCouldNotBeRead(t *testing.T) {
	t.Parallel()
	const away = "the server is currently unable to handle the request"
	for _, test := range []struct {
		name, metrics string
		breaks        func(*apiServer)
		subject, want string
	}{
		{"no metrics.k8s.io", cpuMetric, func(s *apiServer) { s.without("metrics.k8s.io") },
			"metrics.k8s.io", "the server could not find the requested resource (get pods.metrics.k8s.io)"},
		{"no custom.metrics.k8s.io", podsMetric, func(s *apiServer) { s.without("custom.metrics.k8s.io") },
			"Pods:rps", "no custom metrics API (custom.metrics.k8s.io) registered"},
		{"no custom.metrics.k8s.io for an object", objectMetric, func(s *apiServer) { s.without("custom.metrics.k8s.io") },
			"Object:hits", "no custom metrics API (custom.metrics.k8s.io) registered"},
		{"no external.metrics.k8s.io", externalMetric, func(s *apiServer) { s.without("external.metrics.k8s.io") },
			"External:queue", "the server could not find the requested resource (get queue.external.metrics.k8s.io)"},
		{"an API that is away", cpuMetric, func(s *apiServer) {
			s.refuse("/apis/metrics.k8s.io/", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, away)
		}, "metrics.k8s.io", away},
		{"no permission for pod metrics", cpuMetric, func(s *apiServer) {
			s.refuse("/apis/metrics.k8s.io/", http.StatusForbidden, metav1.StatusReasonForbidden, `pods.metrics.k8s.io is forbidden: User "agent" cannot list resource "pods"`)
		}, "metrics.k8s.io", `pods.metrics.k8s.io is forbidden: User "agent" cannot list resource "pods"`},
		{"an adapter that knows no such metric", podsMetric, func(s *apiServer) {
			s.refuse("/custom.metrics.k8s.io/v1beta2/namespaces", http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the metric rps for pods")
		}, "Pods:rps", "the server could not find the metric rps for pods"},
		{"an object of a kind that there is not", strings.ReplaceAll(objectMetric, "Service", "Gadget"), nil,
			"Object:hits", `unable to map kind Gadget to resource: no matches for kind "Gadget" in group ""`},
		{"an error page", externalMetric, func(s *apiServer) {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/external.metrics.k8s.io/") {
					return false
				}
				http.Error(w, "upstream connect error", http.StatusBadGateway)
				return true
			})
		}, "External:queue", "an error on the server (\"upstream connect error\") has prevented the request from succeeding (get queue.external.metrics.k8s.io)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := shop(t)
			if test.breaks != nil {
				test.breaks(server)
			}
			request := requestOf(t, readerOf(t, server), autoscalerOf(t, test.metrics))
			errors := request.GetMetricErrors()
			if len(errors) != 1 || errors[0].GetMetric() != test.subject || !strings.HasPrefix(errors[0].GetMessage(), test.want) {
				t.Fatalf("got %v\nwant %s: %s", errors, test.subject, test.want)
			}
			takeReadings(t, request) // the service accepts it
		})
	}
}

// A failing API does not affect the others, nor a failing metric its namesakes in other APIs.
func TestAFailureConcernsOnlyWhatFailed(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.refuse("/services/front/", http.StatusNotFound, metav1.StatusReasonNotFound, "no hits of front")
	server.custom = append(server.custom, customv1beta2.MetricValue{
		DescribedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Name: "back"},
		Metric:          customv1beta2.MetricIdentifier{Name: "hits"}, Value: quantity("11"),
	})
	metrics := strings.Join([]string{cpuMetric, objectMetric, strings.ReplaceAll(objectMetric, "front", "back"), externalMetric}, "\n")
	request := requestOf(t, readerOf(t, server), autoscalerOf(t, strings.ReplaceAll(metrics, "]\n[", ", ")))
	if len(request.GetPodMetrics()) != 2 {
		t.Errorf("got %d PodMetrics, want 2", len(request.GetPodMetrics()))
	}
	readings := takeReadings(t, request)
	if readings[1].Error != "no hits of front" || readings[2].Error != "" || len(readings[2].Values) != 1 || readings[2].Values[0].Milli != 11000 {
		t.Errorf("got %+v", readings)
	}
	if len(readings[3].Values) != 1 || readings[3].Values[0].Milli != 9000 {
		t.Errorf("got %+v of queue, want the one series of web", readings[3])
	}
}

// A hanging API costs its timeout once, and is reported.
func TestAHangingAPI(t *testing.T) {
	t.Parallel()
	server := shop(t)
	release := make(chan struct{})
	defer close(release)
	server.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/external.metrics.k8s.io/v1beta1/namespaces") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	})
	clients := server.clients(t)
	reader := cluster.NewReader(cluster.Sources{Mapper: clients.Mapper(), Scales: unhurried{clients}, Pods: clients, Metrics: clients},
		cluster.Options{Timeout: 100 * time.Millisecond})
	request := requestOf(t, reader, autoscalerOf(t, externalMetric))
	if errors := request.GetMetricErrors(); len(errors) != 1 || !strings.Contains(errors[0].GetMessage(), "context deadline exceeded") {
		t.Errorf("got %v", errors)
	}
}

// unhurried reads scales without the reader's timeout: on a busy machine one that is short for what
// hangs is over before the scale is there, and nothing else is read then.
type unhurried struct{ cluster.Scales }

func (u unhurried) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (*autoscalingv1.Scale, error) {
	return u.Scales.Get(context.WithoutCancel(ctx), resource, namespace, name)
}

func TestErrorsThatEndAnEvaluation(t *testing.T) {
	t.Parallel()
	server := shop(t)
	reader := readerOf(t, server)
	if _, err := reader.Snapshot(t.Context(), nil, nil); err != kubernetes.ErrNoAutoscaler {
		t.Errorf("got %v", err)
	}
	server.refuse("/api/v1/namespaces/shop/pods", http.StatusForbidden, metav1.StatusReasonForbidden, "pods is forbidden")
	if _, err := reader.Snapshot(t.Context(), autoscalerOf(t, cpuMetric), nil); err == nil || err.Error() != "listing the pods of namespace shop: pods is forbidden" {
		t.Errorf("got %v", err)
	}
}

// The service accepts 8192 characters of a message; a proxy may answer with more.
func TestLongMessagesAreCut(t *testing.T) {
	t.Parallel()
	server := shop(t)
	server.refuse("/apis/metrics.k8s.io/", http.StatusInternalServerError, metav1.StatusReasonInternalError, strings.Repeat("ö", 20000))
	message := requestOf(t, readerOf(t, server), autoscalerOf(t, cpuMetric)).GetMetricErrors()[0].GetMessage()
	if len(message) > 4200 || len(message) < 4000 || !utf8.ValidString(message) {
		t.Errorf("got %d bytes, valid %v", len(message), utf8.ValidString(message))
	}
}

func TestTheOlderCustomMetricsAPI(t *testing.T) {
	t.Parallel()
	server := shop(t).without("custom.metrics.k8s.io")
	server.serve(customV1beta1, "MetricValueList", "pods/rps", false)
	request := requestOf(t, readerOf(t, server), autoscalerOf(t, podsMetric))
	if len(request.GetCustomMetrics()) != 2 || len(request.GetMetricErrors()) > 0 {
		t.Errorf("got %v", request)
	}
}

// A new kind is found once discovery is a few seconds old, and a reference to an unknown kind
// does not repeat discovery each time.
func TestDiscoveryIsRepeatedSeldom(t *testing.T) {
	t.Parallel()
	server := shop(t)
	reader := readerOf(t, server)
	autoscaler := autoscalerOf(t, cpuMetric)
	autoscaler.Spec.ScaleTargetRef.Kind = "Widget"
	for range 3 {
		snapshot(t, reader, autoscaler)
	}
	if got := server.asked("/apis"); len(got) > 10 {
		t.Errorf("three misses asked %d times: %q", len(got), got)
	}
}
