package limit_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// Simulations wait for the end of an overload. It ends when no calls come, too: after a burst, they
// stood still until somebody else called often enough.
func TestOverloadEndsWithoutCalls(t *testing.T) {
	now, waited := time.Unix(1_800_000_000, 0), time.Duration(0)
	l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) {
		o.InFlight = 4096
		o.Clock = func() time.Time { return now }
		o.Shedding.Waited = func() time.Duration { return waited }
	}))
	for i := 0; i < 100_000 && !l.Shedding(); i++ {
		var ticket limit.Ticket
		l.Admit(&ticket, "a", 1)
		now, waited = now.Add(100*time.Microsecond), waited+time.Second
		ticket.Release()
	}
	if !l.Shedding() {
		t.Fatal("no overload")
	}
	for end := now.Add(10 * time.Second); l.Shedding(); now = now.Add(20 * time.Millisecond) {
		if now.After(end) {
			t.Fatal("still overload after 10 s without a call")
		}
	}
}
