package known

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Case is a case with a known result: a sequence of reconciles of one HPA, with
// requests of one core and the controller's default settings.
type Case struct {
	Name string
	// Spec of the HPA without its target: fields of a JSON object, without its braces.
	Spec string
	// Window of the controller's downscale stabilization, in seconds.
	Window float64
	Rounds []Round
}

// Round is a step of a case.
type Round struct {
	// After is the time since the first round.
	After    time.Duration
	Replicas int
	// Usage of CPU of the pods, in thousandths of a core and so of their requests;
	// there are as many pods as replicas, those past the end have no sample.
	Usage []int

	// Want is the resulting count.
	Want int
	// Able and Limited are reasons of the conditions AbleToScale and ScalingLimited,
	// empty for any.
	Able, Limited string
}

// Absent is the spec of a metric that the external metrics API does not have.
const Absent = `{"type": "External", "external": {"metric": {"name": "absent"}, "target": {"type": "Value", "value": "1"}}}`

// CPU is the spec of a metric: the utilization of CPU, with a target in percent.
func CPU(percent int) string {
	return fmt.Sprintf(`{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": %d}}}`, percent)
}

// Times is the usage of n pods with the same usage.
func Times(n, usage int) []int { return slices.Repeat([]int{usage}, n) }

// runs is the number of runs of a case: forwards and backwards.
const runs = 2

// Run compares the controller's outcome of the case with the known one.
func (c Case) Run(t *testing.T, driver oracle.Driver) {
	t.Helper()
	for i, got := range ask(t, driver, c.scenario()) {
		want := c.Rounds[i]
		count := got.DesiredReplicas
		if !got.Scaled {
			count = got.CurrentReplicas
		}
		if int(count) != want.Want {
			t.Errorf("round %d comes to %d replicas, want %d", i, count, want.Want)
		}
		for _, condition := range got.Conditions {
			reason := map[string]string{"AbleToScale": want.Able, "ScalingLimited": want.Limited}[condition.Type]
			if reason != "" && condition.Reason != reason {
				t.Errorf("round %d: %s is %s, want %s", i, condition.Type, condition.Reason, reason)
			}
		}
	}
}

// ask returns the outcomes of a scenario's steps.
func ask(t *testing.T, driver oracle.Driver, scenario object) []oracle.Outcome {
	t.Helper()
	text, err := json.Marshal(scenario)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := oracle.Ask(t, driver, text, runs)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}
