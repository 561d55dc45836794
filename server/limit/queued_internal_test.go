package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A message of a stream waits until there is capacity, and no longer than it should.
func TestAdmitQueued(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// Times after which the call before it ends, the context does, and a stop comes.
		ends, cancelled, hurried time.Duration
		refused                  bool
		least, most              time.Duration
	}{
		{"there is room soon", 100 * time.Millisecond, time.Hour, time.Hour, false, 100 * time.Millisecond, 100*time.Millisecond + 2*queuedPause},
		{"there is none for long", time.Hour, time.Hour, time.Hour, true, queuedTime, queuedTime + 2*queuedPause},
		{"the stream ends", time.Hour, 50 * time.Millisecond, time.Hour, true, 50 * time.Millisecond, 50 * time.Millisecond},
		{"the server stops", time.Hour, time.Hour, 50 * time.Millisecond, true, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				options := DefaultOptions()
				options.Shedding.Off = true // the test says how many may run
				l, err := New(options)
				fatal.If(t, err)
				var running, queued Ticket
				if refusal := l.AdmitQueued(t.Context(), nil, &running, "first"); refusal.Refused() {
					t.Fatalf("with room: %v", refusal.Reason)
				}
				l.shedder.mayRun.Store(1)
				time.AfterFunc(test.ends, running.Release)
				ctx, cancel := context.WithTimeout(t.Context(), test.cancelled)
				defer cancel()
				hurry := make(chan struct{})
				time.AfterFunc(test.hurried, func() { close(hurry) })
				began := time.Now()
				refusal := l.AdmitQueued(ctx, hurry, &queued, "second")
				if waited := time.Since(began); waited < test.least || waited > test.most {
					t.Errorf("waited %v, want %v to %v", waited, test.least, test.most)
				}
				if refusal.Refused() != test.refused || test.refused && refusal.Reason != Overload {
					t.Errorf("refused: %v, for %v", refusal.Refused(), refusal.Reason)
				}
				queued.Release()
				if running.Release(); l.InFlight() != 0 {
					t.Errorf("%d in flight at the end", l.InFlight())
				}
			})
		})
	}
}

// Waiting messages would use all free capacity: they leave some to calls.
func TestThoseWhoWaitLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		options := DefaultOptions()
		options.Shedding.Off = true
		l, err := New(options)
		fatal.If(t, err)
		l.shedder.mayRun.Store(4)
		var tickets [4]Ticket
		for i := range 3 {
			if refusal := l.AdmitQueued(t.Context(), nil, &tickets[i], "streams"); refusal.Refused() {
				t.Fatalf("message %d: %v", i, refusal.Reason)
			}
		}
		waits, stop := context.WithCancel(t.Context())
		go func() {
			time.Sleep(queuedTime / 2)
			var call Ticket
			if refusal := l.Admit(&call, "calls", 1); refusal.Refused() {
				t.Errorf("a call: %v", refusal.Reason)
			}
			call.Release()
			stop()
		}()
		began := time.Now()
		_ = l.AdmitQueued(waits, nil, &tickets[3], "streams")
		if time.Since(began) < queuedTime/2 {
			t.Error("a message took the last place")
		}
		for i := range tickets {
			tickets[i].Release()
		}
	})
}

// What waits elsewhere takes nothing of its caller's share of an overloaded server, until it runs again.
func TestAPausedCallTakesNothingOfItsCallersShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := New(DefaultOptions())
		fatal.If(t, err)
		l.shedder.mayRun.Store(8)
		l.shedder.shedding.Store(true)
		l.identities.active.Store(2)
		var early [7]Ticket // a caller may have more than its share until more than three quarters run
		for i := range early {
			if refusal := l.Admit(&early[i], "a", 1); refusal.Refused() != (i == 6) {
				t.Errorf("early call %d: %v", i, refusal.Reason)
			}
		}
		for i := range early {
			early[i].Release()
		}
		var calls [8]Ticket // of each caller four, which is its share
		for i := range calls {
			if refusal := l.Admit(&calls[i], string(rune('a'+i%2)), 1); refusal.Refused() {
				t.Fatalf("call %d: %v", i, refusal.Reason)
			}
		}
		var more, most Ticket
		calls[0].Pause()
		if refusal := l.Admit(&more, "a", 1); refusal.Refused() {
			t.Errorf("while one waits another is refused: %v", refusal.Reason)
		}
		calls[0].Resume()
		calls[1].Release()
		calls[2].Release()
		if refusal := l.Admit(&most, "a", 1); refusal.Reason != Overload {
			t.Errorf("with the one that runs again it is more than its share: %v", refusal.Reason)
		}
	})
}
