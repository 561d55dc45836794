package v115

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/oracle/known"
)

func TestKnown(t *testing.T) {
	for _, test := range append(known.Everywhere(),
		known.MissingAsRequested,
		known.FailureBlocksScaleDown,
		known.Case{
			Name: "no behavior is known",
			Spec: `"minReplicas": 10, "maxReplicas": 100, "metrics": [` + known.CPU(100) + `], "behavior": {
				"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
				"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}`,
			Rounds: []known.Round{
				{Replicas: 20, Usage: known.Times(20, 1500), Want: 30},
				{After: time.Second, Replicas: 20, Usage: known.Times(20, 1), Want: 10, Limited: "TooFewReplicas"},
			},
		},
	) {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, newDriver()) })
	}
}

func TestStored(t *testing.T) { known.RunStored(t, newDriver()) }
