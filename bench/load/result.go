// Package load puts load on a service and records its performance.
//
// Closed loops measure the capacity of a service: a fixed number of callers, each of which calls
// again as soon as it has a response. Open loops measure how long a caller waits: calls are due
// at a given rate, whatever happened to earlier ones, and each is timed from when it was due. So
// a stall counts for all calls that had to wait, not only for the one in progress (no coordinated
// omission).
//
//	r := load.Open(ctx, load.Plan{Rate: 5000, Duration: 10 * time.Second, InFlight: 1024}, call)
//	fmt.Println(r.Quantile(.99))
package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms record microseconds up to a minute, with two significant digits.
const (
	longest = int64(time.Minute / time.Microsecond)
	digits  = 2
)

// Result is the results of calls. Create it by NewResult.
type Result struct {
	// Done and Failed count successful calls, and failed ones, the first of which
	// failed with Err.
	Done, Failed int
	Err          error
	// Elapsed is the time from the first call's beginning to the last one's end.
	Elapsed time.Duration

	latency *hdrhistogram.Histogram
	late    *hdrhistogram.Histogram
}

// NewResult returns a result without calls.
func NewResult() *Result { return &Result{latency: newHistogram(), late: newHistogram()} }

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, digits) }

// Rate returns the successful calls per second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Done) / r.Elapsed.Seconds()
}

// Quantile returns the time that this share, from 0 to 1, of the successful calls took
// at most, from when they were due. It is exact to a hundredth.
func (r *Result) Quantile(q float64) time.Duration { return quantile(r.latency, q) }

// Late returns how late at most this share of the calls of an open loop was sent. It is
// part of Quantile, and caused by the generator or the machine.
func (r *Result) Late(q float64) time.Duration { return quantile(r.late, q) }

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(100*q)) * time.Microsecond
}

// Add adds the results of another loop, run at another time.
func (r *Result) Add(other *Result) {
	r.merge(other)
	r.Elapsed += other.Elapsed
}

// merge adds the results of another caller, at the same time.
func (r *Result) merge(other *Result) {
	r.Done += other.Done
	r.Failed += other.Failed
	if r.Err == nil {
		r.Err = other.Err
	}
	r.latency.Merge(other.latency)
	r.late.Merge(other.late)
}

// Record counts a call with that duration. Not safe for concurrent use.
func (r *Result) Record(took time.Duration, err error) {
	if err != nil {
		r.fail(err)
		return
	}
	r.Done++
	_ = r.latency.RecordValue(clamp(took))
}

func (r *Result) fail(err error) {
	r.Failed++
	if r.Err == nil {
		r.Err = err
	}
}

func clamp(d time.Duration) int64 { return max(0, min(longest, d.Microseconds())) }

// locked is a result for several callers.
type locked struct {
	mu sync.Mutex
	r  *Result // guarded by mu
}

func (l *locked) record(late, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.r.late.RecordValue(clamp(late))
	l.r.Record(took, err)
}
