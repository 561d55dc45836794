package decision

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
	engine := memory.New(memory.Options{})
	targets := recorded(t, engine, engine, &options)
	now := time.Now()
	keyed := func(i int) store.Key { return store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint("t", i)} }
	usage := func(i, step int) int64 { return int64(100*(i+1) + step) }
	batch := &Batch{}
	for step := range steps {
		for i := range targetsOfBatch {
			in := usedOf(usage(i, step), now)
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

// recorded returns targets of an engine that keep what they are asked in another one.
func recorded(t *testing.T, engine, kept store.Store, options *Options) *Targets {
	t.Helper()
	options.Clock, options.Log = time.Now, zap.NewNop()
	targets := New(engine, options, func(bool) {}, t.Context())
	targets.Decisions = decisionlog.New(nil, nil, options.Log, 0)
	t.Cleanup(targets.Decisions.Close)
	targets.Shares = shares.New(engine, options.Shares(), nil)
	targets.Recordings = recordings.New(recordings.Options{Bytes: recordings.DayBytes, Age: time.Hour, Buffer: 1 << 20}, kept, func(log store.Log) *decisionlog.Log {
		return decisionlog.New(log, nil, options.Log, 0)
	})
	t.Cleanup(targets.Recordings.Close)
	return targets
}

// usedOf asks about one pod, which uses so many millicores and should use 300.
func usedOf(milli int64, now time.Time) *recommender.Input {
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
		Containers: []recommender.ContainerMetrics{{Name: "web", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: milli}}}},
	}}
	return in
}

// goneStore is a store that can go away.
type goneStore struct {
	store.Store
	gone bool
}

func (s *goneStore) Load(ctx context.Context, key store.Key) (store.Record, error) {
	if s.gone {
		return store.Record{}, store.ErrUnavailable
	}
	return s.Store.Load(ctx, key)
}

// What is reported while the store is away is kept, too: else a recording would have a change as made that was not.
func TestAReportWithoutTheStoreIsKept(t *testing.T) {
	options := DefaultOptions()
	options.HoldDown, options.CacheBytes = true, 1<<20
	kept := memory.New(memory.Options{})
	engine := &goneStore{Store: kept}
	targets := recorded(t, engine, kept, &options)
	now := time.Now()
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	j := &Job{Request: Request{Target: key.String(), Key: key, Now: now, SpecHash: 1, Input: usedOf(900, now)}}
	j.Input.ID = recommender.ID{1}
	targets.Recommend(t.Context(), j)
	if j.Err != nil || !j.Decision.Changes() {
		t.Fatalf("decided %+v, %v", j.Decision, j.Err)
	}
	engine.gone = true
	if _, err := targets.Report(t.Context(), &setpointv1.ReportScaleRequest{
		Target: key.String(), RecommendationId: j.Decision.ID.String(), Outcome: "FAILED", Message: "a quota",
	}); err != nil {
		t.Fatal(err)
	}
	chunks, _, err := targets.Recordings.Read(t.Context(), key, "", 0, 10)
	if err != nil || len(chunks) != 1 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	_, reports, err := truth.Open(chunks[0])
	if err != nil || len(reports) != 1 || !reports[0].Failed || reports[0].Of != now.UnixNano() {
		t.Errorf("reports %+v, %v", reports, err)
	}
}
