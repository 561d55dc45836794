package simulation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/simulation"
)

// A spec of a few bytes may not ask for more pods than a simulation has.
func TestALeastCountBeyondTheBoundIsRefused(t *testing.T) {
	t.Parallel()
	autoscaler := simulation.Autoscaler{}
	autoscaler.Spec.MinReplicas, autoscaler.Spec.MaxReplicas = 2_000_000_000, 2_000_000_000
	_, err := simulation.Run(&simulation.Scenario{}, &autoscaler, nil)
	if err == nil || !strings.Contains(err.Error(), "spec.minReplicas: is 2000000000") {
		t.Errorf("got %v", err)
	}
}

// An event of a metric that the workload has not would do nothing.
func TestAnEventOfAnUnknownMetricIsRefused(t *testing.T) {
	t.Parallel()
	s := &simulation.Scenario{Load: trace(t, 0, 10), Duration: time.Hour, Start: start, Workload: web(2)}
	for metric, want := range map[string]string{"": "", "cpu": "", "foo": "events[0].metric: workload.usage has no foo"} {
		s.Events = []simulation.Event{{At: time.Minute, For: time.Minute, Kind: simulation.MetricsGone, Metric: metric}}
		if err := simulation.Check(s, onCPU(1, 9, 60)); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: %v, want %q", metric, err, want)
		}
	}
}
