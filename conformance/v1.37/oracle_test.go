package v137

import (
	"testing"

	_ "k8s.io/kubernetes/pkg/controller/podautoscaler" // of the version in go.mod: the one that answers

	"github.com/setpoint-dev/setpoint/conformance/cluster/clustertest"
	"github.com/setpoint-dev/setpoint/conformance/controller"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// TestOracle serves the outcomes of scenarios on the real controller.
func TestOracle(t *testing.T) { oracle.ServeProcess(t, controller.NewDriver()) }

func TestMetricsAPIs(t *testing.T) { clustertest.Run(t, controller.NewDriver()) }
