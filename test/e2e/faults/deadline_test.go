package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A caller without a deadline gets the server's, which is not its own: before it
// passes, the attempts are used up or the breaker opens.
func TestTheFirstCallIntoSilenceIsRefusedBeforeTheServersDeadline(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			c := newCase(t, r, r.start(t))
			r.proxy.add(t, "timeout", "upstream", attributes{"timeout": 0})
			start := time.Now()
			errs := w.ask(t.Context(), t, c)
			t.Logf("refused after %v", brief(time.Since(start)))
			refused(t, unavailable, errs...)
		})
	}
}

// Nor is it where the settings leave less time than the attempts take.
func TestTheServersDeadlineIsNotTheCallers(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			c := newCase(t, r, r.startBeside(t, generous))
			c.service = r.start(t, func(su *setup) { su.options.RequestTimeout = timeout / 2 })
			eventually(t, notice, "it knows the targets", func() error { // in so little time
				return errors.Join(c.batch(t.Context(), c.book, c.book.requests(c.known...))...)
			})
			r.proxy.add(t, "timeout", "upstream", attributes{"timeout": 0})
			refused(t, unavailable, w.ask(t.Context(), t, c)...)
		})
	}
}

func TestACallersDeadlineIsKeptAndItsOwnError(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			c := newCase(t, r, r.start(t))
			r.proxy.add(t, "timeout", "upstream", attributes{"timeout": 0})
			const deadline = timeout / 2
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			start := time.Now()
			for _, err := range w.ask(ctx, t, c) {
				if status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("got %v, want the caller's deadline", err)
				}
			}
			if took := time.Since(start); took > deadline+patience {
				t.Errorf("took %v with a deadline of %v", took, deadline)
			}
			r.proxy.clear(t)
			c.everythingOnce(t)
		})
	}
}

// Timeouts of impatient callers say nothing about Redis.
func TestCallersWithoutPatienceDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	const latency = timeout / 4
	r := sharedRig(t)
	c := newCase(t, r, r.start(t, generous))
	r.proxy.add(t, "latency", "downstream", attributes{"latency": latency.Milliseconds()})
	for late := 0; late < 4*breakerFailures; {
		ctx, cancel := context.WithTimeout(t.Context(), latency/5)
		_, err := c.target(ctx, c.known[0])
		cancel()
		switch status.Code(err) {
		case codes.DeadlineExceeded:
			late++
		case codes.OK: // the machine stood still, and the answer came with the deadline
		default:
			t.Fatalf("got %v, want the caller's deadline", err)
		}
	}
	_, err := c.target(t.Context(), c.known[0])
	must(t, err)
	if stats := c.store.Stats(); stats.BreakerTrips != 0 {
		t.Errorf("the breaker opened: %+v", stats)
	}
}
