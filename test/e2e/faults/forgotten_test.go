package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// generous gives slow machines time: the test is of something else.
func generous(su *setup) {
	su.redis.Timeout, su.options.RequestTimeout = 10*time.Second, time.Minute
}

// Everything is flushed while callers work. None of them gets an error.
func TestAFlushedRedisIsNotSeenUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Config{})
	s := r.start(t, generous)
	const workers, flushes = 6, 10
	working, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	b := newBook()
	for w := range workers {
		a := askings[w%len(askings)]
		callers.Go(func() {
			for n := 0; working.Err() == nil; n++ {
				names := []string{target("shared"), target(fmt.Sprint("own-", w)), target(fmt.Sprint("new-", w, "-", n))}
				if err := errors.Join(a.ask(context.Background(), s, b, b.requests(names...))...); err != nil {
					t.Errorf("%s: %v", a.name, err)
					return
				}
			}
		})
	}
	for n := range flushes {
		calls := b.acknowledged()
		r.do(t, "FLUSHALL")
		kit.Eventually(t, notice, fmt.Sprint("calls after flush ", n), func() error {
			if b.acknowledged() < calls+10 {
				return fmt.Errorf("%d calls before, %d now", calls, b.acknowledged())
			}
			return nil
		})
	}
	stop()
	callers.Wait()
	// Acknowledged records are lost with the rest; new ones are recorded.
	r.do(t, "FLUSHALL")
	after := newBook()
	must(t, s.batch(t.Context(), after, after.requests(target("shared"), target("own-0")))...)
	after.check(t, r)
}

// Redis restarts empty. Calls fail while it is away; then everything is new.
func TestARedisThatStartsAgainWithoutItsDataIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Config{})
	s := r.start(t)
	b := newBook()
	names := []string{target("one"), target("two")}
	must(t, s.batch(t.Context(), b, b.requests(names...))...)
	r.redis.Kill()
	for _, a := range askings {
		refused(t, unavailable, a.ask(t.Context(), s, b, b.requests(names...))...)
	}
	r.redis.Restart()
	took := kit.Eventually(t, notice, "calls succeed again", func() error { return s.recommend(t.Context(), b, b.request(probe)) })
	t.Logf("calls succeed after %v, ready after %v", brief(took), brief(took+s.awaitReady(t)))
	for _, name := range names {
		b.forget(name)
	}
	for _, a := range askings {
		must(t, a.ask(t.Context(), s, b, b.requests(append(names, target("three"))...))...)
	}
	b.retryAll(t, s)
	b.check(t, r)
}
