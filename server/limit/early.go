package limit

import (
	"context"
	"sync"
	"time"
)

const (
	// earlyBytes is the memory of a call that is refused early: 600 bytes that gRPC-Go keeps
	// until its deadline, and then the goroutine that ends its context. Calls with the same
	// deadline, as those of a caller that gives up, have these goroutines at the same time: a
	// stack of 2 KiB each, and some 450 bytes that Go never frees.
	earlyBytes = 600 + 2<<10 + 450
	// earlyTick is the resolution of their deadlines, and earlyTicks the number of ticks:
	// calls with later deadlines are not refused early.
	earlyTick  = 250 * time.Millisecond
	earlyTicks = 256
)

// early counts calls that were refused early, and that gRPC keeps until their deadlines. The
// zero value counts none; it may be used concurrently.
type early struct {
	mu sync.Mutex
	// Guarded by mu: the number of all such calls, those by the tick in which they end
	// (modulo), and the first tick that has not ended.
	kept   int
	ending [earlyTicks]int
	first  int64
}

// keep counts a call with that long to its deadline, and reports whether gRPC may keep it:
// most limits their number.
func (e *early) keep(now int64, left time.Duration, most int) bool {
	if left > (earlyTicks-2)*earlyTick {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	tick := now / int64(earlyTick)
	for ended := 0; e.first < tick && ended < earlyTicks; ended++ {
		at := &e.ending[e.first%earlyTicks]
		e.kept -= *at
		*at = 0
		e.first++
	}
	e.first = max(e.first, tick)
	if e.kept >= most {
		return false
	}
	e.kept++
	// The tick after the deadline's: by then its goroutine has run.
	e.ending[(now+int64(max(0, left)))/int64(earlyTick)%earlyTicks]++
	return true
}

// AnswerEarly reports whether to refuse a call where its headers are read
// (grpc.InTapHandle), which is cheapest; otherwise its goroutine should do it, before it
// reads the body. For calls refused early, gRPC-Go (at least v1.84) never cancels the
// context that it created, and keeps it until the call's deadline, which the caller
// chooses. Options.EarlyMemory limits that memory.
func (l *Limiter) AnswerEarly(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	if !has {
		return true
	}
	return l.early.keep(l.now(), deadline.Sub(l.options.Clock()), l.options.EarlyMemory/earlyBytes)
}
