package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// A Redis that lost its scripts gets them again, without an error for any caller.
func TestAFlushedScriptCacheIsNotSeen(t *testing.T) {
	t.Parallel()
	for _, a := range askings {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, redistest.Config{})
			s := r.start(t, generous)
			b := newBook()
			names := []string{target("one"), target("two")}
			for range 3 {
				must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
				before := s.store.Stats()
				r.do(t, "SCRIPT", "FLUSH")
				must(t, a.ask(t.Context(), s, b, b.requests(append(names, target(fmt.Sprint("new-", before.ScriptLoads)))...))...)
				if after := s.store.Stats(); after.ScriptLoads == before.ScriptLoads {
					t.Errorf("before %+v, after %+v", before, after)
				}
			}
			b.check(t, r)
		})
	}
}

func TestScriptsFlushedWithinBatchesAreNotSeen(t *testing.T) {
	t.Parallel()
	const size, rounds = 500, 4
	r := newRig(t, redistest.Config{})
	s := r.start(t, generous)
	b := newBook()
	var names []string
	for i := range size {
		names = append(names, target(fmt.Sprint("many-", i)))
	}
	flushing, stop := context.WithCancel(t.Context())
	var flusher sync.WaitGroup
	flushes := 0
	flusher.Go(func() {
		for flushing.Err() == nil {
			if err := r.admin.ScriptFlush(context.Background()).Err(); err != nil {
				t.Error(err)
			}
			flushes++
			<-time.After(200 * time.Microsecond)
		}
	})
	for range rounds {
		must(t, s.batch(t.Context(), b, b.requests(names...))...)
	}
	must(t, s.stream(t.Context(), b, b.requests(names...))...)
	stop()
	flusher.Wait()
	stats := s.store.Stats()
	t.Logf("%d flushes within %d batches of %d and a stream; %d scripts sent whole", flushes, rounds, size, stats.ScriptLoads)
	if stats.ScriptLoads == 0 {
		t.Errorf("%+v", stats)
	}
	b.check(t, r)
}

// generous gives slow machines time: the test is of something else.
func generous(su *setup) {
	su.redis.Timeout, su.options.RequestTimeout = 10*time.Second, time.Minute
}

// gone is a way to lose a record between two calls.
type gone struct {
	name string
	lose func(t *testing.T, r *rig, target string)
}

func TestATargetWhoseRecordIsGoneIsNew(t *testing.T) {
	t.Parallel()
	for _, g := range []gone{
		{"expired", func(t *testing.T, r *rig, target string) {
			r.do(t, "PEXPIRE", r.key(t, target), 1)
			eventually(t, notice, "it expires", func() error {
				if r.key(t, target) != "" {
					return errors.New("still there")
				}
				return nil
			})
		}},
		{"evicted", func(t *testing.T, r *rig, target string) { r.do(t, "UNLINK", r.key(t, target)) }},
		{"deleted by another instance", func(t *testing.T, r *rig, target string) {
			must(t, r.startBeside(t).remove(t.Context(), target))
		}},
	} {
		for _, a := range askings {
			t.Run(g.name+" before "+a.name, func(t *testing.T) {
				t.Parallel()
				r := sharedRig(t)
				s := r.start(t)
				b := newBook()
				name := target("gone")
				must(t, s.recommend(t.Context(), b, b.request(name)), s.recommend(t.Context(), b, b.request(name)))
				g.lose(t, r, name)
				b.forget(name)
				must(t, a.ask(t.Context(), s, b, b.requests(name))...)
				b.check(t, r)
				targets, err := s.list(t.Context())
				must(t, err)
				if len(targets) != 1 || targets[0].GetName() != name {
					t.Errorf("listed are %v", targets)
				}
				g.lose(t, r, name)
				_, err = s.target(t.Context(), name)
				refused(t, notFound, err)
			})
		}
	}
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
		eventually(t, notice, fmt.Sprint("calls after flush ", n), func() error {
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
	took := eventually(t, notice, "calls succeed again", func() error { return s.recommend(t.Context(), b, b.request(probe)) })
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
