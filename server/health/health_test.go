package health_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/health"
)

// watcher is a stream that keeps what it is sent.
type watcher struct {
	grpc.ServerStream
	ctx  context.Context
	sent []healthv1.HealthCheckResponse_ServingStatus
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(r *healthv1.HealthCheckResponse) error {
	w.sent = append(w.sent, r.GetStatus())
	return nil
}

const (
	serving = healthv1.HealthCheckResponse_SERVING
	not     = healthv1.HealthCheckResponse_NOT_SERVING
)

func TestAWatchGetsEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health.New("", "a")
		ctx, cancel := context.WithCancel(t.Context())
		w := &watcher{ctx: ctx}
		ended := make(chan error, 1)
		go func() { ended <- h.Watch(&healthv1.HealthCheckRequest{Service: "a"}, w) }()
		for _, state := range []bool{false, true, true, false, true} {
			h.Set(state)
			synctest.Wait()
		}
		h.Shutdown()
		synctest.Wait()
		h.Set(true)
		synctest.Wait()
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("the watch ended with %v", err)
		}
		want := []healthv1.HealthCheckResponse_ServingStatus{not, serving, not, serving, not}
		if len(w.sent) != len(want) {
			t.Fatalf("got %v, want %v", w.sent, want)
		}
		for i := range want {
			if w.sent[i] != want[i] {
				t.Fatalf("got %v, want %v", w.sent, want)
			}
		}
	})
}

func TestNames(t *testing.T) {
	h := health.New("", "a")
	h.Set(true)
	for _, name := range []string{"", "a"} {
		if got, err := h.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name}); err != nil || got.GetStatus() != serving {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if all, err := h.List(t.Context(), nil); err != nil || len(all.GetStatuses()) != 2 || all.GetStatuses()["a"].GetStatus() != serving {
		t.Errorf("List: %v, %v", all, err)
	}
	if _, err := h.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "b"}); status.Code(err) != codes.NotFound {
		t.Errorf("Check of an unknown name: %v", err)
	}
	w := &watcher{ctx: t.Context()}
	err := h.Watch(&healthv1.HealthCheckRequest{Service: "b"}, w)
	if status.Code(err) != codes.NotFound || len(w.sent) != 1 || w.sent[0] != healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("Watch of an unknown name: %v, %v", w.sent, err)
	}
}
