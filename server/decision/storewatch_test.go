package decision

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

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
			engine, served := stallingStore{memory.New(memory.Options{}), tt.stall}, health.NewServer()
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
