package load

import (
	"context"
	"sync"
	"time"
)

// Plan is the plan of an open loop.
type Plan struct {
	// Rate is how many calls are due per second, at equal distances.
	Rate float64
	// Duration is how long calls become due.
	Duration time.Duration
	// InFlight limits the unanswered calls. Calls due beyond it are sent late, and
	// timed from when they were due.
	InFlight int
}

// Open calls at the plan's rate, and returns when all calls have been answered.
func Open(ctx context.Context, plan Plan, call Call) *Result {
	total := NewResult()
	clock, err := newTicker(plan.interval())
	if err != nil {
		total.fail(err)
		return total
	}
	defer clock.stop()
	all := locked{r: total}
	places := make(chan int, plan.InFlight)
	for place := range plan.InFlight {
		places <- place
	}
	var running sync.WaitGroup
	began := time.Now()
	for n, last := 0, plan.calls(); n < last && ctx.Err() == nil; {
		if err := clock.wait(); err != nil {
			total.fail(err)
			break
		}
		for ; n < last && ctx.Err() == nil; n++ {
			due := began.Add(plan.due(n))
			if time.Until(due) > 0 {
				break
			}
			place := <-places
			running.Go(func() {
				late := time.Since(due)
				err := call(ctx, place)
				all.record(late, time.Since(due), err)
				places <- place
			})
		}
	}
	running.Wait()
	total.Elapsed = time.Since(began)
	return total
}

func (p *Plan) calls() int { return int(p.Rate * p.Duration.Seconds()) }

// due is when the n-th call is due, from 0.
func (p *Plan) due(n int) time.Duration {
	return time.Duration(float64(n) / p.Rate * float64(time.Second))
}

// shortestInterval keeps the ticker from using the processor that the service needs.
const shortestInterval = 50 * time.Microsecond

func (p *Plan) interval() time.Duration {
	return max(shortestInterval, time.Duration(float64(time.Second)/p.Rate))
}
