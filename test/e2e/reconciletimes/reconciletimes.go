// Package reconciletimes measures the reconciles of an agent by its requests.
package reconciletimes

import (
	"sync"
	"time"
)

// pause is the time between two passes over all objects, longer than any between two requests of one.
const pause = 1500 * time.Millisecond

// Requests records the times of requests. The zero value has none. It is safe for concurrent
// use.
type Requests struct {
	mu    sync.Mutex
	times []time.Time // guarded by mu
}

// Note notes that one came.
func (r *Requests) Note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, time.Now())
}

// Longest is the longest row of requests after an instant without a pause of a second and a
// half: a pass over all objects.
func (r *Requests) Longest(after time.Time) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first, last time.Time
	for _, at := range r.times {
		if at.Before(after) {
			continue
		}
		if first.IsZero() || at.Sub(last) > pause {
			first = at
		}
		last = at
		longest = max(longest, last.Sub(first))
	}
	return longest
}
