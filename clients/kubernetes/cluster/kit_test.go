package cluster_test

import (
	"testing"

	"go.uber.org/goleak"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestMain(m *testing.M) {
	// klog, a dependency of client-go, flushes for ever.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// autoscalerOf returns an autoscaler web of namespace shop that scales the
// deployment of its name.
func autoscalerOf(t testing.TB, metrics string) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	autoscaler := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscaler](t, `
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 10`)
	autoscaler.Spec.Metrics = kubernetestest.FromYAML[[]autoscalingv2.MetricSpec](t, metrics)
	return &autoscaler
}

// named is another autoscaler, with a target of its name.
func named(autoscaler *autoscalingv2.HorizontalPodAutoscaler, name string) *autoscalingv2.HorizontalPodAutoscaler {
	out := autoscaler.DeepCopy()
	out.Name, out.Spec.ScaleTargetRef.Name = name, name
	return out
}

// readerOf returns a reader without caches.
func readerOf(t testing.TB, server *apiServer) *cluster.Reader {
	t.Helper()
	clients := server.clients(t)
	return cluster.NewReader(cluster.Sources{
		Mapper: clients.Mapper(), Scales: clients, Pods: clients, Metrics: clients,
	}, cluster.Options{})
}

// snapshot reads an autoscaler.
func snapshot(t testing.TB, reader *cluster.Reader, autoscaler *autoscalingv2.HorizontalPodAutoscaler) *kubernetes.Snapshot {
	t.Helper()
	got, err := reader.Snapshot(t.Context(), autoscaler, nil)
	fatal.If(t, err)
	return got
}

// requestOf reads an autoscaler and returns its request.
func requestOf(t testing.TB, reader *cluster.Reader, autoscaler *autoscalingv2.HorizontalPodAutoscaler) *setpointv1.RecommendRequest {
	t.Helper()
	request, err := snapshot(t, reader, autoscaler).Request("demo")
	fatal.If(t, err)
	return request
}

var customV1beta1 = schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta1"}

// labelsOf is a set of labels to match.
func labelsOf(of map[string]string) labels.Set { return of }

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
