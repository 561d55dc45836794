package load_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/bench/load"
)

// stalling responds at once, except for one interval of that length.
type stalling struct {
	mu     sync.Mutex
	after  int
	calls  int
	length time.Duration
}

func (s *stalling) call(context.Context, int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls == s.after {
		time.Sleep(s.length)
	}
	return nil
}

// Of 500 calls in half a second some hundred are due while the service stalls for a
// fifth of it. A generator that leaves them out, or times them from when it came round
// to sending them, sees one slow call.
func TestOpenChargesAStallToAllThatItKeepsWaiting(t *testing.T) {
	t.Parallel()
	for name, inFlight := range map[string]int{"one call at a time": 1, "many calls at a time": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stalling{after: 150, length: 100 * time.Millisecond}
			r := load.Open(t.Context(), load.Plan{Rate: 1000, Duration: 500 * time.Millisecond, InFlight: inFlight}, s.call)
			if r.Done != 500 || r.Failed != 0 {
				t.Fatalf("%d calls were answered and %d failed (%v), want 500 and 0", r.Done, r.Failed, r.Err)
			}
			if p99 := r.Quantile(.99); p99 < 80*time.Millisecond {
				t.Errorf("p99 is %v although a fifth of the calls were due in a stall of %v", p99, s.length)
			}
			if p85 := r.Quantile(.85); p85 < 10*time.Millisecond {
				t.Errorf("p85 is %v although a fifth of the calls were due in a stall of %v", p85, s.length)
			}
		})
	}
}

func TestOpenKeepsItsRate(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := load.Open(t.Context(), load.Plan{Rate: 2000, Duration: 300 * time.Millisecond, InFlight: 64}, func(context.Context, int) error { return nil })
	if took := time.Since(began); took < 299*time.Millisecond {
		t.Errorf("600 calls at 2,000/s took %v: they were sent before they were due", took)
	}
	if r.Done != 600 {
		t.Errorf("%d calls, want 600", r.Done)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int64
	r := load.Open(ctx, load.Plan{Rate: 1000, Duration: time.Hour, InFlight: 10}, func(context.Context, int) error {
		if calls.Add(1) == 20 {
			cancel()
		}
		return errors.New("no")
	})
	if r.Done != 0 || r.Failed == 0 || r.Err == nil {
		t.Errorf("%d calls done, %d failed with %v; want failures only", r.Done, r.Failed, r.Err)
	}
}
