package limit

import (
	"context"
	"sync"
	"time"
)

const (
	// earlyBytes is what a call that is answered early may come to take: 600 bytes that
	// gRPC-Go keeps until its deadline, and then the goroutine that ends its context. All whose
	// deadlines are the same instant, as those of a caller who gives up, have theirs at once:
	// a stack of 2 KiB each, and some 450 bytes that Go never gives back.
	earlyBytes = 600 + 2<<10 + 450
	// earlyTick is how exactly their deadlines are remembered, and earlyTicks how many ticks
	// ahead: gRPC keeps nothing early beyond that time.
	earlyTick  = 250 * time.Millisecond
	earlyTicks = 256
)

// early counts calls that were answered early, and are kept by gRPC until their deadlines. The
// zero value counts none; it may be used concurrently.
type early struct {
	mu sync.Mutex
	// Guarded by mu: all that are kept, those by the tick in which they end (modulo), and the
	// first tick that has not ended.
	kept   int
	ending [earlyTicks]int
	first  int64
}

// keep counts a call with that long to its deadline, and reports whether it may be kept beside
// the others: up to most of them.
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
	// The tick after the deadline's: until then its goroutine has run.
	e.ending[(now+int64(max(0, left)))/int64(earlyTick)%earlyTicks]++
	return true
}

// AnswerEarly reports whether a refused call may be answered where its headers are read
// (grpc.InTapHandle), which is the cheapest; else let its goroutine do it, before it reads
// the body. For what is answered so, gRPC-Go (v1.84 at least) never cancels the context
// that it made, and keeps it until the call's deadline, which the caller chooses. What that
// takes is bounded by Options.EarlyMemory.
func (l *Limiter) AnswerEarly(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	if !has {
		return true
	}
	return l.early.keep(l.now(), deadline.Sub(l.options.Clock()), l.options.EarlyMemory/earlyBytes)
}
