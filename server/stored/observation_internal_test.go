package stored

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
		{"all pods of a metric are one metric", []report{
			{0, custom(value("a", "Pod", "p1", "1"), value("a", "Pod", "p2", "2"))}, {1, custom(value("a", "Pod", "p3", "3"))},
		}, []string{"a/p3=3"}},
		{"each object has a metric of its own", []report{
			{0, custom(value("a", "Queue", "q1", "1"), value("a", "Queue", "q2", "2"))}, {1, custom(value("a", "Queue", "q1", "3"))},
		}, []string{"a/q1=3", "a/q2=2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &storedv1.Observation{}
			for _, r := range tt.reports {
				merge(o, r.says, t0.Add(r.after*time.Second))
				// As it is stored between reports.
				b, err := proto.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				o = &storedv1.Observation{}
				if err := proto.Unmarshal(b, o); err != nil {
					t.Fatal(err)
				}
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
	merge(o, &setpointv1.ReportObservationRequest{Pods: pods("a", "b"), Scale: &setpointv1.Scale{SpecReplicas: 2}}, t0)
	merge(o, &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 3}}, t0.Add(time.Second))
	if len(o.GetPods()) != 2 || o.GetScale().GetSpecReplicas() != 3 || !o.GetPodsTime().AsTime().Equal(t0) {
		t.Errorf("a report without pods replaces them: %v", o)
	}
	merge(o, &setpointv1.ReportObservationRequest{NoPods: true}, t0.Add(2*time.Second))
	if len(o.GetPods()) != 0 || !o.GetPodsTime().AsTime().Equal(t0.Add(2*time.Second)) {
		t.Errorf("no pods: %v", o)
	}
}

func TestForget(t *testing.T) {
	o := &storedv1.Observation{}
	merge(o, &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{}, NoPods: true, ExternalMetrics: []*setpointv1.ExternalMetric{series("a", nil, "1")},
		CustomMetrics: []*setpointv1.CustomMetric{value("a", "Pod", "p", "1")}}, t0)
	merge(o, &setpointv1.ReportObservationRequest{ExternalMetrics: []*setpointv1.ExternalMetric{series("b", nil, "2")}}, t0.Add(time.Second))
	forget(o, t0)
	if got := values(o); len(got) != 3 || o.GetScale() == nil || o.GetPodsTime() == nil {
		t.Errorf("forgotten too soon: left %v", o)
	}
	forget(o, t0.Add(time.Nanosecond))
	if got := values(o); !slices.Equal(got, []string{"b=2"}) || o.GetScale() != nil || o.GetScaleTime() != nil || o.GetPodsTime() != nil || o.GetPodMetricsTime() != nil {
		t.Errorf("left %v", o)
	}
}
