package decisionlog

import (
	"sync"
	"time"
)

// repeatsPeriod is the usual interval between calls for a target.
const repeatsPeriod = 15 * time.Second

// repeatsRoom decides whether unchanged decisions are logged: all of them, or none if
// there are too many. A sample of them would be useless, and with many targets would
// fill the store in the course of a day.
type repeatsRoom struct {
	// most is the maximum number in a period.
	most int

	mu    sync.Mutex
	ends  time.Time // end of the period; guarded by mu
	count int       // in this period so far; guarded by mu
	full  bool      // the previous period had too many; guarded by mu
}

// takes counts one more and reports whether to log it.
func (r *repeatsRoom) takes(now time.Time) bool {
	if r.most <= 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.ends); since >= 0 {
		r.full = since < repeatsPeriod && r.count > r.most
		r.count, r.ends = 0, now.Add(repeatsPeriod)
	}
	r.count++
	return !r.full && r.count <= r.most
}
