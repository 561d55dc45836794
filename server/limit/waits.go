package limit

import (
	"math"
	"runtime/metrics"
	"time"
)

// schedulerMetric is a histogram of how long runnable goroutines waited for a
// processor.
const schedulerMetric = "/sched/latencies:seconds"

// schedulerSamples is the sampling rate of these waits: the runtime measures one in
// that many (gTrackingPeriod in its source; a test compares it with the runtime). Of a
// goroutine's first waits it measures up to twice as many.
const schedulerSamples = 8

// schedulerWaits reads from Go's scheduler how long goroutines waited for a processor.
type schedulerWaits struct{ samples [1]metrics.Sample }

func newSchedulerWaits() *schedulerWaits {
	return &schedulerWaits{[1]metrics.Sample{{Name: schedulerMetric}}}
}

// total returns approximately how long all goroutines together have waited so far. It
// takes some microseconds.
func (w *schedulerWaits) total() time.Duration {
	metrics.Read(w.samples[:])
	if w.samples[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := w.samples[0].Value.Float64Histogram()
	var seconds float64
	for i, n := range h.Counts {
		if n > 0 {
			seconds += float64(n) * middle(h.Buckets[i], h.Buckets[i+1])
		}
	}
	return time.Duration(schedulerSamples * seconds * float64(time.Second))
}

// middle returns the middle of a bucket; for the outermost ones, the finite boundary.
func middle(low, high float64) float64 {
	switch {
	case math.IsInf(low, -1):
		return max(0, high)
	case math.IsInf(high, 1):
		return low
	}
	return (low + high) / 2
}
