package stored

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/cost"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ofMetric(name string, selector map[string]string) *setpointv1.MetricIdentifier {
	id := &setpointv1.MetricIdentifier{Name: name}
	if selector != nil {
		id.Selector = &setpointv1.LabelSelector{MatchLabels: selector}
	}
	return id
}

func series(name string, selector map[string]string, value string) *setpointv1.ExternalMetric {
	return &setpointv1.ExternalMetric{Metric: ofMetric(name, selector), Value: value}
}

func value(name, kind, object, value string) *setpointv1.CustomMetric {
	return &setpointv1.CustomMetric{Metric: ofMetric(name, nil), Value: value,
		DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: kind, Name: object}}
}

func mustMerge(t *testing.T, o *storedv1.Observation, report *setpointv1.ReportObservationRequest, at time.Time) {
	t.Helper()
	fatal.If(t, merge(o, report, at))
}

// values are those that are known, in order.
func values(o *storedv1.Observation) (all []string) {
	for _, m := range o.GetCustomMetrics() {
		for _, v := range m.GetValues() {
			all = append(all, v.GetMetric().GetName()+"/"+v.GetDescribedObject().GetName()+"="+v.GetValue())
		}
	}
	for _, m := range o.GetExternalMetrics() {
		for _, v := range m.GetSeries() {
			all = append(all, v.GetMetric().GetName()+"="+v.GetValue())
		}
	}
	slices.Sort(all)
	return all
}

func TestMerge(t *testing.T) {
	type report struct {
		after time.Duration
		says  *setpointv1.ReportObservationRequest
	}
	external := func(all ...*setpointv1.ExternalMetric) *setpointv1.ReportObservationRequest {
		return &setpointv1.ReportObservationRequest{ExternalMetrics: all}
	}
	custom := func(all ...*setpointv1.CustomMetric) *setpointv1.ReportObservationRequest {
		return &setpointv1.ReportObservationRequest{CustomMetrics: all}
	}
	for _, tt := range []struct {
		name    string
		reports []report
		want    []string
	}{
		{"a report replaces all series of its metrics", []report{
			{0, external(series("a", nil, "1"), series("a", nil, "2"), series("b", nil, "3"))},
			{1, external(series("a", nil, "4"))},
		}, []string{"a=4", "b=3"}},
		{"what was observed earlier does not replace what was later", []report{
			{2, external(series("a", nil, "1"))},
			{1, external(series("a", nil, "2"), series("a", nil, "3"), series("b", nil, "4"))},
		}, []string{"a=1", "b=4"}},
		{"of the same instant the last report counts", []report{
			{1, external(series("a", nil, "1"))}, {1, external(series("a", nil, "2"))},
		}, []string{"a=2"}},
		{"selectors that mean the same are one metric", []report{
			{0, external(series("a", map[string]string{"x": "1", "y": "2"}, "1"))},
			{1, external(&setpointv1.ExternalMetric{Value: "2", Metric: &setpointv1.MetricIdentifier{Name: "a",
				Selector: &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{
					{Key: "y", Operator: "In", Values: []string{"2"}}, {Key: "x", Operator: "In", Values: []string{"1"}}}}}})},
		}, []string{"a=2"}},
		{"other selectors are other metrics", []report{
			{0, external(series("a", map[string]string{"x": "1"}, "1"))}, {1, external(series("a", nil, "2"))},
		}, []string{"a=1", "a=2"}},
		{"all pods of a metric are one metric, and some that went are kept by themselves", []report{
			{0, custom(value("a", "Pod", "p1", "1"), value("a", "Pod", "p2", "2"))}, {1, custom(value("a", "Pod", "p2", "3"), value("a", "Pod", "p3", "3"))},
		}, []string{"a/p1=1", "a/p2=3", "a/p3=3"}},
		{"a pod that is there again has one value", []report{
			{0, custom(value("a", "Pod", "p1", "1"))}, {1, custom(value("a", "Pod", "p2", "2"))}, {2, custom(value("a", "Pod", "p1", "3"))},
		}, []string{"a/p1=3", "a/p2=2"}},
		{"the metric of a namespace is its own, whatever name it is given", []report{
			{0, custom(value("a", "Namespace", "shop", "1"))}, {1, custom(value("a", "Namespace", "prod", "2"))},
		}, []string{"a/prod=2"}},
		{"each object has a metric of its own", []report{
			{0, custom(value("a", "Queue", "q1", "1"), value("a", "Queue", "q2", "2"))}, {1, custom(value("a", "Queue", "q1", "3"))},
		}, []string{"a/q1=3", "a/q2=2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &storedv1.Observation{}
			for _, r := range tt.reports {
				mustMerge(t, o, r.says, t0.Add(r.after*time.Second))
				// As it is stored between reports.
				b, err := proto.Marshal(o)
				fatal.If(t, err)
				o = &storedv1.Observation{}
				fatal.If(t, proto.Unmarshal(b, o))
			}
			if got := values(o); !slices.Equal(got, tt.want) {
				t.Errorf("known are %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMergeOfPods(t *testing.T) {
	pods := func(names ...string) (all []*setpointv1.Pod) {
		for _, name := range names {
			all = append(all, &setpointv1.Pod{Name: name})
		}
		return all
	}
	o := &storedv1.Observation{}
	mustMerge(t, o, &setpointv1.ReportObservationRequest{Pods: pods("a", "b"), Scale: &setpointv1.Scale{SpecReplicas: 2}}, t0)
	mustMerge(t, o, &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 3}}, t0.Add(time.Second))
	if len(o.GetPods()) != 2 || o.GetScale().GetSpecReplicas() != 3 || !o.GetPodsTime().AsTime().Equal(t0) {
		t.Errorf("a report without pods replaces them: %v", o)
	}
	mustMerge(t, o, &setpointv1.ReportObservationRequest{NoPods: true}, t0.Add(2*time.Second))
	if len(o.GetPods()) != 0 || !o.GetPodsTime().AsTime().Equal(t0.Add(2*time.Second)) {
		t.Errorf("no pods: %v", o)
	}
}

func TestForget(t *testing.T) {
	o := &storedv1.Observation{}
	mustMerge(t, o, &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{}, NoPods: true, ExternalMetrics: []*setpointv1.ExternalMetric{series("a", nil, "1")},
		CustomMetrics: []*setpointv1.CustomMetric{value("a", "Pod", "p", "1")}}, t0)
	mustMerge(t, o, &setpointv1.ReportObservationRequest{ExternalMetrics: []*setpointv1.ExternalMetric{series("b", nil, "2")}}, t0.Add(time.Second))
	forget(o, t0)
	if got := values(o); len(got) != 3 || o.GetScale() == nil || o.GetPodsTime() == nil {
		t.Errorf("forgotten too soon: left %v", o)
	}
	forget(o, t0.Add(time.Nanosecond))
	if got := values(o); !slices.Equal(got, []string{"b=2"}) || o.GetScale() != nil || o.GetScaleTime() != nil || o.GetPodsTime() != nil || o.GetPodMetricsTime() != nil {
		t.Errorf("left %v", o)
	}
}

// What of an observation is sent with a spec: a value that another report replaced counts for
// no Pods metric, and no series counts twice.
func TestSamples(t *testing.T) {
	pods := func(name string) *setpointv1.MetricSpec {
		return &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: ofMetric(name, nil)}}
	}
	object := func(name, apiVersion, kind, of string) *setpointv1.MetricSpec {
		return &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{Metric: ofMetric(name, nil),
			DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: kind, Name: of, ApiVersion: apiVersion}}}
	}
	external := func(name string, selector map[string]string) *setpointv1.MetricSpec {
		return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: ofMetric(name, selector)}}
	}
	labelled := func(name string, labels map[string]string, value string) *setpointv1.ExternalMetric {
		s := series(name, nil, value)
		s.Labels = labels
		return s
	}
	custom := func(all ...*setpointv1.CustomMetric) *setpointv1.ReportObservationRequest {
		return &setpointv1.ReportObservationRequest{CustomMetrics: all}
	}
	series1 := func(all ...*setpointv1.ExternalMetric) *setpointv1.ReportObservationRequest {
		return &setpointv1.ReportObservationRequest{ExternalMetrics: all}
	}
	foreign := value("a", "Pod", "p1", "9")
	foreign.DescribedObject.ApiVersion = "example.com/v1"
	red, blue := map[string]string{"color": "red"}, map[string]string{"color": "blue"}
	for _, tt := range []struct {
		name    string
		metrics []*setpointv1.MetricSpec
		reports []*setpointv1.ReportObservationRequest // a second apart
		want    []string
		missing int
	}{
		{"objects that are pods, each reported by itself", []*setpointv1.MetricSpec{object("a", "v1", "Pod", "p1"), object("a", "v1", "Pod", "p2")},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Pod", "p1", "1")), custom(value("a", "Pod", "p2", "2"))}, []string{"a/p1=1", "a/p2=2"}, 0},
		{"a Pods metric has the values of the last report", []*setpointv1.MetricSpec{pods("a")},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Pod", "p1", "1")), custom(value("a", "Pod", "p2", "2"))}, []string{"a/p2=2"}, 0},
		{"a Pods metric beside an Object metric of a pod", []*setpointv1.MetricSpec{pods("a"), object("a", "v1", "Pod", "p1")},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Pod", "p1", "1"), value("a", "Pod", "p2", "2"))}, []string{"a/p1=1", "a/p2=2"}, 0},
		{"a pod that is not among them", []*setpointv1.MetricSpec{object("a", "v1", "Pod", "p3")},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Pod", "p1", "1"))}, nil, 1},
		{"a Pod of another group", []*setpointv1.MetricSpec{pods("a"), object("a", "example.com/v1", "Pod", "p1")},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Pod", "p1", "1")), custom(foreign)}, []string{"a/p1=1", "a/p1=9"}, 0},
		{"a namespace by its own name", []*setpointv1.MetricSpec{object("a", "v1", "Namespace", "prod")},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Namespace", "shop", "1"))}, []string{"a/shop=1"}, 0},
		{"series with and without a selector, the latter later", []*setpointv1.MetricSpec{external("q", red)},
			[]*setpointv1.ReportObservationRequest{series1(series("q", red, "1")), series1(labelled("q", red, "2"), labelled("q", blue, "3"))}, []string{"q=2"}, 0},
		{"series with and without a selector, the former later", []*setpointv1.MetricSpec{external("q", red), external("q", blue)},
			[]*setpointv1.ReportObservationRequest{series1(labelled("q", red, "2"), labelled("q", blue, "3")), series1(series("q", red, "1"))}, []string{"q=1", "q=3"}, 0},
		{"a series of two metrics of the spec that mean the same", []*setpointv1.MetricSpec{external("q", nil), external("q", map[string]string{})},
			[]*setpointv1.ReportObservationRequest{series1(labelled("q", red, "2"))}, []string{"q=2"}, 0},
		{"what nobody asks for", []*setpointv1.MetricSpec{external("q", nil)},
			[]*setpointv1.ReportObservationRequest{custom(value("a", "Pod", "p1", "1"))}, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &storedv1.Observation{}
			for i, r := range tt.reports {
				mustMerge(t, o, r, t0.Add(time.Duration(i)*time.Second))
			}
			request := &setpointv1.RecommendRequest{Spec: &setpointv1.HorizontalPodAutoscalerSpec{Metrics: tt.metrics}}
			fatal.If(t, (ages{t0.Add(2 * time.Second), time.Minute}).samples(request, &setpointv1.TargetSpec{Spec: request.GetSpec()}, o, nil, cost.BudgetOf(proto.Size(o))))
			got := values(&storedv1.Observation{CustomMetrics: []*storedv1.CustomMetricValues{{Values: request.GetCustomMetrics()}},
				ExternalMetrics: []*storedv1.ExternalMetricSeries{{Series: request.GetExternalMetrics()}}})
			if !slices.Equal(got, tt.want) || len(request.GetMetricErrors()) != tt.missing {
				t.Errorf("sent are %q and %v, want %q and %d errors", got, request.GetMetricErrors(), tt.want, tt.missing)
			}
		})
	}
}

// Pods come and go: the number of stored values of old pods is limited.
func TestPodsThatWentAreBounded(t *testing.T) {
	o := &storedv1.Observation{}
	for i := range 100 {
		mustMerge(t, o, &setpointv1.ReportObservationRequest{CustomMetrics: []*setpointv1.CustomMetric{value("a", "Pod", fmt.Sprint("p", i), "1")}}, t0.Add(time.Duration(i)*time.Second))
	}
	if got := values(o); len(got) != mostPods+1 || !slices.Contains(got, "a/p99=1") || !slices.Contains(got, "a/p98=1") {
		t.Errorf("%d are kept: %q", len(got), got)
	}
}
