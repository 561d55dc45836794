package swarm_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The usage of tasks is by id. A task without a rate in the Prometheus is missing from the
// request; one of another service is dropped.
func TestUsageComesFromCadvisor(t *testing.T) {
	t.Parallel()
	w, _ := start(t)
	s := w.create("web", map[string]any{swarm.EnableLabel: "true", "setpoint.max": "5", "setpoint.cpu": "60", "setpoint.memory": "80"},
		map[string]any{"Replicated": map[string]any{"Replicas": 3.0}})
	values := map[string]string{ // by query
		`sum by (container_label_com_docker_swarm_task_id) (rate(container_cpu_usage_seconds_total{container_label_com_docker_swarm_service_id="` + s.id + `"}[60000ms]))`: "0.25",
		`sum by (container_label_com_docker_swarm_task_id) (container_memory_working_set_bytes{container_label_com_docker_swarm_service_id="` + s.id + `"})`:               "1048576",
	}
	prometheus := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body) + "&" + r.URL.RawQuery)
		value, asked := values[form.Get("query")]
		if !asked {
			t.Errorf("asked %q", form.Get("query"))
		}
		var series []string
		for _, task := range []string{"task001" + s.id, "task002" + s.id, "another"} {
			series = append(series, fmt.Sprintf(`{"metric": {"container_label_com_docker_swarm_task_id": %q}, "value": [%d, %q]}`, task, time.Now().Unix(), value))
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"status": "success", "data": {"resultType": "vector", "result": [%s]}}`, strings.Join(series, ", "))
	}))
	defer prometheus.Close()
	config, err := samples.ParseConfig([]byte("sources: {prom: {prometheus: {url: '" + prometheus.URL + "'}, timeout: 60s}}"))
	fatal.If(t, err)
	set, err := samples.New(config, samples.Options{})
	fatal.If(t, err)
	defer set.Close()
	w.options = swarm.Options{Sources: set, Usage: swarm.Cadvisor("prom", time.Minute)}
	p := w.Platform()
	o := agenttest.Object(t, p, agent.Key{Kind: swarm.Kind, Namespace: "default", Name: "web"})
	if o.Hold != nil {
		t.Fatalf("held: %+v", o.Hold)
	}
	seen := agenttest.Observe(t, p, o)
	if failed := seen.Request.GetMetricErrors(); len(failed) > 0 {
		t.Fatal(failed)
	}
	usage := seen.Request.GetPodMetrics()
	if len(usage) != 2 || len(seen.Request.GetPods()) != 3 {
		t.Fatalf("usage of %d of %d tasks, want 2 of 3: %v", len(usage), len(seen.Request.GetPods()), usage)
	}
	for i, m := range usage {
		if m.GetPod() != seen.Request.GetPods()[i].GetName() || m.GetWindowSeconds() != 60 || len(m.GetContainers()) != 1 {
			t.Errorf("got %v", m)
			continue
		}
		if got := m.GetContainers()[0].GetUsage(); got["cpu"] != "250m" || got["memory"] != "1048576" {
			t.Errorf("usage %v", got)
		}
	}
}
