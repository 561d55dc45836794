package samples

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// The service joins the readings to the metrics of the spec, and decides as the controller does
// with the answers of its metrics APIs.
func TestTheServiceDecidesOnWhatWasRead(t *testing.T) {
	prom := newFakeProm(t, byQuery(map[string]http.HandlerFunc{
		"queue": vectorOf(series("3", "queue", "a"), series("4.5", "queue", "b")),
		"rps":   vectorOf(series("20", "pod", "web-1"), series("NaN", "pod", "web-2"), series("900", "pod", "other")),
		"cpu":   vectorOf(series("0.9", "pod", "web-1"), series("0.9", "pod", "web-2")),
		"none":  vectorOf(),
	}))
	set := promSource(t, prom.URL)
	const (
		queue = `{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchExpressions": [{"key": "queue", "operator": "Exists"}]}}, "target": {"type": "AverageValue", "averageValue": "1"}}}`
		rps   = `{"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}}`
		cpu   = `{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "300m"}}}`
		none  = `{"type": "External", "external": {"metric": {"name": "none"}, "target": {"type": "AverageValue", "averageValue": "1"}}}`
	)
	for _, c := range []struct {
		name, metrics string
		want          int32
		text          string // of a condition
	}{
		{"the series of an external metric are summed: 7.5", queue, 8, "ValidMetricFound"},
		{"a pod without a sample counts against the direction: 20 of 2 pods is on target", rps, 2, "ValidMetricFound"},
		{"usage of pods", cpu, 6, "ValidMetricFound"},
		{"the largest of all", cpu + "," + rps + "," + queue, 8, "ValidMetricFound"},
		{"a metric that could not be read holds the count", none, 2,
			`unable to fetch metrics from external metrics API: source "prom": the result is empty`},
		{"and does not keep others from scaling up", none + "," + queue, 8, "ValidMetricFound"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req setpointv1.RecommendRequest
			fatal.If(t, protojson.Unmarshal(fmt.Appendf(nil, `{
				"target": "clusters/c/namespaces/shop/targets/web", "spec": {
					"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 100,
					"metrics": [%s], "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}}
				},
				"scale": {"specReplicas": 2}, "pods": [
					{"name": "web-1", "phase": "Running", "startTime": "2020-01-01T00:00:00Z", "ready": {"status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}},
					{"name": "web-2", "phase": "Running", "startTime": "2020-01-01T00:00:00Z", "ready": {"status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}}
				]
			}`, c.metrics), &req))
			queries := map[string]Query{
				"External:queue": promQuery("queue"), "Pods:rps": promQuery("rps", ofPods), "External:none": promQuery("none"),
				"Resource:cpu": promQuery("cpu", ofPods, func(q *Query) { q.Window = Duration(time.Minute) }),
			}
			var metrics []Metric
			for _, spec := range req.GetSpec().GetMetrics() {
				about, _ := targetOf(spec)
				metrics = append(metrics, Metric{Spec: spec, Query: queries[about.subject()]})
			}
			fatal.If(t, set.Check(metrics))
			read := set.Read(t.Context(), metrics, []string{"web-1", "web-2"})
			req.PodMetrics, req.CustomMetrics, req.ExternalMetrics, req.MetricErrors = read.PodMetrics, read.CustomMetrics, read.ExternalMetrics, read.MetricErrors
			input, violations := conversion.Input(&req, recommender.DefaultOptions())
			if len(violations) > 0 {
				t.Fatalf("the service refuses the request: %v", violations)
			}
			decision, _ := recommender.Recommend(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), input, nil)
			said := ""
			for _, condition := range decision.Status.Conditions {
				said += condition.Reason + ": " + condition.Message + "\n"
			}
			if decision.Desired != c.want || !strings.Contains(said, c.text) {
				t.Errorf("%d replicas, want %d; conditions, of which one should have %q:\n%s", decision.Desired, c.want, c.text, said)
			}
		})
	}
}
