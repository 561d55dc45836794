package stored

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// What tenants may have cached takes no more than a fixed part of the memory, whatever their metrics are called, and
// whatever else their histories have.
func TestOutcomesTakeBoundedMemory(t *testing.T) { //nolint:paralleltest // It measures memory.
	targets, err := New(memory.New(memory.Options{}), Options{})
	fatal.If(t, err)
	large := func() *outcome {
		o := &outcome{recommendation: &setpointv1.Recommendation{Status: &setpointv1.HorizontalPodAutoscalerStatus{}}}
		for i := range 66 {
			o.recommendation.Status.CurrentMetrics = append(o.recommendation.Status.CurrentMetrics, &setpointv1.MetricStatus{Type: "External", External: &setpointv1.ExternalMetricStatus{
				Metric:  &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i), Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{"a": "b", "c": "d", "e": "f", "g": "h"}}},
				Current: &setpointv1.MetricValueStatus{AverageValue: proto.String("10")},
			}})
		}
		if size := proto.Size(o.recommendation); size > mostCached || size < mostCached*9/10 {
			t.Fatalf("it has %d bytes", size)
		}
		return o
	}
	inUse := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := inUse()
	for i := range 3000 {
		by := asker{Key: store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint("t", i)}}
		targets.remember(by, make([]store.Record, 2), 0, large())
		targets.failures.Put(by, &failure{outcome: large()})
	}
	if used := inUse() - before; used > 3*mostOutcomes {
		t.Errorf("outcomes and failures take %d MiB, want at most %d", used>>20, 3*mostOutcomes>>20)
	}
	known := record.Record{History: recommender.History{Seen: true, Updated: t0}}
	known.Last.At, known.Last.Reason = t0.UnixNano(), "a reason"
	known.Answers = []record.Answer{{RequestID: "r", At: t0.UnixNano(), Explanation: bytes.Repeat([]byte("e"), 60<<10)}}
	value := record.Append(nil, &known)
	before = inUse()
	for i := range 3000 {
		read, err := record.Decode(value)
		fatal.If(t, err)
		by := asker{Key: store.Key{Cluster: "c", Namespace: "long", Target: fmt.Sprint("t", i)}}
		targets.remember(by, []store.Record{{}, {Value: value}}, 0, newOutcome(last(&read), "", &setpointv1.TargetSpec{}))
	}
	if used := int64(inUse() - before); used > mostOutcomes {
		t.Errorf("outcomes of long histories take %d MiB more, want at most %d", used>>20, mostOutcomes>>20)
	}
	runtime.KeepAlive(targets)
}
