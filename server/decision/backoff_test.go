package decision

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/stages"
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

// stalledOverrides are read from a store that does not respond, of which an old list is known.
type stalledOverrides struct{}

func (stalledOverrides) For(ctx context.Context, _ store.Key) ([]stages.Override, bool) {
	<-ctx.Done()
	return nil, true
}

func (stalledOverrides) Known(store.Key) ([]stages.Override, bool) { return nil, true }
func (stalledOverrides) Due(string) bool                           { return true }
func (stalledOverrides) Await(ctx context.Context, _ []string)     { <-ctx.Done() }
func (stalledOverrides) Problem(string) error                      { return store.ErrUnavailable }
func (stalledOverrides) Deleted(store.Key, stages.Level, string, time.Time) (string, time.Time, bool) {
	return "", time.Time{}, false
}

// Who waits for overrides waits as long as its caller, for whom then nothing is decided.
func TestAWaitForOverridesEndsWithTheCaller(t *testing.T) {
	for _, n := range []int{1, 2, 3} { // a call, and batches of one and of several
		synctest.Test(t, func(t *testing.T) {
			options := DefaultOptions()
			options.Clock, options.Log = time.Now, zap.NewNop()
			engine := memory.New(memory.Options{})
			targets := New(engine, &options, func(bool) {}, t.Context())
			targets.Decisions = decisionlog.New(nil, nil, options.Log, 0)
			defer targets.Decisions.Close()
			targets.Shares = shares.New(engine, options.Shares(), nil)
			targets.Overrides = stalledOverrides{}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			var jobs []*Job
			for i := range max(1, n-1) {
				jobs = append(jobs, &Job{Request: Request{Key: store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint(i)}, Now: began, Input: &recommender.Input{Options: recommender.DefaultOptions()}}})
			}
			if n == 1 {
				targets.Recommend(ctx, jobs[0])
			} else {
				targets.RecommendAll(ctx, &Batch{Jobs: jobs})
			}
			for _, j := range jobs {
				if took := time.Since(began); status.Code(j.Err) != codes.DeadlineExceeded || took != 100*time.Millisecond {
					t.Errorf("%d: %v after %s", n, j.Err, took)
				}
				if stored, err := engine.Load(t.Context(), j.Key); err != nil || stored.Exists() {
					t.Errorf("%d: decided for nobody: %v, %v", n, stored, err)
				}
			}
		})
	}
}
