package decision

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// TestABatchKeepsTheSumsOfEachTarget decides targets that differ in what their pods use together, and some of them twice:
// each has what it was asked.
func TestABatchKeepsTheSumsOfEachTarget(t *testing.T) {
	const targetsOfBatch, steps = 5, 2
	options := DefaultOptions()
	options.Clock, options.Log = time.Now, zap.NewNop()
	engine := memory.New(memory.Options{})
	targets := New(engine, &options, func(bool) {}, t.Context())
	targets.Decisions = decisionlog.New(nil, nil, options.Log, 0)
	defer targets.Decisions.Close()
	targets.Shares = shares.New(engine, options.Shares(), nil)
	targets.Recordings = recordings.New(recordings.Options{Bytes: recordings.DayBytes, Age: time.Hour, Buffer: 1 << 20}, engine, func(log store.Log) *decisionlog.Log {
		return decisionlog.New(log, nil, options.Log, 0)
	})
	defer targets.Recordings.Close()
	now := time.Now()
	keyed := func(i int) store.Key { return store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint("t", i)} }
	usage := func(i, step int) int64 { return int64(100*(i+1) + step) }
	batch := &Batch{}
	for step := range steps {
		for i := range targetsOfBatch {
			utilization := int32(60)
			in := &recommender.Input{Namespace: "n", Options: recommender.DefaultOptions(), Scale: recommender.Scale{SpecReplicas: 1, StatusReplicas: 1}}
			in.Spec = recommender.Spec{MinReplicas: 1, MaxReplicas: 20, Metrics: []recommender.MetricSpec{{
				Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization},
			}}}
			in.Pods = []recommender.Pod{{
				Name: "p", Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue, StartTime: now.Add(-time.Hour), ReadyTransition: now.Add(-time.Hour),
				Containers: []recommender.Container{{Name: "web", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: quantity.FromMilli(500)}}}},
			}}
			in.PodMetrics = []recommender.PodMetrics{{
				Pod: "p", Timestamp: now, Window: 30 * time.Second,
				Containers: []recommender.ContainerMetrics{{Name: "web", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: usage(i, step)}}}},
			}}
			batch.Jobs = append(batch.Jobs, &Job{Request: Request{Key: keyed(i), Now: now.Add(time.Duration(step) * time.Second), SpecHash: 1, Input: in}})
		}
	}
	targets.RecommendAll(t.Context(), batch)
	for i := range targetsOfBatch {
		chunks, _, err := targets.Recordings.Read(t.Context(), keyed(i), "", 0, 10)
		if err != nil || len(chunks) != 1 {
			t.Fatalf("target %d: %d chunks, %v", i, len(chunks), err)
		}
		kept, _, err := truth.Open(chunks[0])
		if err != nil || len(kept) != steps {
			t.Fatalf("target %d: %d decisions, %v", i, len(kept), err)
		}
		for step := range kept {
			if got, want := kept[step].Metrics[0].Sums.Ready.Usage, usage(i, step); got != want {
				t.Errorf("target %d, decision %d: its pods used %d, kept is %d", i, step, want, got)
			}
		}
	}
}
