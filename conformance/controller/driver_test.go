package controller

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/cluster/clustertest"
)

// The controller trusts that the API server has validated the spec.
func TestAPanicIsAnsweredAndLeavesNothingBehind(t *testing.T) {
	free := controllers{}
	driver := free.driver()
	const held = `"customMetrics":[{"describedObject":{"kind":"Pod","name":"web-0"},"metric":{"name":"rps"},"value":"20"}]`
	outcome, err := clustertest.Ask(t, driver, `{"type":"Pods","pods":{"metric":{"name":"rps"},"target":{"type":"AverageValue"}}}`, held)
	if err == nil || !strings.HasPrefix(err.Error(), "panic: ") {
		t.Errorf("got %+v, %v, want a panic", outcome, err)
	}
	if len(free) != 0 {
		t.Error("the controller that panicked is used again")
	}
	if _, err := clustertest.Ask(t, driver, clustertest.ExternalMetric, `"externalMetrics":[{"metricName":"depth","value":"20"}]`); err != nil {
		t.Error(err)
	}
	if len(free) != 1 {
		t.Error("the controller that ended well is not used again")
	}
}
