package load

import (
	"context"
	"sync"
	"time"
)

// Call makes one call, for the caller with that number, from 0. It must be safe for
// concurrent use by different callers.
type Call func(ctx context.Context, caller int) error

// Closed lets that many callers call, each one call after the other, for the duration.
// Calls in flight at the end are finished and count.
func Closed(ctx context.Context, callers int, duration time.Duration, call Call) *Result {
	began := time.Now()
	return Callers(callers, func(caller int, r *Result) {
		for ctx.Err() == nil {
			start := time.Now()
			if start.Sub(began) >= duration {
				return
			}
			err := call(ctx, caller)
			r.Record(time.Since(start), err)
		}
	})
}

// Callers runs that many loops and returns their combined result.
func Callers(callers int, loop func(caller int, r *Result)) *Result {
	results := make([]*Result, callers)
	began := time.Now()
	var running sync.WaitGroup
	for caller := range callers {
		results[caller] = NewResult()
		running.Go(func() { loop(caller, results[caller]) })
	}
	running.Wait()
	total := NewResult()
	for _, r := range results {
		total.merge(r)
	}
	total.Elapsed = time.Since(began)
	return total
}
