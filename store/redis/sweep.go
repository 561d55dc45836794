package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	// sweepEvery created keys owe a sweep of twice as many members of the index, so
	// that expired ones are found faster than new ones come.
	sweepEvery = 128
	sweepStep  = 2 * sweepEvery
	// sweepBuckets bounds the buckets of one sweep; where they hold so few members
	// that it matters, there is little to find.
	sweepBuckets = 8
	// sweepTimeout bounds one sweep.
	sweepTimeout = 5 * time.Second
)

// sweeper takes keys out of the index whose records have expired. It goes through
// the buckets in turn, on as new keys are created.
type sweeper struct {
	store  *Store
	debt   atomic.Int64 // created keys that no sweep was made for
	wake   chan struct{}
	done   chan struct{}
	bucket int
	from   string // where to go on in the bucket, for ZRANGE
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

// owe notes created keys.
func (w *sweeper) owe(created int) {
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

func (w *sweeper) wait() { <-w.done }

// sweep looks at the next members. What fails is done another time.
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
