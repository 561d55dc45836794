package conversion_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Selectors in JSON, for both sides of a match.
const (
	none         = `null`
	empty        = `{}`
	label        = `{"matchLabels": {"a": "b"}}`
	expression   = `{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}`
	twoLabels    = `{"matchLabels": {"a": "b", "c": "d"}}`
	mixed        = `{"matchLabels": {"c": "d"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}`
	otherWay     = `{"matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}, {"key": "a", "operator": "In", "values": ["b"]}]}`
	otherValue   = `{"matchLabels": {"a": "c"}}`
	otherKey     = `{"matchLabels": {"b": "b"}}`
	values       = `{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}`
	valuesTurned = `{"matchExpressions": [{"key": "a", "operator": "In", "values": ["c", "b"]}]}`
	valuesTwice  = `{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c", "b"]}]}`
	labelTwice   = `{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "b"]}]}`
	notIn        = `{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}`
	notInBoth    = `{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", "c"]}]}`
	exists       = `{"matchExpressions": [{"key": "a", "operator": "Exists"}]}`
	existsNot    = `{"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}`
)

// sameSelectors are those that mean the same, set by set.
var sameSelectors = [][]string{
	{none, empty, `{"matchLabels": {}, "matchExpressions": []}`},
	{label, expression, labelTwice},
	{twoLabels, mixed, otherWay},
	{otherValue}, {otherKey},
	{values, valuesTurned, valuesTwice},
	{notIn}, {notInBoth}, {exists}, {existsNot},
}

// Two selectors belong together exactly if they mean the same, however written.
func TestSelectorsAreComparedByTheirMeaning(t *testing.T) {
	t.Parallel()
	for i, ours := range sameSelectors {
		for _, spec := range ours {
			for j, theirs := range sameSelectors {
				for _, reading := range theirs {
					custom := request(t, fmt.Sprintf(`{"scale": {}, "spec": {"metrics": [{"type": "Pods", "pods": {"metric": {"name": "rps", "selector": %s}}}]},
						"customMetrics": [{"metric": {"name": "rps", "selector": %s}, "describedObject": {"kind": "Pod", "name": "web-a"}, "value": "1"}]}`, spec, reading))
					if got := len(input(t, custom).Readings[0].Values) == 1; got != (i == j) {
						t.Errorf("custom: %s takes readings of %s: %t", spec, reading, got)
					}
					if reading == none {
						continue // then labels decide
					}
					external := request(t, fmt.Sprintf(`{"scale": {}, "spec": {"metrics": [{"type": "External", "external": {"metric": {"name": "q", "selector": %s}}}]},
						"externalMetrics": [{"metric": {"name": "q", "selector": %s}, "value": "1"}]}`, spec, reading))
					if got := len(input(t, external).Readings[0].Values) == 1; got != (i == j) {
						t.Errorf("external: %s takes series of %s: %t", spec, reading, got)
					}
				}
			}
		}
	}
}

func TestSeriesWithoutASelectorAreMatchedByTheirLabels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		selector, labels string
		want             bool
	}{
		{none, `{}`, true},
		{none, `{"a": "b"}`, true},
		{empty, `{"a": "b"}`, true},
		{label, `{"a": "b"}`, true},
		{label, `{"a": "b", "c": "d"}`, true},
		{label, `{"a": "c"}`, false},
		{label, `{}`, false},
		{expression, `{"a": "b"}`, true},
		{values, `{"a": "c"}`, true},
		{values, `{"a": "d"}`, false},
		{twoLabels, `{"a": "b"}`, false},
		{notIn, `{"a": "c"}`, true},
		{notIn, `{}`, true},
		{notIn, `{"a": "b"}`, false},
		{exists, `{"a": ""}`, true},
		{exists, `{}`, false},
		{existsNot, `{}`, true},
		{existsNot, `{"a": "b"}`, false},
	} {
		req := request(t, fmt.Sprintf(`{"scale": {}, "spec": {"metrics": [{"type": "External", "external": {"metric": {"name": "q", "selector": %s}}}]},
			"externalMetrics": [{"metric": {"name": "q"}, "labels": %s, "value": "1"}]}`, tt.selector, tt.labels))
		if got := len(input(t, req).Readings[0].Values) == 1; got != tt.want {
			t.Errorf("%s takes a series with %s: %t, want %t", tt.selector, tt.labels, got, tt.want)
		}
	}
}

func TestAMalformedSelectorOfTheSpecIsAnErrorOfItsMetricOnly(t *testing.T) {
	t.Parallel()
	req := request(t, `{"scale": {}, "spec": {"metrics": [
		{"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}},
		{"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "not a value!"}}}}},
		{"type": "External", "external": {"metric": {"name": "q"}}}]},
		"externalMetrics": [{"metric": {"name": "q"}, "labels": {"a": "b"}, "value": "1"}]}`)
	readings := input(t, req).Readings
	for i, want := range []string{`"Like" is not a valid label selector operator`, "not a value!", ""} {
		if got := readings[i].SelectorError; (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("metric %d has the selector error %q, want one with %q", i, got, want)
		}
	}
	for i, want := range []int{0, 0, 1} {
		if got := len(readings[i].Values); got != want {
			t.Errorf("metric %d has %d values, want %d", i, got, want)
		}
	}
}

func TestCustomReadingsAreMatchedByTheirObject(t *testing.T) {
	t.Parallel()
	const (
		pods      = `{"type": "Pods", "pods": {"metric": {"name": "m"}}}`
		ingress   = `{"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}}}`
		service   = `{"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "main", "apiVersion": "v1"}}}`
		odd       = `{"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "main", "apiVersion": "a/b/c"}}}`
		pod       = `{"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Pod", "name": "web-a"}}}`
		namespace = `{"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Namespace", "name": "elsewhere"}}}`
		external  = `{"type": "External", "external": {"metric": {"name": "m"}}}`
	)
	for _, tt := range []struct {
		metric, name, object string
		want                 bool
	}{
		{pods, "m", `{"kind": "Pod", "name": "web-a"}`, true},
		{pods, "m", `{"kind": "Pod", "name": "web-a", "apiVersion": "v1"}`, true},
		{pods, "m", `{"kind": "Pod", "name": "web-a", "apiVersion": "apps/v1"}`, false},
		{pods, "m", `{"kind": "pod", "name": "web-a"}`, false},
		{pods, "m", `{"kind": "Service", "name": "web-a"}`, false},
		{pods, "n", `{"kind": "Pod", "name": "web-a"}`, false},
		{pods, "M", `{"kind": "Pod", "name": "web-a"}`, false},
		{ingress, "m", `{"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}`, true},
		{ingress, "m", `{"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1beta1"}`, true},
		{ingress, "m", `{"kind": "Ingress", "name": "main", "apiVersion": "extensions/v1beta1"}`, false},
		{ingress, "m", `{"kind": "Ingress", "name": "main"}`, false},
		{ingress, "m", `{"kind": "Ingress", "name": "other", "apiVersion": "networking.k8s.io/v1"}`, false},
		{ingress, "n", `{"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}`, false},
		{service, "m", `{"kind": "Service", "name": "main"}`, true},
		{service, "m", `{"kind": "Service", "name": "main", "apiVersion": "v1"}`, true},
		{service, "m", `{"kind": "Service", "name": "main", "apiVersion": "serving.knative.dev/v1"}`, false},
		{odd, "m", `{"kind": "Service", "name": "main"}`, true},
		{odd, "m", `{"kind": "Service", "name": "main", "apiVersion": "a/v1"}`, false},
		{pod, "m", `{"kind": "Pod", "name": "web-a", "apiVersion": "v1"}`, true},
		{pod, "m", `{"kind": "Pod", "name": "web-b"}`, false},
		// Kubernetes reads a namespace's metric of the target's own namespace.
		{namespace, "m", `{"kind": "Namespace", "name": "shop"}`, true},
		{namespace, "m", `{"kind": "Namespace", "name": "shop", "apiVersion": "v1"}`, true},
		{namespace, "m", `{"kind": "Namespace", "name": "elsewhere"}`, true},
		{namespace, "m", `{"kind": "Namespace", "name": "third"}`, false},
		{namespace, "m", `{"kind": "Namespace", "name": "shop", "apiVersion": "example.com/v1"}`, false},
		{external, "m", `{"kind": "Pod", "name": "web-a"}`, false},
	} {
		req := request(t, fmt.Sprintf(`{"scale": {}, "explain": true, "spec": {"metrics": [%s]},
			"customMetrics": [{"metric": {"name": %q}, "describedObject": %s, "value": "1"}]}`, tt.metric, tt.name, tt.object))
		in := input(t, req)
		if got := len(in.Readings[0].Values) == 1; got != tt.want {
			t.Errorf("%s takes %s of %s: %t, want %t", tt.metric, tt.name, tt.object, got, tt.want)
		}
		if got := len(in.Notes) == 0; got != tt.want {
			t.Errorf("%s and %s of %s: the notes are %q", tt.metric, tt.name, tt.object, in.Notes)
		}
	}
}

func TestReadingsOfNoMetricAreNotedInExplanationsOnly(t *testing.T) {
	t.Parallel()
	const text = `{"scale": {}, "explain": %t, "spec": {"metrics": [{"type": "External", "external": {"metric": {"name": "q"}}}]},
		"customMetrics": [{"metric": {"name": "rps"}, "describedObject": {"kind": "Pod", "name": "web-a"}, "value": "1"}],
		"externalMetrics": [{"metric": {"name": "q"}, "value": "1"}, {"metric": {"name": "r"}, "value": "1"}]}`
	want := []string{
		`customMetrics[0]: belongs to no metric of the spec and had no effect (metric "rps"; the spec's are External:q; name, selector and object must agree)`,
		`externalMetrics[1]: belongs to no metric of the spec and had no effect (metric "r"; name, selector and object must agree)`,
	}
	if got := input(t, request(t, fmt.Sprintf(text, true))).Notes; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := input(t, request(t, fmt.Sprintf(text, false))).Notes; len(got) != 0 {
		t.Errorf("without an explanation there are notes: %q", got)
	}
}

// A reading that can be of no metric is refused: nothing else would tell its caller. The name of a pod may be missing,
// as in Kubernetes.
func TestReadingsWithoutNamesAreRefused(t *testing.T) {
	t.Parallel()
	const nameless = " Required value: without it the value is of no metric"
	readings := `"customMetrics": [{"metric": {}, "describedObject": {}, "value": "1"}, {"metric": {"name": "rps"}, "describedObject": {"kind": "Service"}, "value": "1"},
			{"metric": {"name": "rps"}, "describedObject": {"kind": "Pod"}, "value": "1"}],
		"externalMetrics": [{"metric": {"name": "q"}, "value": "1"}, {"metric": {}, "labels": {"a": "b"}, "value": "1"}]`
	want := []string{
		"customMetrics[0].metric.name:" + nameless, "customMetrics[0].describedObject.kind:" + nameless, "customMetrics[0].describedObject.name:" + nameless,
		"customMetrics[1].describedObject.name:" + nameless, "externalMetrics[1].metric.name:" + nameless,
	}
	texts := func(violations []validation.Violation) (out []string) {
		for _, v := range violations {
			out = append(out, v.Field+": "+v.Description)
		}
		return out
	}
	req := request(t, `{"scale": {}, "spec": {"metrics": [{"type": "Pods", "pods": {"metric": {"name": "rps"}}}]}, `+readings+`}`)
	if _, violations := conversion.Input(req, recommender.DefaultOptions()); !slices.Equal(texts(violations), want) {
		t.Errorf("a request: got %q, want %q", texts(violations), want)
	}
	report := &setpointv1.ReportObservationRequest{CustomMetrics: req.GetCustomMetrics(), ExternalMetrics: req.GetExternalMetrics()}
	if got := texts(conversion.ObservationViolations(report, decided)); !slices.Equal(got, want) {
		t.Errorf("a report: got %q, want %q", got, want)
	}
}

func TestAReadingBelongsToEveryMetricThatIsTheSame(t *testing.T) {
	t.Parallel()
	in := input(t, request(t, `{"scale": {}, "spec": {"metrics": [
		{"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}}, "target": {"value": "1"}}},
		{"type": "External", "external": {"metric": {"name": "q"}, "target": {"averageValue": "1"}}},
		{"type": "External", "external": {"metric": {"name": "r"}}}]},
		"externalMetrics": [
			{"metric": {"name": "q"}, "labels": {"a": "b"}, "value": "1500m"},
			{"metric": {"name": "q"}, "labels": {"a": "c"}, "value": "2k"}]}`))
	want := [][]recommender.Value{{{Milli: 1500}}, {{Milli: 1500}, {Milli: 2_000_000}}, nil}
	for i := range want {
		if got := in.Readings[i].Values; !reflect.DeepEqual(got, want[i]) {
			t.Errorf("metric %d has %v, want %v", i, got, want[i])
		}
	}
}

func TestReadingsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	in := input(t, request(t, `{"scale": {}, "spec": {"metrics": [{"type": "Pods", "pods": {"metric": {"name": "m"}}}]}, "customMetrics": [
		{"metric": {"name": "m"}, "describedObject": {"kind": "Pod", "name": "b"}, "value": "1"},
		{"metric": {"name": "m"}, "describedObject": {"kind": "Pod", "name": "a"}, "value": "2"},
		{"metric": {"name": "m"}, "describedObject": {"kind": "Pod", "name": "b"}, "value": "3"}]}`))
	want := []recommender.Value{{Pod: "b", Milli: 1000}, {Pod: "a", Milli: 2000}, {Pod: "b", Milli: 3000}}
	if got := in.Readings[0].Values; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The metrics that errors are named for below, by index.
const erring = `
	{"type": "Resource", "resource": {"name": "cpu"}},
	{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app"}},
	{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "proxy"}},
	{"type": "Resource", "resource": {"name": "memory"}},
	{"type": "Pods", "pods": {"metric": {"name": "rps"}}},
	{"type": "Object", "object": {"metric": {"name": "rps", "selector": {"matchLabels": {"a": "b"}}}, "describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}}},
	{"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": {"kind": "Service", "name": "main", "apiVersion": "v1"}}},
	{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchLabels": {"q": "1"}}}}},
	{"type": "External", "external": {"metric": {"name": "queue"}}},
	{"type": "External", "external": {"metric": {"name": "cpu"}}}`

func TestMetricErrorsNameMetricsInEveryForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		// metric, and what else an error says of it.
		metric, more string
		want         []int
	}{
		{"cpu", "", []int{0, 1, 2, 9}},
		{"memory", "", []int{3}},
		{"rps", "", []int{4, 5}},
		{"queue", "", []int{7, 8}},

		{"Resource:cpu", "", []int{0}},
		{"ContainerResource:cpu", "", []int{1, 2}},
		{"ContainerResource:cpu:app", "", []int{1}},
		{"ContainerResource:cpu:proxy", "", []int{2}},
		{"Pods:rps", "", []int{4}},
		{"Object:rps", "", []int{5}},
		{"Object:hits", "", []int{6}},
		{"External:queue", "", []int{7, 8}},
		{"External:cpu", "", []int{9}},

		{"metrics.k8s.io", "", []int{0, 1, 2, 3}},
		{"custom.metrics.k8s.io", "", []int{4, 5, 6}},
		{"external.metrics.k8s.io", "", []int{7, 8, 9}},

		{"metrics.k8s.io/cpu", "", []int{0, 1, 2}},
		{"metrics.k8s.io/memory", "", []int{3}},
		{"custom.metrics.k8s.io/rps", "", []int{4, 5}},
		{"external.metrics.k8s.io/queue", "", []int{7, 8}},
		{"external.metrics.k8s.io/cpu", "", []int{9}},

		// Narrowed by a selector; an empty one is that of metrics without.
		{"queue", `"selector": {"matchLabels": {"q": "1"}}`, []int{7}},
		{"queue", `"selector": {"matchExpressions": [{"key": "q", "operator": "In", "values": ["1"]}]}`, []int{7}},
		{"queue", `"selector": {}`, []int{8}},
		{"external.metrics.k8s.io", `"selector": {}`, []int{8, 9}},
		{"rps", `"selector": {"matchLabels": {"a": "b"}}`, []int{5}},

		// Narrowed by an object.
		{"custom.metrics.k8s.io", `"describedObject": {"kind": "Service", "name": "main"}`, []int{6}},
		{"rps", `"describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1beta1"}`, []int{5}},

		{"nothing", "", nil},
		{"CPU", "", nil},
		{"Resource:queue", "", nil},
		{"Resource:cpu:app", "", nil},
		{"ContainerResource:cpu:other", "", nil},
		{"Pods:rps:x", "", nil},
		{"metrics.k8s.io/queue", "", nil},
		{"custom.metrics.k8s.io/cpu", "", nil},
		{"metrics.k8s.io/", "", nil},
		{"queue", `"selector": {"matchLabels": {"q": "2"}}`, nil},
		{"rps", `"describedObject": {"kind": "Service", "name": "main"}`, nil},
		{"External:queue", `"describedObject": {"kind": "Service", "name": "main"}`, nil},
	} {
		more := tt.more
		if more != "" {
			more = ", " + more
		}
		req := request(t, fmt.Sprintf(`{"scale": {}, "spec": {"metrics": [%s]}, "metricErrors": [{"metric": %q, "message": "m" %s}]}`, erring, tt.metric, more))
		if tt.want == nil {
			violations := refused(t, req)
			if len(violations) != 1 || violations[0].Field != "metricErrors[0].metric" {
				t.Errorf("%s %s: refused by %v, want the metric", tt.metric, tt.more, violations)
			}
			continue
		}
		var got []int
		for i, r := range input(t, req).Readings {
			if r.Error == "m" {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: names %v, want %v", tt.metric, tt.more, got, tt.want)
		}
	}
}

func TestTheFirstErrorThatNamesAMetricIsQuoted(t *testing.T) {
	t.Parallel()
	in := input(t, request(t, `{"scale": {}, "spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu"}}, {"type": "Resource", "resource": {"name": "memory"}}]},
		"metricErrors": [{"metric": "memory", "message": "first"}, {"metric": "metrics.k8s.io", "message": "second"}, {"metric": "cpu", "message": "third"}]}`))
	for i, want := range []string{"second", "first"} {
		if got := in.Readings[i].Error; got != want {
			t.Errorf("metric %d has the error %q, want the %s", i, got, want)
		}
	}
}

func TestErrorsWithAMalformedSelectorAreRefused(t *testing.T) {
	t.Parallel()
	violations := refused(t, request(t, `{"scale": {}, "spec": {"metrics": [{"type": "External", "external": {"metric": {"name": "q"}}}]},
		"metricErrors": [{"metric": "q", "message": "m", "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]}`))
	if len(violations) != 1 || violations[0].Field != "metricErrors[0].selector" {
		t.Errorf("refused by %v, want the selector", violations)
	}
}
