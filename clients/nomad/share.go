package nomad

import (
	"context"
	"sync"
	"time"
)

// reuse is how long a read serves equal requests, from its start. Objects of a namespace are
// due together, so that one list is read for all of them.
const reuse = time.Second

// shared is a single-flight cache: callers that request an item while it is being read wait for
// it. The zero value is empty. It is safe for concurrent use.
type shared[T any] struct {
	mu       sync.Mutex
	readings map[string]*reading[T] // guarded by mu
	swept    time.Time              // guarded by mu
}

type reading[T any] struct {
	began time.Time
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

// get returns a read that began within the time of reuse and after since; it starts one if
// there is none. The result is shared and must not be changed. get ends with ctx; the read
// continues for other callers, at most until the timeout.
func (s *shared[T]) get(ctx context.Context, key string, since time.Time, timeout time.Duration, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	now := time.Now()
	if s.readings == nil {
		s.readings = map[string]*reading[T]{}
	}
	if now.Sub(s.swept) > reuse {
		s.swept = now
		for key, r := range s.readings {
			if now.Sub(r.began) > max(reuse, timeout) {
				delete(s.readings, key)
			}
		}
	}
	r := s.readings[key]
	if r == nil || !r.began.After(since) || now.Sub(r.began) >= reuse && r.over() {
		r = &reading[T]{began: now, done: make(chan struct{})}
		s.readings[key] = r
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			defer close(r.done)
			r.value, r.err = read(ctx)
		}()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (r *reading[T]) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
