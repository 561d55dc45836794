// Package load drives a service and records how it fares.
//
// Closed loops find out how much a service can do: a fixed number of callers, each of
// which calls again as soon as it has an answer. Open loops find out how long a caller
// waits: calls are due at a given rate, whatever has become of those before, and each is
// timed from when it was due. A service that stalls is charged for all calls that it
// kept waiting, not only for the one that it had (no coordinated omission).
//
//	r := load.Open(ctx, load.Plan{Rate: 5000, Duration: 10 * time.Second, InFlight: 1024}, call)
//	fmt.Println(r.Quantile(.99))
package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold microseconds up to a minute, with two significant digits.
const (
	longest = int64(time.Minute / time.Microsecond)
	digits  = 2
)

// Result is what became of calls. Create it by NewResult.
type Result struct {
	// Done and Failed count calls that were answered, and those that were not or with
	// an error, the first of which is Err.
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

// Rate returns the calls answered a second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Done) / r.Elapsed.Seconds()
}

// Quantile returns the time that this share, from 0 to 1, of the answered calls took at
// most, from when they were due. It is exact to a hundredth.
func (r *Result) Quantile(q float64) time.Duration { return quantile(r.latency, q) }

// Late returns how late this share of the calls of an open loop was sent at most. It is
// part of what Quantile tells, and the generator's or the machine's doing.
func (r *Result) Late(q float64) time.Duration { return quantile(r.late, q) }

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(100*q)) * time.Microsecond
}

// Add adds what another loop did at another time.
func (r *Result) Add(other *Result) {
	r.merge(other)
	r.Elapsed += other.Elapsed
}

// merge adds what another caller did at the same time.
func (r *Result) merge(other *Result) {
	r.Done += other.Done
	r.Failed += other.Failed
	if r.Err == nil {
		r.Err = other.Err
	}
	r.latency.Merge(other.latency)
	r.late.Merge(other.late)
}

// Record counts a call that took so long. Not safe for concurrent use.
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

// locked is a result that several callers record in.
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
