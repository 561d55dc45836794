package decision_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// Records are loaded for a list a few at a time.
func TestListsLoadAFewRecordsAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	most, loads := 0, 0
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Engine = &countingLoads{FaultyStore: su.Store, loaded: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			most, loads = max(most, n), loads+1
		}}
	})
	for i := range 120 {
		s.Recommend(t, servertest.Queue("clusters/c/namespaces/n/targets/t"+strconv.Itoa(i), 3, 30))
	}
	mu.Lock()
	most, loads = 0, 0
	mu.Unlock()
	resp, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/n", PageSize: 1000})
	if err != nil || len(resp.GetTargets()) != 120 {
		t.Fatalf("%d targets, %v", len(resp.GetTargets()), err)
	}
	if most != 50 || loads != 3 {
		t.Errorf("%d loads of at most %d records, want 3 of 50", loads, most)
	}
}

// So they are for a batch, and each of its requests is answered on its own target.
func TestBatchesLoadSomeRecordsAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	most := 0
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Engine = &countingLoads{FaultyStore: su.Store, loaded: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, n)
		}}
	})
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 900 {
		// Each target twice, far apart.
		batch.Requests = append(batch.Requests, servertest.Queue("clusters/c/namespaces/n/targets/t"+strconv.Itoa(i%450), 3, int32(10*(i%450+1))))
	}
	resp, err := s.Recommendations.BatchRecommend(t.Context(), batch)
	fatal.If(t, err)
	for i, result := range resp.GetResults() {
		single := s.Recommend(t, servertest.With(batch.GetRequests()[i], servertest.DryRun))
		if got, want := result.GetResponse().GetDesiredReplicas(), single.GetDesiredReplicas(); result.GetError() != nil || got != want {
			t.Fatalf("request %d: %d replicas (%v), want %d", i, got, result.GetError(), want)
		}
	}
	if most != 225 { // 250 at most, in parts alike
		t.Errorf("%d records were loaded at once, want 225 of 450", most)
	}
}

// countingLoads records how many records were loaded at once.
type countingLoads struct {
	*servertest.FaultyStore
	loaded func(int)
}

func (c *countingLoads) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	c.loaded(len(keys))
	return c.FaultyStore.LoadBatch(ctx, keys)
}
