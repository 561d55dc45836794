package samples

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// byQuery answers according to the query.
func byQuery(answers map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { answers[r.FormValue("query")](w, r) }
}

// request formats readings as in a request.
func request(r Readings) string {
	return protojson.Format(&setpointv1.RecommendRequest{
		PodMetrics: r.PodMetrics, CustomMetrics: r.CustomMetrics, ExternalMetrics: r.ExternalMetrics, MetricErrors: r.MetricErrors,
	})
}

// wantRequest compares readings with the expected parts of a request.
func wantRequest(t *testing.T, got Readings, want string) {
	t.Helper()
	var parsed setpointv1.RecommendRequest
	fatal.If(t, protojson.Unmarshal([]byte(want), &parsed))
	is := &setpointv1.RecommendRequest{
		PodMetrics: got.PodMetrics, CustomMetrics: got.CustomMetrics, ExternalMetrics: got.ExternalMetrics, MetricErrors: got.MetricErrors,
	}
	if !proto.Equal(is, &parsed) {
		t.Errorf("got %s\nwant %s", request(got), protojson.Format(&parsed))
	}
}

// What is wrong with a value of another's pod does not fail the metric of a workload's own.
func TestProblemsOfOthersPodsDoNotMatter(t *testing.T) {
	for _, c := range []struct{ name, document, path string }{
		{"two values", `{"pods": [{"name": "a", "load": [1]}, {"name": "other", "load": [1, 2]}]}`, "{.load[*]}"},
		{"a value of another type", `{"pods": [{"name": "a", "load": [1]}, {"name": "other", "load": 5}]}`, "{.load[0]}"},
		{"no time", `{"pods": [{"name": "a", "load": 1, "at": 1}, {"name": "other", "load": 1}]}`, ".load"},
		{"a time that is none", `{"pods": [{"name": "a", "load": 1, "at": 1}, {"name": "other", "load": 1, "at": "now"}]}`, ".load"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := at(c.path, items, func(q *Query) {
				if strings.Contains(c.document, "at") {
					q.TimestampPath = ".at"
				}
			})
			wantOwn(t, httpSource(t, newFakeProm(t, body(c.document)).URL), q)
		})
	}
	t.Run("a histogram", func(t *testing.T) {
		prom := newFakeProm(t, result("vector", `[{"metric":{"pod":"a"},"value":[1,"1"]},{"metric":{"pod":"other"},"histogram":[1,{"count":"3","sum":"4","buckets":[]}]}]`))
		wantOwn(t, promSource(t, prom.URL), promQuery("up", ofPods))
	})
}

// wantOwn fails the test unless a query has a value of pod a, and an error where pod other is the workload's, too.
func wantOwn(t *testing.T, set *Set, q Query) {
	t.Helper()
	got, err := set.samples(t.Context(), q, func(pod string) bool { return pod == "a" })
	if err != nil || len(got) != 1 || got[0].Value.String() != "1" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := set.samples(t.Context(), q, everyPod); err == nil {
		t.Errorf("got %v of both", got)
	}
}

func TestReadingsAreWhatARequestTakes(t *testing.T) {
	prom := newFakeProm(t, byQuery(map[string]http.HandlerFunc{
		"queue":  vectorOf(series("3", "queue", "a"), series("4", "queue", "b")),
		"rps":    vectorOf(series("5", "pod", "web-1"), series("6", "pod", "web-2"), series("7", "pod", "other")),
		"conns":  vectorOf(series("8")),
		"cpu":    vectorOf(series("0.25", "pod", "web-1"), series("0.5", "pod", "web-2")),
		"memory": vectorOf(series("1000000", "pod", "web-1")),
		"broken": status(500, "text/plain", ""),
	}))
	set := promSource(t, prom.URL)
	minute := func(q *Query) { q.Window = Duration(time.Minute) }
	metrics := []Metric{
		{Spec: external("queue"), Query: promQuery("queue")},
		{Spec: podsMetric("rps"), Query: promQuery("rps", ofPods, minute)},
		{Spec: object("conns"), Query: promQuery("conns")},
		{Spec: usageOf("cpu"), Query: promQuery("cpu", ofPods, minute)},
		{Spec: usageOf("memory"), Query: promQuery("memory", ofPods)},
		{Spec: external("broken"), Query: promQuery("broken")},
	}
	fatal.If(t, set.Check(metrics))
	const at = `"timestamp": "2023-11-14T22:13:20.500Z"`
	wantRequest(t, set.Read(t.Context(), metrics, []string{"web-1", "web-2", "web-3"}), `{
		"externalMetrics": [
			{"metric": {"name": "queue", "selector": {}}, "labels": {"queue": "a"}, `+at+`, "value": "3"},
			{"metric": {"name": "queue", "selector": {}}, "labels": {"queue": "b"}, `+at+`, "value": "4"}
		],
		"customMetrics": [
			{"metric": {"name": "rps", "selector": {}}, "describedObject": {"apiVersion": "v1", "kind": "Pod", "name": "web-1"}, `+at+`, "value": "5", "windowSeconds": 60},
			{"metric": {"name": "rps", "selector": {}}, "describedObject": {"apiVersion": "v1", "kind": "Pod", "name": "web-2"}, `+at+`, "value": "6", "windowSeconds": 60},
			{"metric": {"name": "conns", "selector": {}}, "describedObject": {"kind": "Service", "name": "web"}, `+at+`, "value": "8"}
		],
		"podMetrics": [
			{"pod": "web-1", `+at+`, "windowSeconds": 60, "containers": [{"usage": {"cpu": "250m", "memory": "1M"}}]},
			{"pod": "web-2", `+at+`, "windowSeconds": 60, "containers": [{"usage": {"cpu": "500m"}}]}
		],
		"metricErrors": [
			{"metric": "External:broken", "selector": {}, "message": "source \"prom\": it answered 500 Internal Server Error"}
		]
	}`)
}

func TestUsageOfContainers(t *testing.T) {
	prom := newFakeProm(t, vectorOf(
		series("2", "pod", "web-1", "c", "sidecar"), series("1", "pod", "web-1", "c", "app"), series("3", "pod", "web-0", "c", "app"),
	))
	set := promSource(t, prom.URL)
	q := promQuery("cpu", func(q *Query) { q.PodLabel, q.ContainerLabel, q.Window = "pod", "c", Duration(30*time.Second) })
	metrics := []Metric{{Spec: usageOf("cpu"), Query: q}, {Spec: containerUsage("cpu", "app"), Query: q}}
	const rest = `"timestamp": "2023-11-14T22:13:20.500Z", "windowSeconds": 30`
	wantRequest(t, set.Read(t.Context(), metrics, nil), `{"podMetrics": [
		{"pod": "web-0", `+rest+`, "containers": [{"name": "app", "usage": {"cpu": "3"}}]},
		{"pod": "web-1", `+rest+`, "containers": [{"name": "app", "usage": {"cpu": "1"}}, {"name": "sidecar", "usage": {"cpu": "2"}}]}
	]}`)
	if n := len(prom.asked()); n != 1 {
		t.Errorf("asked %d times for one query", n)
	}
}

func TestWhatBecomesAnErrorOfTheMetric(t *testing.T) {
	prom := newFakeProm(t, byQuery(map[string]http.HandlerFunc{
		"two":   vectorOf(series("1", "q", "a"), series("2", "q", "b")),
		"pods":  vectorOf(series("1", "pod", "x")),
		"empty": vectorOf(),
	}))
	set := promSource(t, prom.URL)
	selected := func(spec *setpointv1.MetricSpec, value string) *setpointv1.MetricSpec {
		spec.External.Metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{"q": value}}
		return spec
	}
	for _, c := range []struct {
		name   string
		metric Metric
		pods   []string
		want   string // of the error, as JSON
	}{
		{"an Object metric takes exactly one value", Metric{Spec: object("m"), Query: promQuery("two")}, nil,
			`{"metric": "Object:m", "selector": {}, "describedObject": {"kind": "Service", "name": "web"}, "message": "source \"prom\": it has 2 values, but an Object metric needs exactly one: aggregate them, as with sum()"}`},
		{"no value of the workload's pods", Metric{Spec: podsMetric("m"), Query: promQuery("pods", ofPods)}, []string{"web-1"},
			`{"metric": "Pods:m", "selector": {}, "message": "source \"prom\": none of 1 values belongs to a pod of the workload: 0 name no pod or container, 1 are of other pods, 0 are NaN, old or missing: check the setting that names the pod"}`},
		{"a workload without pods", Metric{Spec: podsMetric("m"), Query: promQuery("pods", ofPods)}, []string{},
			`{"metric": "Pods:m", "selector": {}, "message": "source \"prom\": none of 1 values belongs to a pod of the workload: 0 name no pod or container, 1 are of other pods, 0 are NaN, old or missing: check the setting that names the pod"}`},
		{"no series that the selector matches", Metric{Spec: selected(external("m"), "c"), Query: promQuery("two")}, nil,
			`{"metric": "External:m", "selector": {"matchLabels": {"q": "c"}}, "message": "source \"prom\": none of 2 values has labels that match the metric's selector: let the query keep those labels, or remove the selector"}`},
		{"an empty result", Metric{Spec: usageOf("memory"), Query: promQuery("empty", ofPods)}, nil,
			`{"metric": "Resource:memory", "message": "source \"prom\": the result is empty: check the query, or set emptyIsZero if nothing means zero"}`},
		{"a query that can't be", Metric{Spec: containerUsage("cpu", "app"), Query: promQuery("pods", ofPods)}, nil,
			`{"metric": "ContainerResource:cpu:app", "message": "containerLabel: is required: the metric is one of a container"}`},
		{"a source that is not there", Metric{Spec: external("m"), Query: Query{Source: "pron", Query: "x"}}, nil,
			`{"metric": "External:m", "selector": {}, "message": "source: there is no source \"pron\"; did you mean prom?"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantRequest(t, set.Read(t.Context(), []Metric{c.metric}, c.pods), `{"metricErrors": [`+c.want+`]}`)
		})
	}
	t.Run("a selector keeps what it matches", func(t *testing.T) {
		got := set.Read(t.Context(), []Metric{{Spec: selected(external("m"), "b"), Query: promQuery("two")}}, nil)
		if len(got.ExternalMetrics) != 1 || got.ExternalMetrics[0].GetValue() != "2" || len(got.MetricErrors) != 0 {
			t.Errorf("got %s", request(got))
		}
	})
	t.Run("what a metric of a spec twice has is sent once", func(t *testing.T) {
		twice := []Metric{{Spec: external("m"), Query: promQuery("two")}, {Spec: external("m"), Query: promQuery("two")}}
		if got := set.Read(t.Context(), twice, nil); len(got.ExternalMetrics) != 2 {
			t.Errorf("got %s", request(got))
		}
	})
}

func TestQueriesThatDoNotFitTheirMetrics(t *testing.T) {
	set := promSource(t, "http://localhost")
	minute := func(q *Query) { q.Window = Duration(time.Minute) }
	containers := func(q *Query) { q.PodLabel, q.ContainerLabel = "pod", "c" }
	for _, c := range []struct {
		name    string
		metrics []Metric
		want    string // empty: nothing is wrong
	}{
		{"a Pods metric takes pods", []Metric{{Spec: podsMetric("m"), Query: promQuery("x")}}, "Pods:m.podLabel: is required: a Pods metric has a value for each pod"},
		{"an External metric takes none", []Metric{{Spec: external("m"), Query: promQuery("x", ofPods)}}, "External:m.podLabel: does not apply here"},
		{"a Pods metric takes no containers", []Metric{{Spec: podsMetric("m"), Query: promQuery("x", containers)}}, "Pods:m: a Pods metric has one value for each pod"},
		{"cpu takes a window", []Metric{{Spec: usageOf("cpu"), Query: promQuery("x", ofPods)}}, "Resource:cpu.window: is required for cpu"},
		{"memory does not", []Metric{{Spec: usageOf("memory"), Query: promQuery("x", ofPods)}}, ""},
		{"one resource, two queries", []Metric{{Spec: usageOf("memory"), Query: promQuery("x", ofPods)}, {Spec: containerUsage("memory", "app"), Query: promQuery("x", containers)}},
			"ContainerResource:memory:app: reads memory with another query"},
		{"one metric, two queries", []Metric{{Spec: external("m"), Query: promQuery("x")}, {Spec: external("m"), Query: promQuery("y")}}, "External:m: is in the spec before with another query"},
		{"resources by pod and by container", []Metric{{Spec: usageOf("memory"), Query: promQuery("x", ofPods)}, {Spec: usageOf("cpu"), Query: promQuery("y", containers, minute)}},
			"Resource:cpu.containerLabel: must be set for all resources, or for none"},
		{"two resources", []Metric{{Spec: usageOf("memory"), Query: promQuery("x", ofPods)}, {Spec: usageOf("cpu"), Query: promQuery("y", ofPods, minute)}}, ""},
		{"an unknown type", []Metric{{Spec: &setpointv1.MetricSpec{Type: "Extern"}, Query: promQuery("x")}}, `there is no type of metric "Extern"`},
		{"no metric", []Metric{{Spec: nil, Query: promQuery("x")}}, "there is no type of metric"},
		{"no name", []Metric{{Spec: external(""), Query: promQuery("x")}}, "the metric has no name"},
		{"no object", []Metric{{Spec: &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "m"}}}, Query: promQuery("x")}}, "describes no object"},
		{"a selector that is none", []Metric{{Spec: &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{
			Name: "m", Selector: &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "k", Operator: "Inn"}}},
		}}}, Query: promQuery("x")}}, "the metric's selector:"},
		{"all that is wrong", []Metric{{Spec: external("m"), Query: promQuery("")}, {Spec: podsMetric("p"), Query: promQuery("x")}}, "External:m.query: is required; Pods:p.podLabel: is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := set.Check(c.metrics)
			if c.want == "" {
				fatal.If(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			// Read reports these metrics as errors, and sends no request.
			if got := set.Read(t.Context(), c.metrics, nil); len(got.MetricErrors) == 0 {
				t.Errorf("Read: %s", request(got))
			}
		})
	}
}
