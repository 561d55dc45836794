package limit

import "sync/atomic"

// Origin is the connection of a call, known before its caller is. The zero value is one without calls. It must not be copied, and may be used
// concurrently.
//
// A call is refused for Overload before its caller is known, as soon as its headers are
// read; else refusing it would cost what answering it does. A caller who tries again at once,
// thousands of times a second, then takes nearly every place that gets free, though it may
// keep few of them once it is known, and one who calls seldom finds none. So a few places
// more are for calls of origins that hold none.
type Origin struct {
	// held are tickets that are not released.
	held atomic.Int64
}

// isIdle reports whether no calls of the origin hold a ticket, but for so many.
func (o *Origin) isIdle(but int64) bool { return o != nil && o.held.Load() <= but }

func (o *Origin) add(n int64) {
	if o != nil {
		o.held.Add(n)
	}
}

// mayRunOf is how many calls may run if one more is from such an origin.
func mayRunOf(mayRun int64, idle bool) int64 {
	if !idle || mayRun == noLimit {
		return mayRun
	}
	return mayRun + max(1, mayRun/4)
}
