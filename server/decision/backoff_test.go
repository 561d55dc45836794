package decision

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// contendedStore loses every race.
type contendedStore struct{ store.Store }

func (contendedStore) CompareAndSwap(context.Context, store.Swap) (store.SwapResult, error) {
	return store.SwapResult{}, nil
}

func (contendedStore) CompareAndSwapBatch(_ context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	return make([]store.SwapResult, len(swaps)), nil
}

// Who loses race after race lets the others finish, in a batch as in a single call.
func TestLostRacesAreBackedOff(t *testing.T) {
	for _, batch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			options := DefaultOptions()
			options.Clock, options.Log = time.Now, zap.NewNop()
			engine := contendedStore{memory.New(memory.Options{})}
			targets := New(engine, &options, func(bool) {}, t.Context())
			targets.Decisions = decisionlog.New(nil, nil, options.Log, 0)
			defer targets.Decisions.Close()
			targets.Shares = shares.New(engine, options.Shares(), nil)
			j := &Job{Request: Request{Key: store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Now: time.Now(), Input: &recommender.Input{Options: recommender.DefaultOptions()}}}
			begun := time.Now()
			if batch {
				targets.RecommendAll(t.Context(), &Batch{Jobs: []*Job{j}})
			} else {
				targets.Recommend(t.Context(), j)
			}
			if took := time.Since(begun); j.Attempts != options.MaxAttempts || took == 0 {
				t.Errorf("batch %v: %d attempts took %s", batch, j.Attempts, took)
			}
		})
	}
}
