package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

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
	kit.Eventually(t, notice, "the batch succeeds", func() error { return errors.Join(s.batch(t.Context(), b, first)...) })
	r.proxy.add(t, "bandwidth", "upstream", attributes{"rate": 100}) // KB/s, a tenth of what is needed
	refused(t, unavailable, s.batch(t.Context(), b, b.requests(names...))...)
	r.proxy.clear(t)
	kit.Eventually(t, notice, "calls succeed again", func() error { return s.recommend(t.Context(), b, b.request(probe)) })
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
