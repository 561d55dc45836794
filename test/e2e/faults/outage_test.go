package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two instances serve the same targets and one of them is cut off. After the cut the store has
// both instances' decisions.
func TestWhatInstancesDecidedApartIsMerged(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s, other := r.start(t, holdDown), r.startBeside(t, holdDown)
	b := newBook()
	names := []string{target("one"), target("two"), target("three")}
	must(t, s.batch(t.Context(), b, b.requests(names...))...)
	must(t, other.batch(t.Context(), b, b.requests(names...))...)
	must(t, s.batch(t.Context(), b, b.requests(names...))...) // it sees the other's decisions
	r.proxy.disable()
	for _, a := range askings {
		// The third is left to the one that is cut off.
		must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
		must(t, a.ask(t.Context(), other, b, b.requests(names[:2]...))...)
		must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
	}
	if got := s.metric(t, "setpoint_unwritten_targets"); got != 3 {
		t.Errorf("%v targets are not written", got)
	}
	other.awaitReady(t)
	r.proxy.enable(t)
	t.Logf("written after %v", brief(s.awaitWritten(t)))
	b.check(t, r)
	for _, a := range askings {
		must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
		must(t, a.ask(t.Context(), other, b, b.requests(names...))...)
	}
	b.retryAll(t, s)
	b.retryAll(t, other)
	b.check(t, r)
}

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
		eventually(t, notice, "calls go on", func() error {
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

// A swap happened, its reply was lost, and the same decision was made again without
// the store, a moment later, for another one came between. It is one answer, and one
// recommendation, at the instant of the swap.
func TestADecisionMadeAgainWithoutTheStoreIsRecordedOnce(t *testing.T) {
	t.Parallel()
	const attempts = 10
	for attempt := 1; !decidedAgain(t); attempt++ {
		if attempt == attempts {
			t.Fatal("no swap happened before the breaker opened")
		}
		t.Log("the machine was too slow for a swap before the breaker opened: once more")
	}
}

// decidedAgain brings that about, and reports whether it came about.
func decidedAgain(t *testing.T) bool {
	const timeout = time.Second // for there are calls to make within it
	r := sharedRig(t)
	s := r.start(t, holdDown, func(su *setup) {
		su.redis.Timeout, su.options.RequestTimeout = timeout, time.Minute
		su.redis.BreakerFailures, su.redis.BreakerPause = 1, 2*timeout
	})
	b := newBook()
	for range 2 { // opens connections, and has Redis learn the scripts
		s.awaitReady(t)
		if errors.Join(s.stream(t.Context(), b, b.requests(probe, target("one"), target("two"), target("three")))...) != nil {
			return false
		}
	}
	r.proxy.add(t, "timeout", "downstream", attributes{"timeout": 0})
	var calls sync.WaitGroup
	before, start := s.store.Stats(), time.Now()
	calls.Go(func() {
		_, _ = s.target(context.WithoutCancel(t.Context()), probe) // opens the breaker when its time is up
	})
	eventually(t, notice, "the first call is under way", func() error {
		if s.store.Stats().RoundTrips == before.RoundTrips || time.Since(start) < timeout/2 {
			return errors.New("not yet")
		}
		return nil
	})
	first, between := b.request(probe), b.request(probe)
	var err error
	calls.Go(func() { err = s.recommend(context.WithoutCancel(t.Context()), b, first) })
	happened := func() bool { return r.history(t, probe).AnswerFor(first.request.GetRequestId()) != nil }
	eventually(t, notice, "the breaker opens", func() error {
		if s.store.Stats().BreakersOpen == 0 && !happened() {
			return errors.New("not yet")
		}
		return nil
	})
	swapped := happened()
	eventually(t, notice, "the breaker opens", func() error {
		if s.store.Stats().BreakersOpen == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	must(t, s.recommend(t.Context(), b, between))
	calls.Wait()
	must(t, err)
	r.proxy.clear(t)
	s.awaitWritten(t)
	b.check(t, r)
	return swapped
}

// A swap happened and its reply was lost; the caller was answered without the store, and keeps
// that answer: it is recorded, and a repeated request returns it.
func TestAnAnswerWithoutTheStoreStandsWhereTheSwapHappened(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		wanted, answer int32
	}{
		{"a scale-up", 8, 5},
		{"a scale-down that is withheld", 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			s := r.start(t, holdDown)
			d := &diary{target: target("doubtful")}
			must(t, s.report(t.Context(), d.target, d.step(t, s, 1, 3, 3).GetRecommendationId()))
			cut := make(chan struct{})
			r.proxy.lose(t, &loss{prefix: swapped, times: 1, meanwhile: func() {
				go func() { // it waits for this connection
					r.proxy.disable()
					close(cut)
				}()
				for r.proxy.accepts() {
					<-time.After(time.Millisecond)
				}
			}})
			d.step(t, s, 3, tt.wanted, tt.answer)
			if got := s.metric(t, "setpoint_decisions_without_store_total"); got != 1 {
				t.Errorf("%v decisions were made without the store", got)
			}
			<-cut
			r.proxy.clear(t)
			r.proxy.enable(t)
			s.awaitWritten(t)
			d.again(t, s)
			d.check(t, r, 2)
			if pending := r.history(t, d.target).Pending; (pending != nil) != (tt.answer != 3) {
				t.Errorf("the caller was told %d, pending is %v", tt.answer, pending)
			}
		})
	}
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
	eventually(t, notice, "the breaker is open", func() error {
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

// Decisions that can't be merged with the store's record are dropped and logged; the record
// stays, and everything else is written.
func TestDamageDuringAnOutageCostsItsTargetOnly(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			s := r.start(t, holdDown)
			b := newBook()
			names := append([]string{damaged}, healthy...)
			must(t, s.batch(t.Context(), b, b.requests(names...))...)
			version := r.record(t, damaged)[:versionLength]
			r.proxy.disable()
			must(t, s.batch(t.Context(), b, b.requests(names...))...)
			dump := d.do(t, r)
			r.proxy.enable(t)
			s.awaitWritten(t)
			s.awaitReady(t)
			if r.dump(t, damaged) == dump {
				refused(t, unreadable, s.recommend(t.Context(), newBook(), newBook().request(damaged)))
				if !s.logged("decisions of an outage not written") {
					t.Error("the log tells nothing of what was given up")
				}
				if got := r.dump(t, damaged); got != dump {
					t.Errorf("what could not be read was changed: %q, now %q", dump, got)
				}
				b.forget(damaged)
			} else if !strings.HasPrefix(r.record(t, damaged), version[:1]) {
				t.Errorf("%q was written over", dump)
			}
			b.retryAll(t, s)
			b.check(t, r)
		})
	}
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

// A caller's own deadline also holds while the store hangs.
func TestACallersDeadlineIsKeptWhileHoldingDown(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, holdDown)
	b := newBook()
	must(t, s.recommend(t.Context(), b, b.request(probe)))
	r.proxy.add(t, "timeout", "upstream", attributes{"timeout": 0})
	e := b.request(probe)
	ctx, cancel := context.WithTimeout(t.Context(), timeout/2)
	defer cancel()
	start := time.Now()
	if err := s.recommend(ctx, b, e); err == nil || time.Since(start) > patience {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	took := eventually(t, notice, "answered without the store", func() error { return s.recommend(t.Context(), b, e) })
	t.Logf("answered after %v", brief(took))
	r.proxy.clear(t)
	s.awaitWritten(t)
	b.retryAll(t, s)
	b.check(t, r)
}
