package v128

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/oracle/known"
)

func TestKnown(t *testing.T) {
	for _, test := range append(known.Everywhere(),
		known.Case{
			// (3×60 + 150)/400 = 82 % of 150 %.
			Name: "a missing pod counts as the target above 100", Spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + known.CPU(150) + `]`,
			Rounds: []known.Round{
				{Replicas: 4, Usage: known.Times(3, 600), Want: 4},
				{After: time.Second, Replicas: 4, Usage: known.Times(3, 600), Want: 3},
			},
		},
		known.FailureBlocksScaleDown,
		known.TenPercentOrFourPods,
		known.Case{
			// The window of either direction only limits: it never moves past the
			// current count.
			Name: "stabilization stays at the current count",
			Spec: known.Windows,
			Rounds: []known.Round{
				{Replicas: 3, Usage: known.Times(3, 500), Want: 3, Able: "ReadyForNewScale"},
				{After: time.Minute, Replicas: 2, Usage: known.Times(2, 100), Want: 2, Able: "ScaleDownStabilized"},
			},
		},
	) {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, newDriver()) })
	}
}
