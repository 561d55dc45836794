package v119

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/oracle/known"
)

func TestKnown(t *testing.T) {
	for _, test := range append(known.Everywhere(),
		known.MissingAsRequested,
		known.Case{
			Name: "a metric that fails is left out", Spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + known.Absent + `, ` + known.CPU(50) + `]`,
			Rounds: []known.Round{
				{Replicas: 4, Usage: known.Times(4, 100), Want: 4, Able: "ScaleDownStabilized"},
				{After: time.Second, Replicas: 4, Usage: known.Times(4, 100), Want: 1, Able: "SucceededRescale"},
				{After: 2 * time.Second, Replicas: 4, Usage: known.Times(4, 1000), Want: 8},
			},
		},
		known.TenPercentOrFourPods,
		known.Case{
			// The highest count of the window is taken even above the current one.
			Name: "stabilization moves past the current count",
			Spec: known.Windows,
			Rounds: []known.Round{
				{Replicas: 3, Usage: known.Times(3, 500), Want: 3, Able: "ReadyForNewScale"},
				{After: time.Minute, Replicas: 2, Usage: known.Times(2, 100), Want: 3, Able: "SucceededRescale"},
			},
		},
	) {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, newDriver()) })
	}
}

func TestStored(t *testing.T) { known.RunStored(t, newDriver()) }
