package v136

import (
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/cluster/clustertest"
	"github.com/setpoint-dev/setpoint/conformance/controller"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// TestOracle serves the outcomes of scenarios on the real controller.
func TestOracle(t *testing.T) { oracle.ServeProcess(t, controller.NewDriver()) }

func TestMetricsAPIs(t *testing.T) { clustertest.Run(t, controller.NewDriver()) }
