package load_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/bench/load"
)

// echo answers the last request first, and each tenth with an error.
type echo struct {
	waiting  []int
	most     int
	answered int
	broken   bool
	ended    bool
}

var errRefused = errors.New("refused")

func (e *echo) Send(slot int) error {
	e.waiting = append(e.waiting, slot)
	e.most = max(e.most, len(e.waiting))
	return nil
}

func (e *echo) Receive() (int, bool, error) {
	if e.broken {
		return 0, false, errors.New("the stream broke")
	}
	time.Sleep(100 * time.Microsecond)
	slot := e.waiting[len(e.waiting)-1]
	e.waiting = e.waiting[:len(e.waiting)-1]
	if e.answered++; e.answered%10 == 0 {
		return slot, true, errRefused
	}
	return slot, true, nil
}

func (e *echo) End() error { e.ended = true; return nil }

func TestStreamsKeepRequestsInFlight(t *testing.T) {
	t.Parallel()
	streams := make([]*echo, 3)
	var r *load.Result
	// A busy machine takes longer to give as many answers that one is an error.
	for duration := 50 * time.Millisecond; duration < 10*time.Second; duration *= 4 {
		r = load.Streams(t.Context(), len(streams), 5, duration, func(_ context.Context, n int) (load.Conversation, error) {
			streams[n] = &echo{}
			return streams[n], nil
		})
		if r.Failed > 0 {
			break
		}
	}
	answered := 0
	for n, e := range streams {
		answered += e.answered
		if e.most != 5 || len(e.waiting) != 0 || !e.ended {
			t.Errorf("stream %d: %d in flight at most, %d unanswered in the end, ended %v; want 5, 0 and true", n, e.most, len(e.waiting), e.ended)
		}
	}
	if r.Done+r.Failed != answered || r.Failed != answered/10 && r.Failed < answered/10-3 {
		t.Errorf("%d done and %d failed of %d answered, a tenth of them with an error", r.Done, r.Failed, answered)
	}
	if !errors.Is(r.Err, errRefused) {
		t.Errorf("the first error is %v, want the answer's", r.Err)
	}
}

func TestStreamsTellOfOneThatBreaks(t *testing.T) {
	t.Parallel()
	r := load.Streams(t.Context(), 1, 2, time.Hour, func(context.Context, int) (load.Conversation, error) { return &echo{broken: true}, nil })
	if r.Failed != 1 || r.Err == nil {
		t.Errorf("%d failed with %v, want one", r.Failed, r.Err)
	}
}
