package samples

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestMetricsAreThereBeforeAnythingHappens(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	config := Config{Sources: map[string]Source{"prom": {Prometheus: &Prometheus{URL: "http://localhost"}}}}
	set, err := New(config, Options{Registerer: registry})
	fatal.If(t, err)
	defer set.Close()
	families, err := registry.Gather()
	fatal.If(t, err)
	want := map[string]int{
		"setpoint_samples_queries_total": len(source.Outcomes), "setpoint_samples_requests_total": len(source.Outcomes),
		"setpoint_samples_shared_total": 1, "setpoint_samples_request_duration_seconds": 1,
	}
	for _, f := range families {
		if want[f.GetName()] != len(f.GetMetric()) {
			t.Errorf("%s has %d series, want %d", f.GetName(), len(f.GetMetric()), want[f.GetName()])
		}
		delete(want, f.GetName())
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if _, err := New(config, Options{Registerer: registry}); err == nil {
		t.Error("a second set registered the same metrics")
	}
}
