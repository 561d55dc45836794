package shrink

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// behaviorText is stored behavior with everything.
const behaviorText = `{
	"scaleUp": {"stabilizationWindowSeconds": 45, "selectPolicy": "Min", "tolerance": "20m",
		"policies": [{"type": "Pods", "value": 7, "periodSeconds": 60}, {"type": "Percent", "value": 30, "periodSeconds": 90}]},
	"scaleDown": {"stabilizationWindowSeconds": 120, "selectPolicy": "Disabled", "tolerance": "0.05",
		"policies": [{"type": "Percent", "value": 10, "periodSeconds": 1800}, {"type": "Pods", "value": 3, "periodSeconds": 15}]}}`

// metricsText are metrics of every type.
const metricsText = `[
	{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
	{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "target": {"type": "AverageValue", "averageValue": "110Mi"}}},
	{"type": "Pods", "pods": {"metric": {"name": "packets", "selector": {"matchLabels": {"shard": "a", "zone": "z1"}}}, "target": {"type": "AverageValue", "averageValue": "1001m"}}},
	{"type": "Object", "object": {"describedObject": {"kind": "Pod", "name": "web-0", "apiVersion": "v1"}, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "1234"}}},
	{"type": "External", "external": {"metric": {"name": "depth", "selector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}, "target": {"type": "AverageValue", "averageValue": "12500m"}}}]`

// stepText is a step with everything but edits, at a second of the hour.
func stepText(at string, more string) string {
	return `{"time": "2026-03-02T09:` + at + `Z", ` + more + `
	"scale": {"spec": {"replicas": 9}, "status": {"replicas": 8, "selector": "app=web"}},
	"pods": [
		{"metadata": {"name": "web-0", "labels": {"app": "web", "tier": "front"}, "deletionTimestamp": "2026-03-02T08:59:00Z"},
			"spec": {"containers": [
					{"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}},
					{"name": "log", "resources": {"requests": {"cpu": "100100u"}}}],
				"initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "33m"}}}],
				"overhead": {"cpu": "10m"}, "resources": {"requests": {"memory": "1Gi"}}},
			"status": {"phase": "Pending", "startTime": "2026-03-02T08:55:00Z", "conditions": [
				{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-02T08:55:00Z"},
				{"type": "Ready", "status": "False", "lastTransitionTime": "2026-03-02T08:55:30Z"}]}},
		{"metadata": {"name": "web-1", "namespace": "elsewhere", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]},
			"status": {"phase": "Running", "startTime": "2026-03-02T08:50:00Z", "conditions": [
				{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-02T08:50:30Z"}]}}],
	"podMetrics": [
		{"metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}}, "timestamp": "2026-03-02T08:59:50Z", "window": "30s",
			"containers": [{"name": "app", "usage": {"cpu": "123456789n", "memory": "100Mi"}}, {"name": "log", "usage": {"cpu": "5m"}}]},
		{"metadata": {"name": "ghost", "labels": {"app": "web"}}, "timestamp": "2026-03-02T08:59:51Z", "window": "15s",
			"containers": [{"name": "app", "usage": {"cpu": "77m", "memory": "55Mi"}}]}],
	"customMetrics": [
		{"describedObject": {"kind": "Pod", "name": "web-0", "namespace": "shop", "apiVersion": "v1"}, "timestamp": "2026-03-02T08:59:52Z", "windowSeconds": 20, "value": "1517",
			"metric": {"name": "packets", "selector": {"matchLabels": {"shard": "a", "zone": "z1"}}}},
		{"describedObject": {"kind": "Pod", "name": "web-0", "apiVersion": "v1"}, "timestamp": "2026-03-02T08:59:53Z", "value": "999m", "metric": {"name": "hits"}}],
	"externalMetrics": [
		{"metricName": "depth", "metricLabels": {"zone": "z1", "series": "0"}, "timestamp": "2026-03-02T08:59:54Z", "value": "23456m"},
		{"metricName": "depth", "metricLabels": {"zone": "z2"}, "timestamp": "2026-03-02T08:59:54Z", "value": "-7"}],
	"errors": {"custom:packets": "the server is away", "resource": "no"}, "scaleUpdateError": "conflict", "scaleGetError": "gone",
	"platformDependent": ["scaled"],
	"expect": {"desiredReplicas": 9, "currentReplicas": 9, "scaled": false, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "m"}],
		"currentMetrics": [{"type": ""}], "events": [{"type": "Normal", "reason": "R", "message": "m"}]}}`
}

// rich is a scenario with everything.
func rich(t testing.TB) *recording.Scenario {
	t.Helper()
	edit := `"hpa": {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"scaleTargetRef": {"kind": "StatefulSet", "name": "db", "apiVersion": "apps/v1"},
		"minReplicas": 4, "maxReplicas": 25, "metrics": ` + metricsText + `, "behavior": ` + behaviorText + `}},`
	text := `{"name": "rich", "source": "test", "tags": ["one", "two"],
	"config": {"tolerance": 0.05, "cpuInitializationPeriodSeconds": 60, "initialReadinessDelaySeconds": 10, "downscaleStabilizationSeconds": 90.5, "scaleToZero": true},
	"hpa": {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"scaleTargetRef": {"kind": "ReplicationController", "name": "rc", "apiVersion": "v1"},
			"minReplicas": 3, "maxReplicas": 20, "metrics": ` + metricsText + `, "behavior": ` + behaviorText + `},
		"status": {"observedGeneration": 4, "lastScaleTime": "2026-03-02T08:30:00Z", "currentReplicas": 9, "desiredReplicas": 10,
			"conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "of old", "lastTransitionTime": "2026-03-02T08:30:00Z"},
				{"type": "ScaledToZero", "status": "False", "reason": "R", "message": "of old", "lastTransitionTime": "2026-03-02T08:30:00Z"}],
			"currentMetrics": [{"type": ""}, {"type": "External", "external": {"metric": {"name": "depth"}, "current": {"value": "3"}}}]}},
	"otherHpas": [{"name": "rival", "selector": "app=web"}, {"name": "far", "namespace": "elsewhere", "selector": "app"}],
	"steps": [` + strings.Join([]string{
		stepText("00:00.000000007", ""), stepText("00:15", ""), stepText("00:30.5", edit), stepText("00:30.5", ""), stepText("01:40", ""),
		`{"time": "2026-03-02T09:02:00Z", "hpaDeleted": true, "scale": {"spec": {"replicas": 2}, "status": {"replicas": 2}}}`,
		stepText("02:10.25", edit), stepText("09:00", ""),
	}, ",") + `]}`
	s, err := recording.NewReader("rich", strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(text, "\n", ""), "\t", ""))).Next()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// line returns the scenario as a file has it.
func line(t testing.TB, s *recording.Scenario) string {
	t.Helper()
	var out bytes.Buffer
	if err := recording.NewWriter(&out).Write(s); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func nameOf(r rule) string {
	name := runtime.FuncForPC(reflect.ValueOf(r).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// A rule finds something in a rich scenario, changes it at each of its places alone,
// and is through after some rounds at all places: so the search ends.
func TestEveryRuleChangesAndComesToAnEnd(t *testing.T) {
	t.Parallel()
	for i, r := range rules {
		t.Run(fmt.Sprintf("%d-%s", i, nameOf(r)), func(t *testing.T) {
			t.Parallel()
			whole := rich(t)
			n := len(r(clone(whole)))
			if n == 0 {
				t.Fatal("finds nothing")
			}
			for at := range n {
				changed := clone(whole)
				r(changed)[at]()
				if at == n-1 && reflect.DeepEqual(changed, whole) {
					t.Errorf("place %d is as before", at)
				}
			}
			for rounds := 0; len(r(clone(whole))) > 0; rounds++ {
				if rounds > 40 {
					t.Fatalf("still %d places after %d rounds", len(r(clone(whole))), rounds)
				}
				places := r(whole)
				for at := len(places) - 1; at >= 0; at-- {
					places[at]()
				}
			}
		})
	}
}

func TestNothingIsLeftOfWhatNothingNeeds(t *testing.T) {
	t.Parallel()
	small := Scenario(rich(t), func(*recording.Scenario) bool { return true }, Budget{})
	if got, want := line(t, small), spelled.Replace(`$plain$scale,"time":"$t:00Z"}]}`); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, r := range rules {
		if n := len(r(clone(small))); n > 0 && nameOf(r) != "dropSteps" {
			t.Errorf("%s finds %d places", nameOf(r), n)
		}
	}
}
