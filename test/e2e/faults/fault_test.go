package faults

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// fault is something that keeps the service from its store, and goes away again.
type fault struct {
	name string
	// config is that of the Redis. Nil: the fault harms the network only.
	config *redistest.Config
	// change changes the service. Nil: no change.
	change func(*setup)
	// begin starts the fault and returns a function that ends it.
	begin func(t *testing.T, r *rig) (end func())
	// trips says that the breaker opens: Redis does not answer, or as if it hung.
	trips bool
	// reads reports that reads still work.
	reads bool
	// deletes says that deleting goes on: it frees memory.
	deletes bool
	// noScripts reports that reads by scripts do not work.
	noScripts bool
	// clean reports that no refused call can have reached Redis.
	clean bool

	noBreaker bool
}

func (f fault) changes(su *setup) {
	if f.change != nil {
		f.change(su)
	}
	if f.noBreaker {
		su.redis.BreakerFailures = math.MaxInt32
		su.options.RequestTimeout = time.Minute
	}
}

// run starts the fault while a service works, and checks everything in the package's comment:
// once as it is, and once without a breaker, which would hide the fault from most calls.
func (f fault) run(t *testing.T) {
	t.Parallel()
	t.Run("with a breaker", func(t *testing.T) {
		t.Parallel()
		f.runOnce(t)
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		bare := f
		bare.noBreaker, bare.trips = true, false
		bare.runOnce(t)
	})
}

func (f fault) runOnce(t *testing.T) {
	t.Helper()
	r := f.rig(t)
	s := r.start(t, f.changes)
	c := newCase(t, r, s)

	end := f.begin(t, r)
	ended := false
	defer func() {
		if !ended {
			end()
		}
	}()
	noticed := s.awaitUnready(notice)
	slowest := f.refusesAll(t, c)
	kit.Eventually(t, notice, "not ready", func() error { return s.readiness(t, false) })
	t.Logf("not ready after %v; slowest refusal %v", brief(<-noticed), brief(slowest))
	if f.trips {
		f.failsFast(t, c)
	} else if trips := s.store.Stats().BreakerTrips; trips > 0 {
		t.Errorf("the breaker opened %d times for a Redis that answers", trips)
	}

	ended = true
	end()
	f.recovers(t, c)
	if f.clean {
		c.nothingRecorded(t)
	}
	c.everythingOnce(t)
	if unwritten, without := s.metric(t, "setpoint_unwritten_targets"), s.metric(t, "setpoint_decisions_without_store_total"); unwritten+without != 0 {
		t.Errorf("nobody asked for decisions without the store: %v were made, %v are not written", without, unwritten)
	}
}

func (f fault) rig(t *testing.T) *rig {
	t.Helper()
	if f.config == nil {
		return sharedRig(t)
	}
	return newRig(t, *f.config)
}

// subjects are the targets of a case.
const (
	knownTargets = 4
	probe        = "clusters/demo/namespaces/shop/targets/probe"
	settling     = "clusters/demo/namespaces/shop/targets/settling"
	doomed       = "clusters/demo/namespaces/shop/targets/doomed"
)

// faultCase is a service during one fault.
type faultCase struct {
	*rig
	*service
	book *book
	// known are targets with a cached history; unknown are new when the fault begins, one for
	// each kind of call.
	known   []string
	unknown []string
	// pending is the id of settling's change.
	pending string
	// before are the records when the fault began.
	before map[string]string
}

func newCase(t *testing.T, r *rig, s *service) *faultCase {
	t.Helper()
	c := &faultCase{rig: r, service: s, book: newBook(), before: make(map[string]string)}
	for i := range knownTargets {
		c.known = append(c.known, target(fmt.Sprint("known-", i)))
	}
	names := slices.Concat(c.known, []string{probe, doomed})
	for range 2 {
		fatal.If(t, s.batch(t.Context(), c.book, c.book.requests(names...))...)
	}
	answer, err := s.recommendations.Recommend(t.Context(), wants(settling, "settling", 5))
	fatal.If(t, err)
	c.pending = answer.GetRecommendationId()
	_, err = s.decisions(t.Context(), probe) // after it the log is written
	fatal.If(t, err)
	for _, name := range append(names, settling) {
		c.before[name] = r.record(t, name)
	}
	return c
}

// fresh returns the name of a new target.
func (c *faultCase) fresh(t *testing.T) string {
	name := target(fmt.Sprint("unknown-", len(c.unknown)))
	c.unknown = append(c.unknown, name)
	return name
}

// way is a kind of call that needs the store.
type way struct {
	name string
	// reads reports that it changes nothing, deletes that it only deletes, script that it reads
	// with a script.
	reads, deletes, script bool
	// ask makes the call; the errors are by item.
	ask func(ctx context.Context, t *testing.T, c *faultCase) []error
}

var ways = []way{
	{name: "Recommend for a known target", ask: func(ctx context.Context, _ *testing.T, c *faultCase) []error {
		return []error{c.recommend(ctx, c.book, c.book.request(c.known[0]))}
	}},
	{name: "Recommend for an unknown target", ask: func(ctx context.Context, t *testing.T, c *faultCase) []error {
		return []error{c.recommend(ctx, c.book, c.book.request(c.fresh(t)))}
	}},
	{name: "BatchRecommend", ask: func(ctx context.Context, t *testing.T, c *faultCase) []error {
		return c.batch(ctx, c.book, c.book.requests(append(slices.Clone(c.known), c.known[0], c.fresh(t), c.fresh(t))...))
	}},
	{name: "StreamRecommend", ask: func(ctx context.Context, t *testing.T, c *faultCase) []error {
		return c.stream(ctx, c.book, c.book.requests(append(slices.Clone(c.known), c.known[1], c.fresh(t))...))
	}},
	{name: "ReportScale", ask: func(ctx context.Context, _ *testing.T, c *faultCase) []error {
		return []error{c.report(ctx, settling, c.pending)}
	}},
	{name: "DeleteTarget", deletes: true, ask: func(ctx context.Context, _ *testing.T, c *faultCase) []error {
		return []error{c.remove(ctx, doomed)}
	}},
	{name: "GetTarget", reads: true, ask: func(ctx context.Context, _ *testing.T, c *faultCase) []error {
		_, err := c.target(ctx, c.known[0])
		return []error{err}
	}},
	{name: "ListTargets", reads: true, ask: func(ctx context.Context, _ *testing.T, c *faultCase) []error {
		_, err := c.list(ctx)
		return []error{err}
	}},
	{name: "ListDecisions", reads: true, script: true, ask: func(ctx context.Context, _ *testing.T, c *faultCase) []error {
		_, err := c.decisions(ctx, c.known[0])
		return []error{err}
	}},
}

// refusesAll makes all kinds of calls and returns the longest duration.
func (f fault) refusesAll(t *testing.T, c *faultCase) (slowest time.Duration) {
	t.Helper()
	for _, w := range ways {
		start := time.Now()
		errs := w.ask(t.Context(), t, c)
		took := time.Since(start)
		slowest = max(slowest, took)
		// None takes more than two operations: a load and a swap, or waiting for the log and
		// one more.
		if bound := 2 * patience; took > bound {
			t.Errorf("%s took %v, more than %v", w.name, took, bound)
		}
		for i, err := range errs {
			switch goesOn := f.reads && w.reads && (!f.noScripts || !w.script) || f.deletes && w.deletes; {
			case goesOn && err != nil:
				t.Errorf("%s fails: %v", w.name, err)
			case goesOn:
			default:
				if problem := refusal(err, unavailable); problem != nil {
					t.Errorf("%s, item %d: %v", w.name, i, problem)
				}
			}
		}
	}
	f.refusesREST(t, c)
	return slowest
}

func (f fault) refusesREST(t *testing.T, c *faultCase) {
	t.Helper()
	body, err := protojson.Marshal(with(c.book.request(c.known[2]).request, withoutTarget))
	fatal.If(t, err)
	code, text := c.rest(t, http.MethodPost, "/v1/"+c.known[2]+":recommend", string(body))
	if code != http.StatusServiceUnavailable || !strings.Contains(text, unavailable) {
		t.Errorf("REST answers %d %s", code, text)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the caller is told of %q: %s", secret, text)
		}
	}
}

// failsFast waits for the breaker and then fails the test unless calls fail at once,
// but for the one now and then that tries whether Redis is back.
func (f fault) failsFast(t *testing.T, c *faultCase) {
	t.Helper()
	kit.Eventually(t, notice, "the breaker opens", func() error {
		if stats := c.store.Stats(); stats.BreakersOpen != 1 || stats.BreakerTrips == 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	const calls = 21
	times := make([]time.Duration, calls)
	for i := range times {
		start := time.Now()
		refused(t, unavailable, c.recommend(t.Context(), c.book, c.book.request(c.known[3])))
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	// The machine is busy with other tests, which makes some slow.
	if quarter := times[calls/4]; quarter > fast {
		t.Errorf("with an open breaker three calls of four take longer than %v: %v", fast, times)
	}
	t.Logf("with an open breaker calls fail in %v, the slowest in %v", brief(times[calls/2]), brief(times[calls-1]))
}

// recovers fails the test unless everything works again by itself.
func (f fault) recovers(t *testing.T, c *faultCase) {
	t.Helper()
	works := kit.Eventually(t, notice, "calls succeed again", func() error {
		return c.recommend(t.Context(), c.book, c.book.request(probe))
	})
	start := time.Now()
	c.awaitReady(t)
	t.Logf("calls succeed after %v, ready after %v", brief(works), brief(works+time.Since(start)))
	if stats := c.store.Stats(); stats.BreakersOpen != 0 {
		t.Errorf("the breaker is still open: %+v", stats)
	}
}

// nothingRecorded fails the test if a refused call has left something.
func (c *faultCase) nothingRecorded(t *testing.T) {
	t.Helper()
	for name, before := range c.before {
		if name == probe || name == doomed {
			continue
		}
		if got := c.record(t, name); got != before {
			t.Errorf("%s was changed by calls that were refused", name)
		}
	}
	for _, name := range c.unknown {
		if c.key(t, name) != "" {
			t.Errorf("%s has a history by calls that were refused", name)
		}
	}
}

// everythingOnce makes all calls again and fails the test unless each has happened
// once then.
func (c *faultCase) everythingOnce(t *testing.T) {
	t.Helper()
	kit.Eventually(t, notice, "the report is taken", func() error { return c.report(t.Context(), settling, c.pending) })
	if ups := c.history(t, settling).ScaleUps; len(ups) != 1 || ups[0].Change != 2 {
		t.Errorf("the change that was reported is in the history as %v", ups)
	}
	if err := c.remove(t.Context(), doomed); err != nil && refusal(err, notFound) != nil {
		t.Errorf("DeleteTarget: %v", err)
	}
	c.book.forget(doomed)
	if c.key(t, doomed) != "" {
		t.Errorf("%s is still there", doomed)
	}
	c.book.retryAll(t, c.service)
	c.book.check(t, c.rig)
	for _, name := range c.known {
		logged, err := c.decisions(t.Context(), name)
		fatal.If(t, err)
		seen := make(map[string]bool)
		for _, d := range logged {
			if seen[d.GetRecommendationId()] {
				t.Errorf("%s is logged twice for %s", d.GetRecommendationId(), name)
			}
			seen[d.GetRecommendationId()] = true
		}
	}
}
