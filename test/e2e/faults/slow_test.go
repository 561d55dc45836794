package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// asByDefault uses the default timeouts, so that slow calls do not fail because other tests
// keep the machine busy.
func asByDefault(su *setup) {
	su.redis.Timeout, su.redis.BreakerPause = redis.DefaultTimeout, redis.DefaultBreakerPause
	su.options.RequestTimeout = server.DefaultOptions().RequestTimeout
}

// withoutLog keeps the decision log and the watchers' feed from using connections.
func withoutLog(su *setup) { su.redis.LogLength, su.redis.FeedLength = -1, -1 }

// latencyTries is how often is measured whether a latency is paid once.
const latencyTries = 10

// A network that is slow but within the timeout costs its latency once a decision.
func TestLatencyBelowTheTimeoutIsPaidOnce(t *testing.T) {
	t.Parallel()
	const latency = redis.DefaultTimeout / 4
	r := sharedRig(t)
	s := r.start(t, asByDefault, withoutLog)
	b := newBook()
	names := []string{target("one"), target("two"), target("three")}
	var fresh []string
	for i := range 10 {
		fresh = append(fresh, target(fmt.Sprint("fresh-", i)))
	}
	for range 2 { // connections, scripts, and what is remembered
		must(t, s.stream(t.Context(), b, b.requests(append(fresh, names...)...))...)
	}
	r.proxy.add(t, "latency", "downstream", attributes{"latency": latency.Milliseconds()})
	for _, a := range askings {
		// Requests of a stream share a round trip if they arrive while others are in flight.
		bound := 2 * latency
		if a.name == "StreamRecommend" {
			bound = 3 * latency
		}
		// The machine is busy with other tests, and may stand still: the best counts.
		for try := 1; ; try++ {
			asked := b.requests(names...)
			if a.name == "Recommend" {
				asked = asked[:1]
			}
			before, start := s.store.Stats(), time.Now()
			must(t, a.ask(t.Context(), s, b, asked)...)
			took, after := time.Since(start), s.store.Stats()
			t.Logf("%s takes %v", a.name, brief(took))
			if took < latency {
				t.Errorf("%s took %v with a latency of %v", a.name, took, latency)
			}
			again := after.Retries - before.Retries
			if took <= bound && again == 0 {
				break
			}
			if try == latencyTries {
				t.Errorf("%s took %v with a latency of %v, and sent %d commands again", a.name, took, latency, again)
				break
			}
		}
	}
	s.awaitReady(t)
	r.proxy.clear(t)
	b.retryAll(t, s)
	b.check(t, r)
}

// Without the decision log and the feed, whose writes no call waits for.
func TestADecisionOnAKnownTargetIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, withoutLog, generous)
	b := newBook()
	name := target("known")
	must(t, s.recommend(t.Context(), b, b.request(name)), s.recommend(t.Context(), b, b.request(name)))
	const n = 20
	before, start := s.store.Stats(), time.Now()
	for range n {
		must(t, s.recommend(t.Context(), b, b.request(name)))
	}
	after := s.store.Stats()
	// Once a second the store's health and time are read.
	checks := 2 * (1 + uint64(time.Since(start)/time.Second))
	if got := after.RoundTrips - before.RoundTrips; got < n || got > n+checks {
		t.Errorf("%d decisions took %d round trips", n, got)
	}
	if after.Retries != before.Retries || after.ScriptLoads != before.ScriptLoads || after.Conflicts != before.Conflicts {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestJitterAndLittleBandwidthOnlyTakeTime(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, generous)
	b := newBook()
	r.proxy.add(t, "latency", "downstream", attributes{"latency": 20, "jitter": 15})
	r.proxy.add(t, "latency", "upstream", attributes{"latency": 20, "jitter": 15})
	r.proxy.add(t, "bandwidth", "upstream", attributes{"rate": 400}) // KB/s
	r.proxy.add(t, "bandwidth", "downstream", attributes{"rate": 400})
	var names []string
	for i := range 40 {
		names = append(names, target(fmt.Sprint("many-", i)))
	}
	for _, a := range askings {
		start := time.Now()
		must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
		t.Logf("%s of %d takes %v", a.name, len(names), brief(time.Since(start)))
	}
	s.awaitReady(t)
	if stats := s.store.Stats(); stats.BreakerTrips != 0 {
		t.Errorf("%+v", stats)
	}
	r.proxy.clear(t)
	b.retryAll(t, s)
	b.check(t, r)
}

// A batch that is too large for the network's speed is refused item by item, and the retry
// finds the parts that arrived.
func TestABatchThatIsTooLargeForTheNetworkIsRecordedOnceByRetries(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t)
	b := newBook()
	var names []string
	for i := range 300 {
		names = append(names, target(fmt.Sprint("many-", i)))
	}
	first := b.requests(names...)
	eventually(t, notice, "the batch succeeds", func() error { return errors.Join(s.batch(t.Context(), b, first)...) })
	r.proxy.add(t, "bandwidth", "upstream", attributes{"rate": 100}) // KB/s, a tenth of what is needed
	refused(t, unavailable, s.batch(t.Context(), b, b.requests(names...))...)
	r.proxy.clear(t)
	eventually(t, notice, "calls succeed again", func() error { return s.recommend(t.Context(), b, b.request(probe)) })
	b.retryAll(t, s)
	b.check(t, r)
}

// More concurrent calls than connections wait for one, some of them too long. That says nothing
// about Redis: there are too few connections, or too many calls.
func TestABurstBeyondThePoolDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	// Far longer than it takes Redis to answer, also on a busy machine, and shorter than
	// it takes to answer all.
	const timeout = 3 * time.Second
	s := r.start(t, func(su *setup) { su.redis.PoolSize, su.redis.Timeout = 2, timeout })
	b := newBook()
	must(t, s.recommend(t.Context(), b, b.request(probe)), s.recommend(t.Context(), b, b.request(probe)))
	r.proxy.add(t, "latency", "downstream", attributes{"latency": timeout.Milliseconds() / 6})
	var names []string
	for i := range 60 {
		names = append(names, target(fmt.Sprint("burst-", i)))
	}
	refusals := 0
	for _, err := range s.stream(t.Context(), b, b.requests(names...)) {
		if err != nil {
			refused(t, unavailable, err)
			refusals++
		}
	}
	stats := s.store.Stats()
	t.Logf("%d of %d calls refused, %d waits for a connection given up", refusals, len(names), stats.PoolTimeouts)
	if stats.BreakerTrips != 0 {
		t.Errorf("the breaker opened: %+v", stats)
	}
	must(t, s.recommend(t.Context(), b, b.request(probe)))
	r.proxy.clear(t)
	b.retryAll(t, s)
	b.check(t, r)
}
