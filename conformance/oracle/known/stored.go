package known

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// RunStored tests how autoscaling/v1, in which old versions store metrics, changes
// them: a utilization of CPU comes last, whatever its position was, and the status of
// an average value also has a value of zero.
func RunStored(t *testing.T, driver oracle.Driver) {
	t.Helper()
	const depth = `{"type": "External", "external": {"metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "1"}}}`
	c := Case{
		Spec:   `"minReplicas": 1, "maxReplicas": 9, "metrics": [` + CPU(50) + `, ` + depth + `]`,
		Rounds: []Round{{Replicas: 2, Usage: Times(2, 500)}},
	}
	scenario := c.scenario()
	scenario["steps"].([]object)[0]["externalMetrics"] = []object{{"metricName": "depth", "value": "2"}}
	got, err := json.Marshal(ask(t, driver, scenario)[0].CurrentMetrics)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"type":"External","external":{"metric":{"name":"depth"},"current":{"value":"0","averageValue":"1"}}},` +
		`{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"500m","averageUtilization":50}}}]`
	if string(got) != want {
		t.Errorf("the status has the metrics\n%s\nwant\n%s", got, want)
	}
}
