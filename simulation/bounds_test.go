package simulation_test

import (
	"strings"
	"testing"

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
