package v115

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// known is a case with a known result: most are those of the controller's own tests,
// with requests of one core.
type known struct {
	name string
	// spec of the autoscaler, but for its target.
	spec string
	// window of the controller's downscale stabilization, in seconds.
	window float64
	rounds []round
}

// round is a step of such a case.
type round struct {
	after    time.Duration // since the first
	replicas int
	// usage of CPU of the pods, in thousandths of a core and so of what they request;
	// there are as many pods as replicas, those past the end have no sample.
	usage []int

	want int
	// able and limited are reasons of the conditions AbleToScale and ScalingLimited,
	// empty for any.
	able, limited string
}

// times is n pods with the same usage.
func times(n, usage int) []int { return slices.Repeat([]int{usage}, n) }

func cpu(percent int) string {
	return fmt.Sprintf(`{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": %d}}}`, percent)
}

// absent is a metric that the external metrics API does not have.
const absent = `{"type": "External", "external": {"metric": {"name": "absent"}, "target": {"type": "Value", "value": "1"}}}`

func TestKnown(t *testing.T) {
	for _, test := range []known{
		{
			name: "scale up", spec: `"minReplicas": 2, "maxReplicas": 6, "metrics": [` + cpu(30) + `]`,
			rounds: []round{{replicas: 3, usage: []int{300, 500, 700}, want: 5, able: "SucceededRescale", limited: "DesiredWithinRange"}},
		},
		{
			name: "five pods at twice the target", spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + cpu(100) + `]`,
			rounds: []round{{replicas: 5, usage: times(5, 2000), want: 10, limited: "DesiredWithinRange"}},
		},
		{
			name: "scale down only after five minutes", spec: `"minReplicas": 2, "maxReplicas": 6, "metrics": [` + cpu(50) + `]`, window: 300,
			rounds: []round{
				{replicas: 5, usage: []int{100, 300, 500, 250, 250}, want: 5, able: "ScaleDownStabilized"},
				{after: 300 * time.Second, replicas: 5, usage: []int{100, 300, 500, 250, 250}, want: 5, able: "ScaleDownStabilized"},
				{after: 301 * time.Second, replicas: 5, usage: []int{100, 300, 500, 250, 250}, want: 3, able: "SucceededRescale"},
			},
		},
		{
			name: "twice as many at most", spec: `"minReplicas": 1, "maxReplicas": 100, "metrics": [` + cpu(10) + `]`,
			rounds: []round{{replicas: 3, usage: []int{1000, 2000, 3000}, want: 6, limited: "ScaleUpLimit"}},
		},
		{
			name: "four always", spec: `"minReplicas": 1, "maxReplicas": 100, "metrics": [` + cpu(10) + `]`,
			rounds: []round{{replicas: 1, usage: []int{3000}, want: 4, limited: "ScaleUpLimit"}},
		},
		{
			name: "tolerance", spec: `"minReplicas": 1, "maxReplicas": 5, "metrics": [` + cpu(100) + `]`,
			rounds: []round{{replicas: 3, usage: []int{1010, 1030, 1020}, want: 3, able: "ReadyForNewScale"}},
		},
		{
			name: "the edge of the tolerance is outside", spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + cpu(50) + `]`,
			rounds: []round{{replicas: 10, usage: times(10, 550), want: 11}},
		},
		{
			name: "max replicas", spec: `"minReplicas": 2, "maxReplicas": 5, "metrics": [` + cpu(90) + `]`,
			rounds: []round{{replicas: 3, usage: []int{8000, 9500, 1000}, want: 5, limited: "TooManyReplicas"}},
		},
		{
			name: "min replicas", spec: `"minReplicas": 2, "maxReplicas": 5, "metrics": [` + cpu(90) + `]`,
			rounds: []round{
				{replicas: 3, usage: []int{10, 95, 10}, want: 3},
				{after: time.Second, replicas: 3, usage: []int{10, 95, 10}, want: 2, limited: "TooFewReplicas"},
			},
		},
		{
			name: "zero replicas", spec: `"minReplicas": 3, "maxReplicas": 5, "metrics": [` + cpu(90) + `]`,
			rounds: []round{{replicas: 0, want: 0, able: "SucceededGetScale"}},
		},
		{
			name: "too few replicas", spec: `"minReplicas": 3, "maxReplicas": 5, "metrics": [` + cpu(90) + `]`,
			rounds: []round{{replicas: 2, want: 3, able: "SucceededRescale"}},
		},
		{
			name: "too many replicas", spec: `"minReplicas": 3, "maxReplicas": 5, "metrics": [` + cpu(90) + `]`,
			rounds: []round{{replicas: 10, want: 5, able: "SucceededRescale"}},
		},
		{
			// (3×60 + 100)/400 = 70 % of 150 %.
			name: "a missing pod counts as what it requests", spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + cpu(150) + `]`,
			rounds: []round{
				{replicas: 4, usage: times(3, 600), want: 4},
				{after: time.Second, replicas: 4, usage: times(3, 600), want: 2},
			},
		},
		{
			name: "a metric that fails blocks scaling down", spec: `"minReplicas": 1, "maxReplicas": 20, "metrics": [` + absent + `, ` + cpu(50) + `]`,
			rounds: []round{
				{replicas: 4, usage: times(4, 100), want: 4, able: "SucceededGetScale"},
				{after: time.Second, replicas: 4, usage: times(4, 100), want: 4, able: "SucceededGetScale"},
				{after: 2 * time.Second, replicas: 4, usage: times(4, 1000), want: 8},
			},
		},
		{
			name: "no behavior is known",
			spec: `"minReplicas": 10, "maxReplicas": 100, "metrics": [` + cpu(100) + `], "behavior": {
				"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
				"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}`,
			rounds: []round{
				{replicas: 20, usage: times(20, 1500), want: 30},
				{after: time.Second, replicas: 20, usage: times(20, 1), want: 10, limited: "TooFewReplicas"},
			},
		},
	} {
		t.Run(test.name, test.run)
	}
}

// TestStored shows what becomes of metrics in autoscaling/v1, in which they are
// stored: a utilization of CPU comes last, whatever its place was, and the status of
// an average value has a value of zero besides.
func TestStored(t *testing.T) {
	k := known{
		spec:   `"minReplicas": 1, "maxReplicas": 9, "metrics": [` + cpu(50) + `, {"type": "External", "external": {"metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]`,
		rounds: []round{{replicas: 2, usage: times(2, 500)}},
	}
	scenario := k.scenario()
	scenario["steps"].([]object)[0]["externalMetrics"] = []object{{"metricName": "depth", "value": "2"}}
	got, err := json.Marshal(answer(t, scenario).Steps[0].CurrentMetrics)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"type":"External","external":{"metric":{"name":"depth"},"current":{"value":"0","averageValue":"1"}}},` +
		`{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"500m","averageUtilization":50}}}]`
	if string(got) != want {
		t.Errorf("the status has the metrics\n%s\nwant\n%s", got, want)
	}
}

// run compares what the controller makes of the case.
func (k known) run(t *testing.T) {
	for i, got := range answer(t, k.scenario()).Steps {
		want := k.rounds[i]
		count := got.DesiredReplicas
		if !got.Scaled {
			count = got.CurrentReplicas
		}
		if int(count) != want.want {
			t.Errorf("round %d comes to %d replicas, want %d", i, count, want.want)
		}
		for _, condition := range got.Conditions {
			reason := map[string]string{"AbleToScale": want.able, "ScalingLimited": want.limited}[condition.Type]
			if reason != "" && condition.Reason != reason {
				t.Errorf("round %d: %s is %s, want %s", i, condition.Type, condition.Reason, reason)
			}
		}
	}
}

// answer of the driver to a request for the scenario, of two runs.
func answer(t *testing.T, scenario any) oracle.Answer {
	t.Helper()
	data, err := json.Marshal(scenario)
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(oracle.Request{Runs: 2, Scenario: data})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := oracle.Serve(t, newDriver(), bytes.NewReader(request), &out); err != nil {
		t.Fatal(err)
	}
	var answer oracle.Answer
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error != "" {
		t.Fatal(answer.Error)
	}
	return answer
}

type object = map[string]any

// scenario of the case, in the format of recordings.
func (k known) scenario() object {
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var steps []object
	for _, r := range k.rounds {
		now := start.Add(r.after)
		var pods, samples []object
		for i := range r.replicas {
			metadata := object{"name": fmt.Sprintf("web-%d", i), "labels": object{"app": "web"}}
			pods = append(pods, object{
				"metadata": metadata,
				"spec": object{"containers": []object{
					{"name": "app", "resources": object{"requests": object{"cpu": "1"}}},
				}},
				"status": object{
					"phase":     "Running",
					"startTime": start.Add(-time.Hour),
					"conditions": []object{
						{"type": "Ready", "status": "True", "lastTransitionTime": start.Add(-time.Hour)},
					},
				},
			})
			if i < len(r.usage) {
				samples = append(samples, object{
					"metadata": metadata, "timestamp": now, "window": "30s",
					"containers": []object{{"name": "app", "usage": object{"cpu": fmt.Sprintf("%dm", r.usage[i])}}},
				})
			}
		}
		steps = append(steps, object{
			"time": now, "pods": pods, "podMetrics": samples,
			"scale": object{
				"spec":   object{"replicas": r.replicas},
				"status": object{"replicas": r.replicas, "selector": "app=web"},
			},
		})
	}
	spec := `{"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, ` + k.spec + `}`
	return object{
		"config": object{
			"tolerance": 0.1, "cpuInitializationPeriodSeconds": 300, "initialReadinessDelaySeconds": 30,
			"downscaleStabilizationSeconds": k.window,
		},
		"hpa":   object{"metadata": object{"name": "web", "namespace": "default"}, "spec": json.RawMessage(spec)},
		"steps": steps,
	}
}
