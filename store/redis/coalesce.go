package redis

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxFlights is how many round trips of a coalescer may be in flight; further swaps
	// gather for the next one.
	maxFlights = 2
	// maxCoalesced limits the swaps of one round trip.
	maxCoalesced = 256
	// clusterCoalescers is how many coalescers share the slots of a Cluster, so that a
	// shard that does not respond delays the swaps of its slots only.
	clusterCoalescers = 16
)

// coalescer batches the swaps of concurrent callers: swaps that arrive while others are
// in flight share the next round trip. A lone caller does not wait. This saves system
// calls, which cost more than the swaps.
type coalescer struct {
	mu      sync.Mutex
	waiting []*pendingSwap // guarded by mu
	flights int            // guarded by mu
}

func (s *Store) coalescerOf(bucket int) *coalescer {
	return &s.coalescers[bucket*len(s.coalescers)/bucketCount]
}

// swapPool pools *pendingSwap without references to callers. A swap whose caller
// stopped waiting is not returned to it.
var swapPool = sync.Pool{New: func() any { return &pendingSwap{done: make(chan struct{}, 1)} }}

// coalesce performs a swap together with others.
func (s *Store) coalesce(ctx context.Context, swap *store.Swap) (store.SwapResult, error) {
	p := swapPool.Get().(*pendingSwap)
	var to texts
	to.Grow(s.layout.size(swap))
	p.begin(s.layout, swap, &to)
	c := s.coalescerOf(s.layout.bucket(swap.Key))
	c.mu.Lock()
	c.waiting = append(c.waiting, p)
	fly := c.flights < maxFlights
	if fly {
		c.flights++
	}
	c.mu.Unlock()
	if fly {
		s.runFlight(ctx, c, p)
	}
	select {
	case <-p.done:
		result, err := p.result, p.err
		*p = pendingSwap{done: p.done}
		swapPool.Put(p)
		return result, err
	case <-ctx.Done():
		return store.SwapResult{}, fmt.Errorf("swap: %w: %w", store.ErrUnavailable, ctx.Err())
	}
}

// runFlight performs the waiting swaps, and those that arrive meanwhile. The context is that of own, which another flight
// may have taken already; nil: it is nobody's.
func (s *Store) runFlight(ctx context.Context, c *coalescer, own *pendingSwap) {
	c.mu.Lock()
	n := min(len(c.waiting), maxCoalesced)
	flight := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	c.mu.Unlock()
	if own != nil && (n != 1 || flight[0] != own) {
		// One caller's cancellation must not cancel the others' swaps, nor may these keep it.
		go s.fly(context.WithoutCancel(ctx), c, flight)
		return
	}
	s.fly(ctx, c, flight)
}

// fly performs the swaps of a flight.
func (s *Store) fly(ctx context.Context, c *coalescer, flight []*pendingSwap) {
	s.performSwaps(ctx, flight)
	for _, p := range flight {
		p.done <- struct{}{}
	}
	c.mu.Lock()
	more := len(c.waiting) > 0
	if !more {
		c.flights--
	}
	c.mu.Unlock()
	if more {
		go s.runFlight(context.WithoutCancel(ctx), c, nil)
	}
}
