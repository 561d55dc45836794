package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// The cut ends while both instances work on the same targets.
func TestWhatInstancesDecidedApartIsMergedUnderLoad(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s, other := r.start(t, holdDown), r.startBeside(t, holdDown)
	b := newBook()
	names := []string{target("one"), target("two")}
	must(t, s.batch(t.Context(), b, b.requests(names...))...)
	working, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, instance := range []*service{s, other} {
		for _, a := range askings[:2] {
			callers.Go(func() {
				for working.Err() == nil {
					if err := errors.Join(a.ask(context.Background(), instance, b, b.requests(names...))...); err != nil {
						t.Errorf("%s: %v", a.name, err)
						return
					}
					<-time.After(pollInterval) // or histories get very long
				}
			})
		}
	}
	awaitCalls := func() {
		calls := b.acknowledged()
		kit.Eventually(t, notice, "calls go on", func() error {
			if n := b.acknowledged(); n < calls+20 {
				return fmt.Errorf("%d calls more", n-calls)
			}
			return nil
		})
	}
	for range 3 {
		awaitCalls()
		r.proxy.disable()
		awaitCalls()
		r.proxy.enable(t)
		s.awaitWritten(t)
	}
	stop()
	callers.Wait()
	s.awaitWritten(t)
	b.checkKept(t, r)
}

func TestAStopWhileTheStoreIsAwayLogsWhatIsLost(t *testing.T) {
	t.Parallel()
	for _, f := range aways[:4] {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := f.rig(t)
			s := r.start(t, holdDown)
			b := newBook()
			names := []string{target("one"), target("two")}
			must(t, s.batch(t.Context(), b, b.requests(names...))...)
			end := f.begin(t, r)
			defer end()
			must(t, s.batch(t.Context(), b, b.requests(names...))...)
			start := time.Now()
			s.end(t)
			t.Logf("stopped within %v", brief(time.Since(start)))
			// The log of decisions has its own time, see server.
			if took := time.Since(start); took > 5*requestTimeout {
				t.Errorf("the stop took %v", took)
			}
			lines := s.logs.FilterMessage("decisions of an outage are lost with this instance").All()
			if len(lines) != 1 || fmt.Sprint(lines[0].ContextMap()["targets"]) != "2" {
				t.Errorf("logged is %v", lines)
			}
		})
	}
}

func TestAStopOnceTheStoreIsBackLosesNothing(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, holdDown)
	b := newBook()
	names := []string{target("one"), target("two")}
	must(t, s.batch(t.Context(), b, b.requests(names...))...)
	r.proxy.disable()
	kit.Eventually(t, notice, "the breaker is open", func() error {
		must(t, s.batch(t.Context(), b, b.requests(names...))...)
		if stats := s.store.Stats(); stats.BreakersOpen == 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	r.proxy.enable(t)
	s.end(t)
	b.check(t, r)
}

func TestWhatRedisForgotDuringAnOutageIsWrittenWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, *directives())
	s := r.start(t, holdDown)
	b := newBook()
	names := []string{target("one"), target("two")}
	for range 2 {
		must(t, s.batch(t.Context(), b, b.requests(names...))...)
	}
	r.redis.Kill()
	must(t, s.batch(t.Context(), b, b.requests(names...))...)
	r.redis.Restart() // with nothing
	s.awaitWritten(t)
	b.check(t, r)
}

// A refused delete has no effect, not even on decisions that wait to be written.
func TestARefusedDeleteKeepsWhatWasDecided(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, holdDown)
	b := newBook()
	must(t, s.recommend(t.Context(), b, b.request(probe)))
	r.proxy.disable()
	must(t, s.recommend(t.Context(), b, b.request(probe)))
	refused(t, unavailable, s.remove(t.Context(), probe))
	r.proxy.enable(t)
	s.awaitReady(t)
	s.awaitWritten(t)
	b.check(t, r)
	must(t, s.remove(t.Context(), probe))
	if r.key(t, probe) != "" {
		t.Error("it is still there")
	}
}
