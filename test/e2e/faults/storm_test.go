package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// storm is two services with a proxy each before one Redis, callers on both, and
// faults that come and go.
type storm struct {
	*rig
	proxies  []*proxy
	services []*service
	book     *book
	targets  []string
	// done counts ended calls, whatever their outcome.
	done atomic.Int64
}

func newStorm(t *testing.T, changes ...func(*setup)) *storm {
	t.Helper()
	r := newRig(t, redistest.Config{})
	st := &storm{rig: r, book: newBook()}
	for range 2 {
		side := *r
		side.proxy = newProxy(t, r.redis.Addr())
		st.proxies = append(st.proxies, side.proxy)
		st.services = append(st.services, side.start(t, changes...))
	}
	for i := range 16 {
		st.targets = append(st.targets, target(fmt.Sprint("storm-", i)))
	}
	return st
}

// gusts are the faults. Each returns a function that ends it.
var gusts = []struct {
	name  string
	begin func(t *testing.T, st *storm, p *proxy) (end func())
}{
	{"cut", func(t *testing.T, _ *storm, p *proxy) func() {
		p.disable()
		return func() { p.enable(t) }
	}},
	{"lost replies", func(t *testing.T, _ *storm, p *proxy) func() {
		p.lose(t, &loss{prefix: swapped, times: 5})
		return func() { p.clear(t) }
	}},
	{"vanishing replies", func(t *testing.T, _ *storm, p *proxy) func() {
		p.add(t, "timeout", "downstream", attributes{"timeout": 0})
		return func() { p.clear(t) }
	}},
	{"resets", func(t *testing.T, _ *storm, p *proxy) func() {
		p.add(t, "reset_peer", "downstream", attributes{"timeout": 20})
		return func() { p.clear(t) }
	}},
	{"late replies", func(t *testing.T, _ *storm, p *proxy) func() {
		p.add(t, "latency", "downstream", attributes{"latency": timeout.Milliseconds(), "jitter": timeout.Milliseconds() / 2})
		return func() { p.clear(t) }
	}},
	{"killed connections", func(t *testing.T, st *storm, _ *proxy) func() {
		st.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		return func() {}
	}},
	{"forgotten scripts", func(t *testing.T, st *storm, _ *proxy) func() {
		st.do(t, "SCRIPT", "FLUSH")
		return func() {}
	}},
	{"a hang", func(_ *testing.T, st *storm, _ *proxy) func() {
		st.redis.Pause()
		return st.redis.Resume
	}},
	{"a read-only Redis", func(t *testing.T, st *storm, _ *proxy) func() {
		return replicate(t, st.rig)
	}},
}

// blow lets callers work during all faults, several times, in an order given by the seed.
// Callers retry refused requests at any of the services.
func (st *storm) blow(t *testing.T, rounds int, anywhere bool) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	working, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for w := range 6 {
		callers.Go(func() { st.work(working, t, w, anywhere) })
	}
	chance := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		for _, i := range chance.Perm(len(gusts)) {
			end := gusts[i].begin(t, st, st.proxies[chance.IntN(len(st.proxies))])
			st.await(t, 20, gusts[i].name)
			end()
			st.await(t, 20, "calm")
		}
	}
	stop()
	callers.Wait()
}

// work requests recommendations until the context ends.
func (st *storm) work(working context.Context, t *testing.T, worker int, anywhere bool) {
	a, s := askings[worker%len(askings)], st.services[worker%len(st.services)]
	for n := 0; working.Err() == nil; n++ {
		asked := st.book.requests(st.targets[(worker+n)%len(st.targets)], st.targets[(3*worker+5*n+1)%len(st.targets)])
		for attempt := range 2 {
			failed := asked[:0:0]
			for i, err := range a.ask(context.WithoutCancel(working), s, st.book, asked) {
				if err == nil {
					continue
				}
				if problem := refusal(err, unavailable); problem != nil {
					t.Errorf("%s: %v", a.name, problem)
				}
				failed = append(failed, asked[i])
			}
			st.done.Add(1)
			if asked = failed; len(asked) == 0 || working.Err() != nil {
				break
			}
			if anywhere {
				s = st.services[(worker+n+attempt)%len(st.services)]
			}
		}
		<-time.After(pollInterval)
	}
}

// await waits until so many calls more have ended.
func (st *storm) await(t *testing.T, calls int64, what string) {
	t.Helper()
	until := st.done.Load() + calls
	kit.Eventually(t, 2*notice, what, func() error {
		if done := st.done.Load(); done < until {
			return fmt.Errorf("%d calls to go", until-done)
		}
		return nil
	})
}

// calm waits until both services are well.
func (st *storm) calm(t *testing.T) {
	t.Helper()
	for i, s := range st.services {
		took := s.awaitReady(t)
		stats := s.store.Stats()
		t.Logf("service %d ready after %v: %d commands sent again, %d breaker trips, %d scripts sent whole, %d races lost",
			i, brief(took), stats.Retries, stats.BreakerTrips, stats.ScriptLoads, stats.Conflicts)
	}
	t.Logf("%d of %d requests acknowledged", st.book.acknowledged(), len(st.book.all()))
}

func TestNothingIsLostOrDoubledInAStorm(t *testing.T) {
	t.Parallel()
	st := newStorm(t)
	st.blow(t, 2, true)
	st.calm(t)
	st.book.retryAll(t, st.services[0])
	st.book.retryAll(t, st.services[1])
	st.book.check(t, st.rig)
}

// With hold-down each instance keeps to its answers, and all of them are recorded.
func TestNothingIsLostInAStormThatIsHeldDown(t *testing.T) {
	t.Parallel()
	st := newStorm(t, holdDown)
	for _, s := range st.services {
		fatal.If(t, s.batch(t.Context(), st.book, st.book.requests(st.targets...))...)
	}
	st.blow(t, 1, false)
	st.calm(t)
	for _, s := range st.services {
		s.awaitWritten(t)
	}
	st.book.checkKept(t, st.rig)
}
