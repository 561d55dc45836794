package agent

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestNextRound(t *testing.T) {
	t.Parallel()
	for range 2000 {
		period := time.Duration(1+rand.IntN(3600)) * time.Second
		now := time.Unix(1_700_000_000+rand.Int64N(1e8), rand.Int64N(1e9))
		namespace := fmt.Sprint("ns-", rand.IntN(50))
		next := nextRound(now, period, namespace)
		if wait := next.Sub(now); wait <= period/2 || wait > period+period/2 {
			t.Fatalf("%s after %s, period %s", wait, now, period)
		}
		if other := nextRound(next.Add(time.Duration(rand.Int64N(int64(period/2)))), period, namespace); !other.Equal(next.Add(period)) {
			t.Fatalf("a round that begins late is followed at %s, want %s", other, next.Add(period))
		}
	}
}

func TestNamespacesAreSpread(t *testing.T) {
	t.Parallel()
	const tenths = 10
	var in [tenths]int
	for i := range 1000 {
		in[int64(shiftOf(fmt.Sprint("namespace-", i), period))*tenths/int64(period)]++
	}
	for i, n := range in {
		if n < 50 || n > 200 {
			t.Errorf("%d of 1000 namespaces in tenth %d of the period", n, i)
		}
	}
}

func TestRetryAt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for failures, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 16} {
		if got := retryAt(now, failures, time.Hour, "shop").Sub(now); got != want*time.Second {
			t.Errorf("after %d failures: %s, want %ds", failures, got, want)
		}
	}
	for _, failures := range []int{6, 60, 6000} {
		if got, next := retryAt(now, failures, 20*time.Second, "shop"), nextRound(now, 20*time.Second, "shop"); got.After(next) {
			t.Errorf("after %d failures at %s, later than the next round at %s", failures, got, next)
		}
	}
}
