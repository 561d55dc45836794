package conversion

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
)

// read reads a status and fails the test if it can't be.
func read(t *testing.T, s *setpointv1.HorizontalPodAutoscalerStatus) *recommender.Status {
	t.Helper()
	r := &reader{}
	out := r.status(s)
	if len(r.violations) > 0 {
		t.Fatalf("refused: %v\nof %s", r.violations, protojson.Format(s))
	}
	return out
}

func TestAStatusInCanonicalFormIsPrintedAsItWasRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`,
		`{"currentReplicas": 3, "desiredReplicas": 5}`,
		`{"observedGeneration": "0", "lastScaleTime": "2026-01-01T00:00:00.123456789Z"}`,
		`{"currentMetrics": [
			{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "450m", "averageUtilization": 90}}},
			{"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "110Mi", "averageUtilization": 0}}},
			{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "current": {"averageValue": "1Gi"}}},
			{"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"verb": "GET", "a": "b"}}}, "current": {"averageValue": "12500m"}}},
			{"type": "Object", "object": {"metric": {"name": "hits", "selector": {}}, "current": {"value": "2k"}, "describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"}}},
			{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchExpressions": [{"key": "q", "operator": "In", "values": ["b", "a"]}, {"key": "z", "operator": "Exists"}]}}, "current": {"value": "0"}}},
			{"type": "External", "external": {"metric": {"name": "queue"}, "current": {"averageValue": "-1"}}},
			{"type": ""}
		]}`,
		`{"conditions": [
			{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
			{"type": "ScaledToZero", "status": "Unknown"}
		]}`,
	} {
		s := &setpointv1.HorizontalPodAutoscalerStatus{}
		fatal.If(t, protojson.Unmarshal([]byte(text), s))
		if got := Status(read(t, s)); !proto.Equal(got, s) {
			t.Errorf("got %s\nwant %s", protojson.Format(got), protojson.Format(s))
		}
	}
}

func TestAStatusIsReadAsItWasPrinted(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		want := randomStatus(random)
		got := read(t, Status(want))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v\nby way of %s", got, want, protojson.Format(Status(want)))
		}
	}
}

// randomStatus returns a status as the recommender makes them.
func randomStatus(r *rand.Rand) *recommender.Status {
	s := &recommender.Status{CurrentReplicas: randomInt32(r), DesiredReplicas: randomInt32(r), LastScaleTime: randomTime(r)}
	if r.IntN(4) == 0 {
		s.ObservedGeneration = new(r.Int64())
	}
	for range r.IntN(4) {
		s.CurrentMetrics = append(s.CurrentMetrics, randomMetric(r))
	}
	for range r.IntN(5) {
		s.Conditions = append(s.Conditions, recommender.Condition{
			Type: randomWord(r), Status: randomWord(r), Reason: randomWord(r), Message: randomWord(r), LastTransitionTime: randomTime(r),
		})
	}
	return s
}

func randomMetric(r *rand.Rand) recommender.MetricStatus {
	types := []recommender.MetricType{
		"", recommender.ResourceMetric, recommender.ContainerResourceMetric, recommender.PodsMetric, recommender.ObjectMetric, recommender.ExternalMetric,
	}
	m := recommender.MetricStatus{Type: types[r.IntN(len(types))]}
	switch m.Type {
	case "":
		return m
	case recommender.ContainerResourceMetric:
		m.Container = randomWord(r)
		fallthrough
	case recommender.ResourceMetric:
		m.Resource = []string{"cpu", "memory", "ephemeral-storage"}[r.IntN(3)]
	case recommender.ObjectMetric:
		m.DescribedObject = recommender.ObjectReference{Kind: randomWord(r), Name: randomWord(r) + "x", APIVersion: randomWord(r)}
		fallthrough
	default:
		m.Metric = recommender.MetricIdentifier{Name: randomWord(r), Selector: randomSelector(r)}
	}
	v := recommender.MetricValue{Binary: m.Resource == "memory"}
	if v.HasValue = r.IntN(2) == 0; v.HasValue {
		v.Value = randomMilli(r)
	}
	if v.HasAverageValue = r.IntN(2) == 0; v.HasAverageValue {
		v.AverageValue = randomMilli(r)
	}
	if v.HasAverageUtilization = r.IntN(2) == 0; v.HasAverageUtilization {
		v.AverageUtilization = randomInt32(r)
	}
	m.Current = v
	return m
}

func randomSelector(r *rand.Rand) *recommender.LabelSelector {
	if r.IntN(3) == 0 {
		return nil
	}
	s := &recommender.LabelSelector{}
	for i := range r.IntN(3) {
		s.MatchLabels = append(s.MatchLabels, recommender.Label{Key: fmt.Sprint("key", i), Value: randomWord(r)}) // sorted
	}
	for range r.IntN(3) {
		e := recommender.LabelRequirement{Key: randomWord(r), Operator: randomWord(r)}
		for range r.IntN(3) {
			e.Values = append(e.Values, randomWord(r))
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func randomWord(r *rand.Rand) string {
	return []string{"", "a", "True", "AbleToScale", "ö", "a b", `"`, "a/b.c"}[r.IntN(8)]
}

func randomInt32(r *rand.Rand) int32 {
	return []int32{0, 1, 3, 100, math.MaxInt32, r.Int32()}[r.IntN(6)]
}

// randomMilli returns milli-units of every size that prints and parses back: at the
// far end below zero Kubernetes reads what it printed as something else.
func randomMilli(r *rand.Rand) int64 {
	n := []int64{0, 1, 1000, 1024 * 1000, math.MaxInt64, math.MaxInt64 - 1, r.Int64() >> r.IntN(63), 1000 * (r.Int64() >> (11 + r.IntN(50)))}[r.IntN(8)]
	if r.IntN(3) == 0 {
		n = -(n >> 4)
	}
	return n
}

func randomTime(r *rand.Rand) time.Time {
	if r.IntN(3) == 0 {
		return time.Time{}
	}
	return time.Unix(r.Int64N(4e9)-1e9, r.Int64N(1e9)).UTC()
}
