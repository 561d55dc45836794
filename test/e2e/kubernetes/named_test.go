//go:build linux

package kubernetes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// prometheus starts a real one that scrapes a gauge, queue_depth of two namespaces, and
// returns its address.
func prometheus(t *testing.T, mine, others string, depth *atomic.Int64) string {
	t.Helper()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "queue_depth{namespace=%q} %d\nqueue_depth{namespace=%q} 1000\n", mine, depth.Load(), others)
	}))
	t.Cleanup(exporter.Close)
	return panels.Prometheus(t, map[string]string{"exporter": strings.TrimPrefix(exporter.URL, "http://")})
}

// In a cluster whose external metrics API does not know them, Autoscalers use the metrics of
// the operator's file, each in its namespaces only.
func TestNamedMetricsOfARealPrometheus(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	p, other := newPlace(t, c, autoscalers, "named"), newPlace(t, c, autoscalers, "unnamed")
	var depth atomic.Int64
	depth.Store(60)
	url := prometheus(t, p.namespace, other.namespace, &depth)
	file := filepath.Join(t.TempDir(), "sources.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `
sources: {prom: {prometheus: {url: %q}}}
metrics:
  depth:
    namespaces: [%s]
    source: prom
    query: 'sum(queue_depth{namespace="${namespace}"})'
`, url, p.namespace), 0o600))
	s := service.Start(t)
	agents := map[string]string{}
	for _, in := range []*place{p, other} {
		c.Deployment(t, in.namespace, "web", 2)
		in.awaitPods("web", 2, 2)
		agents[in.namespace] = startAgent(t, c, in.namespace, s, "--source=autoscaler", "--sources-file="+file).Admin
		spec := basic("web")
		spec.Metrics = []autoscalingv2.MetricSpec{external(averageValue("10"))}
		spec.Metrics[0].External.Metric = autoscalingv2.MetricIdentifier{Name: "depth"}
		in.add("web", spec)
	}
	p.awaitReplicas("web", 6)
	p.awaitCondition("web", "ScalingActive=True/ValidMetricFound")
	other.awaitCondition("web", "ScalingActive=False/FailedGetExternalMetric")
	if got := other.replicas("web"); got != 2 {
		t.Errorf("the other namespace has %d replicas by a metric that is not for it", got)
	}
	if message := c.Kubectl(t, "get", "autoscaler", "web", "-n", other.namespace, "-o=jsonpath={.status.conditions}"); !strings.Contains(message, "is not for the namespace") || strings.Contains(message, url) {
		t.Errorf("its status is %s", message)
	}
	depth.Store(80)
	p.awaitReplicas("web", 8)
	panels.AwaitFilled(t, panels.Prometheus(t, agents), "setpoint-agent.json", panels.OfKubernetes, nil)
}
