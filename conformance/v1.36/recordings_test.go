package v136

import (
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/controller"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// The recordings were made by another driver, so they say whether this one is right.
func TestRecordings(t *testing.T) {
	oracle.Replay(t, controller.NewDriver(), oracle.CommonRecordings, nil, oracle.InCommonRecordings)
}
