package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// waiting returns a call that waits for its message.
func waiting(t *testing.T, l *limit.Limiter) *limit.Ticket {
	t.Helper()
	ticket := new(limit.Ticket)
	if refusal := l.Enter(ticket, nil); refusal.Refused() {
		t.Fatalf("refused: %v", refusal.Reason)
	}
	ticket.Begin()
	ticket.Wait()
	return ticket
}

func TestCallsThatWaitForTheirMessageTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 2 }))
		var all []*limit.Ticket
		for range 5 {
			all = append(all, waiting(t, l))
		}
		if l.InFlight() != 0 || l.Running() != 0 || l.Waiting() != 5 {
			t.Fatalf("%d in flight, %d running, %d waiting", l.InFlight(), l.Running(), l.Waiting())
		}
		// Their messages come when it suits their callers: then there may be no place.
		time.Sleep(time.Second)
		for i, want := range []limit.Reason{0, 0, limit.GlobalInFlight, limit.GlobalInFlight, limit.GlobalInFlight} {
			if got := all[i].Arrived().Reason; got != want {
				t.Errorf("call %d: %v, want %v", i, got, want)
			}
		}
		if l.InFlight() != 2 || l.Running() != 2 || l.Waiting() != 3 {
			t.Errorf("%d in flight, %d running, %d waiting", l.InFlight(), l.Running(), l.Waiting())
		}
		for _, ticket := range all {
			ticket.Release()
			ticket.Release()
		}
		if l.InFlight() != 0 || l.Running() != 0 || l.Waiting() != 0 || l.Admitted() != 2 || l.Refused(limit.GlobalInFlight) != 3 {
			t.Errorf("at the end %d in flight, %d running, %d waiting; %d admitted, %d refused", l.InFlight(), l.Running(), l.Waiting(), l.Admitted(), l.Refused(limit.GlobalInFlight))
		}
	})
}

// One whose message was on its way was let in already.
func TestACallThatHardlyWaitedIsNotRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 1 }))
		first := waiting(t, l)
		second := waiting(t, l)
		if refusal := first.Arrived(); refusal.Refused() {
			t.Fatal("refused though there is a place")
		}
		time.Sleep(5 * time.Millisecond)
		if refusal := second.Arrived(); refusal.Refused() {
			t.Error("refused after a moment")
		}
		if l.InFlight() != 2 {
			t.Errorf("%d in flight", l.InFlight())
		}
		first.Release()
		second.Release()
		if l.InFlight() != 0 || l.Waiting() != 0 {
			t.Errorf("at the end %d in flight, %d waiting", l.InFlight(), l.Waiting())
		}
	})
}

func TestACallThatEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, with(limit.Limits{}))
	ticket := waiting(t, l)
	ticket.Abandon() // it has begun: this goroutine ends it
	if l.Waiting() != 1 {
		t.Error("it was abandoned")
	}
	ticket.Release()
	if refusal := ticket.Arrived(); refusal.Refused() || l.Waiting() != 0 || l.InFlight() != 0 {
		t.Errorf("%v; %d wait, %d in flight", refusal.Reason, l.Waiting(), l.InFlight())
	}
	var none limit.Ticket
	none.Wait()
	if none.Arrived().Refused() || l.Waiting() != 0 {
		t.Error("one that holds nothing waits")
	}
}
