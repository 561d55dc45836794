package cost_test

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/cost"
)

var (
	tables = cost.Of((&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor())
	batch  = cost.Of((&setpointv1.BatchRecommendRequest{}).ProtoReflect().Descriptor())
)

// limits are small, so that few elements are too many.
var limits = cost.Limits{Pods: 3, Metrics: 2, Batch: 2}

func encoded(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.Marshal(m)
	fatal.If(tb, err)
	return data
}

// field is one encoded field that has a length.
func field(number protowire.Number, content ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func times(n int, b []byte) []byte { return []byte(strings.Repeat(string(b), n)) }

// usages are so many quantities of different resources.
func usages(n int) map[string]string {
	m := make(map[string]string)
	for i := range n {
		m["r"+strconv.Itoa(i)] = "1"
	}
	return m
}

// A list is refused at the first element beyond the limit, wherever it is.
func TestListsThatAreTooLong(t *testing.T) {
	t.Parallel()
	pods := func(n int) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{Pods: make([]*setpointv1.Pod, n)}
	}
	samples := func(n int) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{PodMetrics: make([]*setpointv1.PodMetrics, n)}
	}
	metrics := func(n int) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{Spec: &setpointv1.HorizontalPodAutoscalerSpec{Metrics: make([]*setpointv1.MetricSpec, n)}}
	}
	usage := func(n int) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{PodMetrics: []*setpointv1.PodMetrics{{}, {Containers: []*setpointv1.ContainerMetrics{{}, {}, {Usage: usages(n)}}}}}
	}
	containers := func(n int) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{Pods: []*setpointv1.Pod{{}, {Containers: make([]*setpointv1.Container, n)}}}
	}
	values := func(n int) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{MetricErrors: []*setpointv1.MetricError{{Selector: &setpointv1.LabelSelector{
			MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Values: make([]string, n)}},
		}}}}
	}
	many := func(n int) proto.Message {
		return &setpointv1.BatchRecommendRequest{Requests: make([]*setpointv1.RecommendRequest, n)}
	}
	for name, c := range map[string]struct {
		of        func(n int) proto.Message
		most      int
		path, key string
		batch     bool
	}{
		"pods":       {of: func(n int) proto.Message { return pods(n) }, most: 3, path: "pods", key: "maxPods"},
		"samples":    {of: func(n int) proto.Message { return samples(n) }, most: 6, path: "podMetrics", key: "maxPods"},
		"metrics":    {of: func(n int) proto.Message { return metrics(n) }, most: 2, path: "spec.metrics", key: "maxMetrics"},
		"batch":      {of: many, most: 2, path: "requests", key: "maxBatch", batch: true},
		"containers": {of: func(n int) proto.Message { return containers(n) }, most: 1000, path: "pods[1].containers"},
		"map":        {of: func(n int) proto.Message { return usage(n) }, most: 256, path: "podMetrics[1].containers[2].usage"},
		"values": {of: func(n int) proto.Message { return values(n) }, most: 1000,
			path: "metricErrors[0].selector.matchExpressions[0].values"},
		"in a batch": {of: func(n int) proto.Message {
			return &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{{}, pods(n)}}
		}, most: 3, path: "requests[1].pods", key: "maxPods", batch: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := tables
			if c.batch {
				m = batch
			}
			if e := m.Wire(encoded(t, c.of(c.most)), limits, nil); e != nil {
				t.Errorf("%d are too many: %s", c.most, e.Path())
			}
			e := m.Wire(encoded(t, c.of(c.most+1)), limits, nil)
			if e == nil {
				t.Fatalf("%d are not too many", c.most+1)
			}
			if e.Kind != cost.Length || e.Path() != c.path || e.Limit != c.key || e.Most != c.most {
				t.Errorf("kind %d, %q, limit %q, at most %d; want %q, %q, %d", e.Kind, e.Path(), e.Limit, e.Most, c.path, c.key, c.most)
			}
		})
	}
}

// Whatever is made of a message is spent, however its sender spreads it over fields.
func TestMemoryIsSpentOnWhatIsMade(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	enough := cost.Limits{Pods: most, Metrics: most, Batch: most}
	spent := func(data []byte) int {
		// The least budget that is enough, found by halves.
		low, high := 0, 1<<34
		for low < high {
			mid := (low + high) / 2
			budget := &cost.Budget{}
			budget.Grant(mid)
			if tables.Wire(data, enough, budget) == nil {
				high = mid
			} else {
				low = mid + 1
			}
		}
		return low
	}
	empty := spent(nil)
	for name, c := range map[string]struct {
		data   []byte
		atMost int // beyond that of an empty message; at least is a third of that
	}{
		"empty pods":                   {times(1000, field(6)), 1000 * 500},
		"empty samples":                {times(1000, field(7)), 1000 * 300},
		"empty containers in pods":     {times(100, field(6, times(10, field(7))...)), 100*500 + 1000*250},
		"empty usages":                 {times(100, field(7, field(4, field(2)...)...)), 100 * 1200},
		"a name":                       {field(1, times(1<<16, []byte("x"))...), 2 << 16},
		"fields that are not known":    {times(1000, protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)), 1000 * 12},
		"fields of another kind":       {times(1000, protowire.AppendVarint(protowire.AppendTag(nil, 6, protowire.VarintType), 1)), 1000 * 9},
		"groups, that protobuf had":    {times(1000, protowire.AppendTag(protowire.AppendTag(nil, 6, protowire.StartGroupType), 6, protowire.EndGroupType)), 1000 * 9},
		"a spec again and again":       {times(1000, field(2)), 1000 * 200},
		"metrics in parts of the spec": {times(1000, field(2, field(4)...)), 1000 * 500},
	} {
		got := spent(c.data) - empty
		if got > c.atMost || got < c.atMost/3 {
			t.Errorf("%s: %d bytes, want at most %d and at least a third", name, got, c.atMost)
		}
	}
}

// What is cut off, or no message at all, is looked at as far as it goes: decoding refuses
// it.
func TestInvalidMessages(t *testing.T) {
	t.Parallel()
	whole := encoded(t, &setpointv1.RecommendRequest{
		Target: "clusters/c/namespaces/n/targets/t", Pods: []*setpointv1.Pod{{Name: "a", Containers: []*setpointv1.Container{{Requests: usages(3)}}}},
	})
	for n := range whole {
		if e := tables.Wire(whole[:n], limits, cost.BudgetOf(n)); e != nil {
			t.Errorf("of %d bytes of %d: %s", n, len(whole), e.Path())
		}
	}
	text, err := protojson.Marshal(&setpointv1.RecommendRequest{Pods: []*setpointv1.Pod{{Name: "\"\\", Containers: []*setpointv1.Container{{Requests: usages(3)}}}}})
	fatal.If(t, err)
	for n := range text {
		if e := tables.JSON(text[:n], cost.BudgetOf(n)); e != nil {
			t.Errorf("of %s: %s", text[:n], e.Path())
		}
	}
	for _, text := range []string{"", "null", "[]", "1", "{", `{"pods":`, `{"pods":1}`, `{"pods":[1,{}]}`, `{"pods":{}}`, `{"pods":[{"containers":[}]}`, `{"\`, `{"a":"\`, "{]}"} {
		if e := tables.JSON([]byte(text), cost.BudgetOf(len(text))); e != nil {
			t.Errorf("of %s: %s", text, e.Path())
		}
	}
}

// JSON is stopped where it would take too much memory, by either name of a field.
func TestMemoryOfJSON(t *testing.T) {
	t.Parallel()
	for text, path := range map[string]string{
		`{"pods":[` + strings.Repeat("{},", 1<<20) + `{}]}`:                                                    "pods[",
		`{"pod_metrics":[` + strings.Repeat("{},", 1<<20) + `{}]}`:                                             "podMetrics[",
		`{ "pods" : [ {"containers":[` + strings.Repeat("{},", 1<<20) + `{}]}]}`:                               "pods[0].containers[",
		`{"podMetrics":[{"containers":[{"usage":{}},` + strings.Repeat(`{"usage":{"":""}},`, 1<<18) + `{}]}]}`: "podMetrics[0].containers[",
	} {
		e := tables.JSON([]byte(text), cost.BudgetOf(len(text)))
		if e == nil || e.Kind != cost.Memory || !strings.HasPrefix(e.Path(), path) {
			t.Errorf("%.40s...: %+v, want memory at %q", text, e, path)
		}
	}
	deep := strings.Repeat(`{"a":`, 1<<20)
	if e := tables.JSON([]byte(deep), cost.BudgetOf(len(deep))); e != nil {
		t.Errorf("depth: %s", e.Path())
	}
}

// A budget that is spent stays so, and one that is nil never is.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := cost.BudgetOf(0)
	for name, spend := range map[string]func(int) bool{
		"memory": b.Memory, "steps": b.Steps, "terms": b.Terms, "copies": b.Copies, "cells": b.Cells,
	} {
		if !spend(1) || spend(1<<40) || spend(1) {
			t.Errorf("%s: a little must do, much must not, nor anything after it", name)
		}
	}
	b = cost.BudgetOf(0)
	if got := b.Pods(1 << 30); got < 20_000 || got > 1<<20 {
		t.Errorf("%d pods are granted", got)
	}
	if got := b.Pods(1); got != 0 {
		t.Errorf("%d more pods are granted", got)
	}
	var none *cost.Budget
	if !none.Memory(1<<60) || !none.Steps(1<<60) || none.Pods(1<<30) != 1<<30 {
		t.Error("a nil budget is bounded")
	}
}

// FuzzWire looks over whatever bytes are, as both encodings. A message that it lets
// through has lists that are not too long.
func FuzzWire(f *testing.F) {
	f.Add(encoded(f, &setpointv1.RecommendRequest{Pods: []*setpointv1.Pod{{}, {}, {}, {}}}))
	f.Add(times(9, field(7, field(4, field(2)...)...)))
	f.Add(protowire.AppendTag(nil, 6, protowire.StartGroupType))
	f.Add([]byte(`{"pods":[{"name":"a\"","containers":[{"requests":{"cpu":"1"}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tables.JSON(data, cost.BudgetOf(len(data)))
		e := tables.Wire(data, limits, cost.BudgetOf(len(data)))
		var req setpointv1.RecommendRequest
		if proto.Unmarshal(data, &req) != nil {
			return
		}
		// A spec may come in parts, each with metrics: those are counted after decoding.
		if tooLong := len(req.GetPods()) > limits.Pods || len(req.GetPodMetrics()) > 2*limits.Pods; tooLong && e == nil {
			t.Errorf("%d pods and %d samples are let through", len(req.GetPods()), len(req.GetPodMetrics()))
		}
		if e != nil && e.Path() == "" && len(data) < 1<<16 {
			t.Errorf("refused without a path: %+v", e)
		}
	})
}
