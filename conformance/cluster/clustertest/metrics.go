// Package clustertest tests what controllers read from the cluster.
package clustertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Ask returns the outcome of a scenario of one step: an HPA with the metric, two pods
// with the label app=web, and the contents of the metrics APIs.
func Ask(t *testing.T, driver oracle.Driver, metric, held string) (oracle.Outcome, error) {
	t.Helper()
	const pod = `{"metadata":{"name":"web-%d","labels":{"app":"web"}},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]},
		"status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:01:00Z"}]}}`
	scenario := `{"config":{"tolerance":0.1,"cpuInitializationPeriodSeconds":300},
		"hpa":{"metadata":{"name":"web","namespace":"default"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
			"minReplicas":1,"maxReplicas":100,"metrics":[` + metric + `]}},
		"steps":[{"time":"2026-01-02T00:00:00Z","scale":{"spec":{"replicas":2},"status":{"replicas":2,"selector":"app=web"}},
			"pods":[` + fmt.Sprintf(pod, 0) + `,` + fmt.Sprintf(pod, 1) + `],` + held + `}]}`
	outcomes, err := oracle.Ask(t, driver, []byte(scenario), 2)
	if err != nil {
		return oracle.Outcome{}, err
	}
	return outcomes[0], nil
}

// ExternalMetric is the spec of a metric of the external metrics API, named depth.
const ExternalMetric = `{"type":"External","external":{"metric":{"name":"depth"},"target":{"type":"Value","value":"10"}}}`

const (
	cpuMetric    = `{"type":"Resource","resource":{"name":"cpu","target":{"type":"AverageValue","averageValue":"100m"}}}`
	podsMetric   = `{"type":"Pods","pods":{"metric":{"name":"rps","selector":{"matchLabels":{"verb":"GET"}}},"target":{"type":"AverageValue","averageValue":"10"}}}`
	objectMetric = `{"type":"Object","object":{"describedObject":{"apiVersion":"v1","kind":"Service","name":"web"},"metric":{"name":"rps"},"target":{"type":"Value","value":"10"}}}`
)

// Run tests what a controller reads from the metrics APIs, more strictly than
// recordings can.
func Run(t *testing.T, driver oracle.Driver) {
	t.Helper()
	for _, test := range []struct {
		name, metric, held string
		// current is the metric's reading; empty: it failed with failure.
		current, failure string
	}{
		{"pod metrics are chosen by their labels and namespace", cpuMetric, `"podMetrics":[
			{"metadata":{"name":"web-0","labels":{"app":"web"}},"containers":[{"name":"app","usage":{"cpu":"200m"}}]},
			{"metadata":{"name":"web-1","labels":{"app":"web"},"namespace":"default"},"containers":[{"name":"app","usage":{"cpu":"200m"}}]},
			{"metadata":{"name":"web-2"},"containers":[{"name":"app","usage":{"cpu":"800m"}}]},
			{"metadata":{"name":"web-3","labels":{"app":"web"},"namespace":"other"},"containers":[{"name":"app","usage":{"cpu":"800m"}}]}]`,
			"200m", ""},
		{"values of pods are chosen by the meaning of the selector", podsMetric, `"customMetrics":[
			{"describedObject":{"kind":"Pod","name":"web-0","apiVersion":"v1"},"metric":{"name":"rps","selector":{"matchExpressions":[{"key":"verb","operator":"In","values":["GET","GET"]}]}},"value":"20"},
			{"describedObject":{"kind":"Pod","name":"elsewhere","apiVersion":"/v1"},"metric":{"name":"rps","selector":{"matchLabels":{"verb":"GET"}}},"value":"40"},
			{"describedObject":{"kind":"Pod","name":"web-1"},"metric":{"name":"rps"},"value":"900"},
			{"describedObject":{"kind":"Pod","name":"web-1","apiVersion":"apps/v1"},"metric":{"name":"rps","selector":{"matchLabels":{"verb":"GET"}}},"value":"900"}]`,
			"30", ""},
		{"a value of an object is that of its group, kind and name", objectMetric, `"customMetrics":[
			{"describedObject":{"kind":"Service","name":"web","apiVersion":"serving.knative.dev/v1"},"metric":{"name":"rps"},"value":"900"},
			{"describedObject":{"kind":"Service","name":"api","apiVersion":"v1"},"metric":{"name":"rps"},"value":"900"},
			{"describedObject":{"kind":"Service","name":"web","apiVersion":"v1"},"metric":{"name":"rps","selector":{}},"value":"30"}]`,
			"30", ""},
		{"an object has one value", objectMetric, `"customMetrics":[
			{"describedObject":{"kind":"Service","name":"web","apiVersion":"v1"},"metric":{"name":"rps"},"value":"30"},
			{"describedObject":{"kind":"Service","name":"web","apiVersion":"v1"},"metric":{"name":"rps"},"value":"30"}]`,
			"", "the custom metrics API server returned 2 results when we asked for exactly one"},
		{"no selector selects all series", ExternalMetric, `"externalMetrics":[
			{"metricName":"depth","metricLabels":{"queue":"a"},"value":"20"},{"metricName":"depth","value":"5"},{"metricName":"width","value":"900"}]`,
			"25", ""},
		{"the error of a metric comes before that of the API", ExternalMetric,
			`"errors":{"external":"all down","external:depth":"one down","custom":"not asked"}`, "", "one down"},
	} {
		t.Run(test.name, func(t *testing.T) {
			step, err := Ask(t, driver, test.metric, test.held)
			if err != nil {
				t.Fatal(err)
			}
			if test.failure != "" {
				if step.Error == nil || !strings.HasSuffix(step.Error.Value, test.failure) {
					t.Errorf("the reconcile fails with %+v, want %s", step.Error, test.failure)
				}
				return
			}
			if got, want := current(t, step.CurrentMetrics[0]), resource.MustParse(test.current); got.Cmp(want) != 0 {
				t.Errorf("read %s, want %s", got.String(), want.String())
			}
		})
	}
}

// current returns a metric's reading.
func current(t *testing.T, metric json.RawMessage) resource.Quantity {
	t.Helper()
	var status map[string]json.RawMessage
	if err := json.Unmarshal(metric, &status); err != nil {
		t.Fatal(err)
	}
	for key, text := range status {
		var source struct {
			Current struct{ Value, AverageValue *resource.Quantity }
		}
		if key == "type" {
			continue
		}
		if err := json.Unmarshal(text, &source); err != nil {
			t.Fatal(err)
		}
		if source.Current.Value != nil {
			return *source.Current.Value
		}
		return *source.Current.AverageValue
	}
	t.Fatalf("%s has no reading", metric)
	return resource.Quantity{}
}
