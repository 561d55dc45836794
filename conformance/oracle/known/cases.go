package known

import (
	"slices"
	"time"
)

// Everywhere returns the cases with the same result in all versions.
func Everywhere() []Case { return slices.Clone(everywhere) }

var everywhere = []Case{
	{
		Name: "scale up", Spec: `"minReplicas": 2, "maxReplicas": 6, "metrics": [` + CPU(30) + `]`,
		Rounds: []Round{{Replicas: 3, Usage: []int{300, 500, 700}, Want: 5, Able: "SucceededRescale", Limited: "DesiredWithinRange"}},
	},
	{
		Name: "five pods at twice the target", Spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + CPU(100) + `]`,
		Rounds: []Round{{Replicas: 5, Usage: Times(5, 2000), Want: 10, Limited: "DesiredWithinRange"}},
	},
	{
		Name: "scale down only after five minutes", Spec: `"minReplicas": 2, "maxReplicas": 6, "metrics": [` + CPU(50) + `]`, Window: 300,
		Rounds: []Round{
			{Replicas: 5, Usage: []int{100, 300, 500, 250, 250}, Want: 5, Able: "ScaleDownStabilized"},
			{After: 300 * time.Second, Replicas: 5, Usage: []int{100, 300, 500, 250, 250}, Want: 5, Able: "ScaleDownStabilized"},
			{After: 301 * time.Second, Replicas: 5, Usage: []int{100, 300, 500, 250, 250}, Want: 3, Able: "SucceededRescale"},
		},
	},
	{
		Name: "twice as many at most", Spec: `"minReplicas": 1, "maxReplicas": 100, "metrics": [` + CPU(10) + `]`,
		Rounds: []Round{{Replicas: 3, Usage: []int{1000, 2000, 3000}, Want: 6, Limited: "ScaleUpLimit"}},
	},
	{
		Name: "four always", Spec: `"minReplicas": 1, "maxReplicas": 100, "metrics": [` + CPU(10) + `]`,
		Rounds: []Round{{Replicas: 1, Usage: []int{3000}, Want: 4, Limited: "ScaleUpLimit"}},
	},
	{
		Name: "tolerance", Spec: `"minReplicas": 1, "maxReplicas": 5, "metrics": [` + CPU(100) + `]`,
		Rounds: []Round{{Replicas: 3, Usage: []int{1010, 1030, 1020}, Want: 3, Able: "ReadyForNewScale"}},
	},
	{
		Name: "the edge of the tolerance is outside", Spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + CPU(50) + `]`,
		Rounds: []Round{{Replicas: 10, Usage: Times(10, 550), Want: 11}},
	},
	{
		Name: "max replicas", Spec: `"minReplicas": 2, "maxReplicas": 5, "metrics": [` + CPU(90) + `]`,
		Rounds: []Round{{Replicas: 3, Usage: []int{8000, 9500, 1000}, Want: 5, Limited: "TooManyReplicas"}},
	},
	{
		Name: "min replicas", Spec: `"minReplicas": 2, "maxReplicas": 5, "metrics": [` + CPU(90) + `]`,
		Rounds: []Round{
			{Replicas: 3, Usage: []int{10, 95, 10}, Want: 3},
			{After: time.Second, Replicas: 3, Usage: []int{10, 95, 10}, Want: 2, Limited: "TooFewReplicas"},
		},
	},
	{
		Name: "zero replicas", Spec: `"minReplicas": 3, "maxReplicas": 5, "metrics": [` + CPU(90) + `]`,
		Rounds: []Round{{Replicas: 0, Want: 0, Able: "SucceededGetScale"}},
	},
	{
		Name: "too few replicas", Spec: `"minReplicas": 3, "maxReplicas": 5, "metrics": [` + CPU(90) + `]`,
		Rounds: []Round{{Replicas: 2, Want: 3, Able: "SucceededRescale"}},
	},
	{
		Name: "too many replicas", Spec: `"minReplicas": 3, "maxReplicas": 5, "metrics": [` + CPU(90) + `]`,
		Rounds: []Round{{Replicas: 10, Want: 5, Able: "SucceededRescale"}},
	},
}

// Windows is a spec with windows of five minutes in both directions.
var Windows = `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + CPU(50) + `], "behavior": {
	"scaleUp": {"stabilizationWindowSeconds": 300, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]},
	"scaleDown": {"stabilizationWindowSeconds": 300, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}}`

// Cases with the same result in some versions.
var (
	// MissingAsRequested is how a pod without a sample counted up to v1.19: (3×60 +
	// 100)/400 = 70 % of 150 %.
	MissingAsRequested = Case{
		Name: "a missing pod counts as what it requests", Spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + CPU(150) + `]`,
		Rounds: []Round{
			{Replicas: 4, Usage: Times(3, 600), Want: 4},
			{After: time.Second, Replicas: 4, Usage: Times(3, 600), Want: 2},
		},
	}
	// FailureBlocksScaleDown applies in all versions but v1.19.
	FailureBlocksScaleDown = Case{
		Name: "a metric that fails blocks scaling down", Spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + Absent + `, ` + CPU(50) + `]`,
		Rounds: []Round{
			{Replicas: 4, Usage: Times(4, 100), Want: 4, Able: "SucceededGetScale"},
			{After: time.Second, Replicas: 4, Usage: Times(4, 100), Want: 4, Able: "SucceededGetScale"},
			{After: 2 * time.Second, Replicas: 4, Usage: Times(4, 1000), Want: 8},
		},
	}
	// TenPercentOrFourPods has a behavior, which exists from v1.18 on.
	TenPercentOrFourPods = Case{
		Name: "ten percent or four pods a minute",
		Spec: `"minReplicas": 10, "maxReplicas": 100, "metrics": [` + CPU(100) + `], "behavior": {
			"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
			"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
				{"type": "Pods", "value": 4, "periodSeconds": 60}, {"type": "Percent", "value": 10, "periodSeconds": 60}]}}`,
		Rounds: []Round{
			{Replicas: 80, Usage: Times(80, 1), Want: 72, Limited: "ScaleDownLimit"},
			{After: 15 * time.Second, Replicas: 72, Usage: Times(72, 1), Want: 72, Limited: "ScaleDownLimit"},
			{After: 60 * time.Second, Replicas: 72, Usage: Times(72, 1), Want: 64, Limited: "ScaleDownLimit"},
			{After: 120 * time.Second, Replicas: 64, Usage: Times(64, 1), Want: 57, Limited: "ScaleDownLimit"},
			{After: 150 * time.Second, Replicas: 12, Usage: Times(12, 1), Want: 12, Limited: "ScaleDownLimit"},
			{After: 180 * time.Second, Replicas: 12, Usage: Times(12, 1), Want: 10, Limited: "TooFewReplicas"},
		},
	}
)
