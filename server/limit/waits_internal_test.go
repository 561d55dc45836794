package limit

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The waits that Go's scheduler reports must be real, whichever part of them this
// release of Go samples.
func TestSchedulerTellsHowLongGoroutinesWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	waits := newSchedulerWaits()
	before := waits.total()
	var waited atomic.Int64
	var running sync.WaitGroup
	for range 4000 {
		since := time.Now()
		running.Go(func() {
			waited.Add(int64(time.Since(since)))
			for began := time.Now(); time.Since(began) < 20*time.Microsecond; {
			}
		})
	}
	running.Wait()
	told := waits.total() - before
	if ratio := float64(told) / float64(waited.Load()); ratio < .7 || ratio > 2.4 {
		t.Errorf("told %v of %v: %.2f", told, time.Duration(waited.Load()), ratio)
	}
}

func TestMiddleOfBuckets(t *testing.T) {
	for _, test := range []struct{ low, high, want float64 }{
		{1, 2, 1.5}, {math.Inf(-1), 0, 0}, {math.Inf(-1), 3, 3}, {5, math.Inf(1), 5}, {math.Inf(-1), math.Inf(1), 0},
	} {
		if got := middle(test.low, test.high); got != test.want && !math.IsInf(test.high, 1) {
			t.Errorf("%v to %v: %v", test.low, test.high, got)
		}
		if got := middle(test.low, test.high); math.IsInf(got, -1) || math.IsNaN(got) {
			t.Errorf("%v to %v: %v", test.low, test.high, got)
		}
	}
}
