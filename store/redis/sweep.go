package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	// Every sweepEvery created keys cause a sweep of twice as many index members, so
	// that sweeps find expired keys faster than new keys arrive.
	sweepEvery = 128
	sweepStep  = 2 * sweepEvery
	// sweepBuckets limits the buckets of one sweep. Only buckets with few members reach
	// it, where there is little to find.
	sweepBuckets = 8
	// sweepTimeout limits one sweep.
	sweepTimeout = 5 * time.Second
)

// sweeper removes expired keys from the index. It visits the buckets in turn, and
// advances as new keys are created.
type sweeper struct {
	store  *Store
	debt   atomic.Int64 // created keys not yet swept for
	wake   chan struct{}
	done   chan struct{}
	bucket int
	from   string // where to continue in the bucket, for ZRANGE
}

func (w *sweeper) start(s *Store) {
	w.store, w.from = s, "-"
	w.wake, w.done = make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var stopping sync.WaitGroup
	stopping.Go(func() { <-s.closed; cancel() })
	go func() {
		defer close(w.done)
		defer stopping.Wait()
		w.run(ctx)
	}()
}

// addDebt counts created keys, and starts a sweep for every sweepEvery of them.
func (w *sweeper) addDebt(created int) {
	if created == 0 || w.debt.Add(int64(created)) < sweepEvery {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *sweeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for w.debt.Load() >= sweepEvery && ctx.Err() == nil {
			w.debt.Add(-sweepEvery)
			w.sweep(ctx)
		}
	}
}

func (w *sweeper) wait() {
	if w.done != nil {
		<-w.done
	}
}

// sweep checks the next members. It ignores errors: a later sweep tries again.
func (w *sweeper) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	for seen, visited := 0, 0; seen < sweepStep && visited < sweepBuckets; visited++ {
		keys, ended, err := w.members(ctx, sweepStep-seen)
		if err != nil {
			return
		}
		seen += len(keys)
		if alive, err := w.store.exist(ctx, keys); err == nil {
			var dead []store.Key
			for i, key := range keys {
				if !alive[i] {
					dead = append(dead, key)
				}
			}
			w.store.purge(ctx, dead)
		}
		if ended {
			w.bucket, w.from = (w.bucket+1)%bucketCount, "-"
		}
	}
}

// members returns the next members of the bucket, n at most.
func (w *sweeper) members(ctx context.Context, n int) (keys []store.Key, ended bool, err error) {
	errs := w.store.perform(ctx, 1, &exchange{
		operation: "sweep",
		args: func(int, bool) []any {
			return []any{"zrange", w.store.layout.index(w.bucket), w.from, "+", "bylex", "limit", 0, n}
		},
		take: func(_ int, reply any, _ bool) error {
			members, _ := reply.([]any)
			ended = len(members) < n
			for _, member := range members {
				text, _ := member.(string)
				if key, ok := memberKey(text); ok {
					keys = append(keys, key)
				}
				w.from = "(" + text
			}
			return nil
		},
	})
	return keys, ended, joined(errs)
}
