package limit

import "sync/atomic"

// Origin is the connection of a call, known before its caller is. The zero value is one without
// calls. It must not be copied, and may be used concurrently.
//
// Overload refuses a call before its caller is known, as soon as its headers are read; later,
// refusing it would cost as much as serving it. A caller that retries at once, thousands of times
// per second, would then take nearly every free place, though it may keep few of them once it is
// known, and a caller with few calls would find none. So a few extra places are reserved for calls
// of origins that hold none.
type Origin struct {
	// held counts the tickets that are not released.
	held atomic.Int64
}

// isIdle reports whether the origin holds no more than that many tickets.
func (o *Origin) isIdle(but int64) bool { return o != nil && o.held.Load() <= but }

func (o *Origin) add(n int64) {
	if o != nil {
		o.held.Add(n)
	}
}

// mayRunOf is the limit of running calls for a new call of such an origin.
func mayRunOf(mayRun int64, idle bool) int64 {
	if !idle || mayRun == noLimit {
		return mayRun
	}
	return mayRun + max(1, mayRun/4)
}
