package playground_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/playground"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/truth"
)

// chunkOf is a chunk with a decision at each instant, in seconds.
func chunkOf(metric func(at int64) fleet.MetricDigest, instants ...int64) []byte {
	var e truth.Encoder
	for _, at := range instants {
		e.Step(&truth.Step{
			At: at * 1e9, Generation: -1, Metrics: []fleet.MetricDigest{metric(at)}, Current: 2, Desired: int32(at), StatusCurrent: 2, StatusDesired: int32(at),
			Basis: recommender.Basis{Bounded: true, Min: int32(at), Max: int32(10 * at), Decided: true, Proposal: int32(3 * at)},
		})
	}
	return truth.Seal(e.Take())
}

// What the service kept of a target is a load and a count, with its bounds and proposals.
func TestARecordingOfTheService(t *testing.T) {
	t.Parallel()
	perPod := func(requests int64) func(int64) fleet.MetricDigest {
		return func(at int64) (m fleet.MetricDigest) {
			m.Sums.Ready = recommender.GroupSums{Pods: 2, Usage: 100 * at, Requests: requests}
			return m
		}
	}
	type series = [][2]float64
	for _, c := range []struct {
		name   string
		chunks [][]byte
		load   series
	}{
		{"usage, newest chunk first", [][]byte{chunkOf(perPod(0), 3, 4), chunkOf(perPod(0), 2)}, series{{2000, .2}, {3000, .3}, {4000, .4}}},
		{"a share of requests", [][]byte{chunkOf(perPod(2000), 2, 3, 4)}, series{{2000, 20}, {3000, 30}, {4000, 40}}},
		{"a total", [][]byte{chunkOf(func(at int64) fleet.MetricDigest {
			return fleet.MetricDigest{Total: fleet.Total{Sum: 1500 * at, High: 1500 * at, Series: 1}}
		}, 2, 3, 4)}, series{{2000, 3}, {3000, 4.5}, {4000, 6}}},
		{"an error, and a chunk that can't be read", [][]byte{[]byte("x"), chunkOf(func(at int64) (m fleet.MetricDigest) {
			if m = perPod(0)(at); at == 3 {
				m.Error = "away"
			}
			return m
		}, 2, 3, 4)}, series{{2000, .2}, {4000, .4}}},
	} {
		text, err := json.Marshal(playground.Question{Ask: "recorded", Chunks: c.chunks})
		fatal.If(t, err)
		var got struct {
			Recorded *struct {
				Load, Counts       series
				Min, Max, Proposal int32
			}
		}
		if err := json.Unmarshal(playground.Answer(text), &got); err != nil || got.Recorded == nil {
			t.Fatalf("%s: %v %s", c.name, err, playground.Answer(text))
		}
		r := got.Recorded
		if !reflect.DeepEqual(r.Load, c.load) || !reflect.DeepEqual(r.Counts, series{{2000, 2}, {3000, 3}, {4000, 4}}) || r.Min != 2 || r.Max != 40 || r.Proposal != 12 {
			t.Errorf("%s: %+v", c.name, *r)
		}
	}
	many, err := json.Marshal(playground.Question{Ask: "recorded", Chunks: make([][]byte, playground.MaxChunks+1)})
	fatal.If(t, err)
	if got := string(playground.Answer(many)); !strings.Contains(got, "more than 1000 chunks") {
		t.Error(got)
	}
}

// With another first metric, or another kind of target, what was read before is no load of what is tried.
func TestTheLoadIsThatOfOneMetric(t *testing.T) {
	t.Parallel()
	target := func(utilization int32) *setpointv1.MetricTarget {
		return &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &utilization}
	}
	cpu := func(percent int32) *setpointv1.MetricSpec {
		return &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: target(percent)}}
	}
	average := cpu(0)
	average.Resource.Target = &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")}
	queue := &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: "queue", Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")},
	}}
	other := proto.Clone(queue).(*setpointv1.MetricSpec)
	other.External.Metric.Name = "other"
	for name, tt := range map[string]struct {
		before, after *setpointv1.MetricSpec
		want          int
	}{
		"another number":  {cpu(60), cpu(70), 4},
		"another metric":  {cpu(60), queue, 2},
		"another name":    {other, queue, 2},
		"another kind":    {cpu(60), average, 2},
		"no text of both": {nil, nil, 4},
	} {
		var e truth.Encoder
		for at := int64(1); at <= 4; at++ {
			metric, hash := tt.before, uint64(1)
			if at > 2 {
				metric, hash = tt.after, 2
			}
			var text []byte
			if metric != nil && at%2 == 1 { // it is beside the first decision with it
				var err error
				text, err = proto.Marshal(&setpointv1.SpecInUse{Hash: "h", Spec: &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(3)), MaxReplicas: 9, Metrics: []*setpointv1.MetricSpec{metric, queue}}})
				fatal.If(t, err)
			}
			e.Step(&truth.Step{At: at * 1e9, Before: (at - 1) * 1e9, Generation: -1, Spec: hash, SpecText: text, Metrics: []fleet.MetricDigest{{Total: fleet.Total{Sum: 1000, High: 1000, Series: 1}}, {}}})
		}
		question, err := json.Marshal(playground.Question{Ask: "recorded", Chunks: [][]byte{truth.Seal(e.Take())}})
		fatal.If(t, err)
		var got struct {
			Recorded struct{ Load, Counts [][2]float64 }
		}
		if err := json.Unmarshal(playground.Answer(question), &got); err != nil || len(got.Recorded.Load) != tt.want || len(got.Recorded.Counts) != 4 {
			t.Errorf("%s: %v, a load of %v, want %d", name, err, got.Recorded.Load, tt.want)
		}
	}
}

// A count that was decided was there only if the next decision found it: a shadow's changes nothing, and a change may fail.
func TestTheRecordedCounts(t *testing.T) {
	t.Parallel()
	var e truth.Encoder
	for _, s := range []struct {
		at, before       int64
		current, desired int32
	}{{1, 0, 3, 5}, {2, 1, 5, 7}, {3, 2, 5, 8}, {4, 3, 6, 8}, {9, 8, 6, 9}, {10, 9, 6, 6}} {
		var problem truth.Problem
		if s.at == 10 {
			problem = truth.Problem{Kind: truth.ScaleProblem, Message: "away"}
		}
		e.Step(&truth.Step{At: s.at * 1e9, Before: s.before * 1e9, Generation: -1, Problem: problem, Current: s.current, Desired: s.desired, StatusCurrent: s.current, StatusDesired: s.desired})
	}
	text, err := json.Marshal(playground.Question{Ask: "recorded", Chunks: [][]byte{truth.Seal(e.Take())}})
	fatal.If(t, err)
	var got struct {
		Recorded struct{ Counts [][2]float64 }
	}
	want := [][2]float64{{1000, 5}, {2000, 5}, {3000, 5}, {4000, 8}, {9000, 9}, {10000, 6}} // neither a gap nor a count that could not be read shows it
	if err := json.Unmarshal(playground.Answer(text), &got); err != nil || !reflect.DeepEqual(got.Recorded.Counts, want) {
		t.Errorf("%v, got %v, want %v", err, got.Recorded.Counts, want)
	}
}

// Bounds are told where they change, and are unknown between decisions that are not both recorded.
func TestTheRecordedBounds(t *testing.T) {
	t.Parallel()
	var e truth.Encoder
	for _, s := range []struct {
		at, before int64
		min, max   int32
	}{{1, 0, 2, 10}, {2, 1, 2, 10}, {3, 2, 3, 12}, {6, 5, 3, 12}, {7, 6, 0, 0}, {8, 7, 4, 12}} {
		e.Step(&truth.Step{At: s.at * 1e9, Before: s.before * 1e9, Generation: -1, Basis: recommender.Basis{Bounded: s.max > 0, Min: s.min, Max: s.max}})
	}
	text, err := json.Marshal(playground.Question{Ask: "recorded", Chunks: [][]byte{truth.Seal(e.Take())}})
	fatal.If(t, err)
	var got struct {
		Recorded struct{ Bounds [][]float64 }
	}
	want := [][]float64{{1000, 2, 10}, {3000, 3, 12}, {3001}, {6000, 3, 12}, {7000}, {8000, 4, 12}}
	if err := json.Unmarshal(playground.Answer(text), &got); err != nil || !reflect.DeepEqual(got.Recorded.Bounds, want) {
		t.Errorf("%v, got %v, want %v", err, got.Recorded.Bounds, want)
	}
}
