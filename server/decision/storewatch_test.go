package decision

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/health"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// stallingStore takes a while to answer a ping.
type stallingStore struct {
	store.Store
	stall time.Duration
}

func (s stallingStore) Ping(ctx context.Context) error {
	select {
	case <-time.After(s.stall):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A store that stalls while an instance starts is there nevertheless. One that hangs does
// not hold up the start for long.
func TestAStallAtTheStartIsNoOutage(t *testing.T) {
	for _, tt := range []struct {
		stall time.Duration
		ready bool
	}{{0, true}, {time.Second, true}, {time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			options := DefaultOptions()
			options.Clock, options.Log = time.Now, zap.NewNop()
			engine, served := stallingStore{memory.New(memory.Options{}), tt.stall}, health.New("")
			targets := New(engine, &options, telemetry.NewCalls(), served, t.Context())
			begun := time.Now()
			targets.Watch.Check(t.Context())
			got, err := served.Check(t.Context(), &healthv1.HealthCheckRequest{})
			if err != nil || (got.GetStatus() == healthv1.HealthCheckResponse_SERVING) != tt.ready {
				t.Errorf("after a stall of %s: %v, %v", tt.stall, got.GetStatus(), err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("a stall of %s holds up the start for %s", tt.stall, took)
			}
		})
	}
}

// readOnlyStore answers pings, but takes no swaps.
type readOnlyStore struct {
	store.Store
	swaps atomic.Int64
}

func (s *readOnlyStore) CompareAndSwap(ctx context.Context, _ store.Swap) (store.SwapResult, error) {
	if s.swaps.Add(1) >= 1000 { // otherwise virtual time might stand still
		<-ctx.Done()
	}
	return store.SwapResult{}, store.ErrUnavailable
}

// Histories that cannot be written although the store answers are tried again once a second, not
// again and again.
func TestAStoreThatOnlyReadsIsNotTriedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := DefaultOptions()
		options.Clock, options.Log = time.Now, zap.NewNop()
		engine := &readOnlyStore{Store: memory.New(memory.Options{})}
		targets := New(engine, &options, telemetry.NewCalls(), health.New(""), t.Context())
		key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
		history := recommender.History{Seen: true, Updated: time.Now()}
		targets.outage.keepAfter(nil, key, store.Record{}, encoding.AppendHistory(nil, &history))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		targets.Watch.failed()
		targets.Watch.Run(ctx)
		if got := engine.swaps.Load(); got < 10 || got > 12 {
			t.Errorf("written %d times in 10 s, want once a second", got)
		}
	})
}

// panickingStore panics at the first swap.
type panickingStore struct {
	store.Store
	swaps atomic.Int64
}

func (s *panickingStore) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if s.swaps.Add(1) == 1 {
		panic("a swap")
	}
	return s.Store.CompareAndSwap(ctx, swap)
}

// A panic outside of calls ends no process either.
func TestAPanicWhileHistoriesAreWrittenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.ErrorLevel)
		options := DefaultOptions()
		options.Clock, options.Log = time.Now, zap.New(core)
		engine := &panickingStore{Store: memory.New(memory.Options{})}
		targets := New(engine, &options, telemetry.NewCalls(), health.New(""), t.Context())
		key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
		history := recommender.History{Seen: true, Updated: time.Now()}
		targets.outage.keepAfter(nil, key, store.Record{}, encoding.AppendHistory(nil, &history))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		targets.Watch.Run(ctx)
		if got := logged.FilterMessage("panic").Len(); got != 1 {
			t.Errorf("%d panics logged, want 1", got)
		}
		if got := targets.outage.pending(); got != 0 {
			t.Errorf("%d histories not written, want 0", got)
		}
	})
}
