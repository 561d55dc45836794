// Package sharing gives concurrent callers of the same request one result: a single-flight that
// reuses recent results, and cancels a request once no caller waits for it.
package sharing

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed means that the group makes no more requests.
var ErrClosed = errors.New("closed")

// Group keeps results by key. Callers that arrive during a request wait for it, and its
// result, even an error, is reused while it is young. A result is as old as its request. The
// group drops results that are too old. It is safe for concurrent use.
type Group[V any] struct {
	running sync.WaitGroup

	mu sync.Mutex
	// maxAge of a result that is reused. Guarded by mu.
	maxAge time.Duration
	// closed reports that no more requests are made. Guarded by mu.
	closed bool
	// entries by key. Guarded by mu.
	entries map[string]*entry[V]
}

// entry is one request and its result.
type entry[V any] struct {
	began time.Time
	// done is closed when value and err are set.
	done  chan struct{}
	value V
	err   error
	// waiters counts the callers that wait for the result; the last one to leave
	// cancels the request. Guarded by the mutex of the Group.
	waiters int
	cancel  context.CancelFunc
}

// New returns a group that reuses a result for that long after its request.
func New[V any](maxAge time.Duration) *Group[V] {
	return &Group[V]{maxAge: maxAge, entries: map[string]*entry[V]{}}
}

// Get returns the result for key, calling ask unless there is one already, and reports whether
// another caller's request brought it. It returns early when ctx ends; the request continues
// while any caller waits for it, and at most for timeout. All callers share the result: it
// must not be changed.
func (g *Group[V]) Get(ctx context.Context, key string, timeout time.Duration, ask func(context.Context) (V, error)) (value V, joined bool, err error) {
	return g.GetSince(ctx, key, time.Time{}, timeout, ask)
}

// GetSince is Get of a request that began after an instant, such as that of a change.
func (g *Group[V]) GetSince(ctx context.Context, key string, since time.Time, timeout time.Duration, ask func(context.Context) (V, error)) (value V, joined bool, err error) {
	e, joined := g.join(ctx, key, since, timeout, ask)
	if e == nil {
		return value, false, ErrClosed
	}
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	g.leave(key, e)
	if !e.answered() {
		return value, joined, ctx.Err()
	}
	return e.value, joined, e.err
}

// join returns the entry of key and counts a waiter. Nil: the group is closed.
func (g *Group[V]) join(ctx context.Context, key string, since time.Time, timeout time.Duration, ask func(context.Context) (V, error)) (e *entry[V], joined bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	if e := g.entries[key]; e != nil && e.began.After(since) && (!e.answered() || time.Since(e.began) < g.maxAge) {
		e.waiters++
		return e, true
	}
	e = &entry[V]{began: time.Now(), done: make(chan struct{}), waiters: 1}
	// The end of the first caller's context must not fail the others.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	e.cancel = cancel
	g.entries[key] = e
	g.running.Go(func() {
		defer cancel()
		defer g.dropLater(key, e)
		defer close(e.done)
		e.value, e.err = ask(request)
	})
	return e, false
}

// leave ends the wait of one caller. It cancels a request without waiting callers, and removes
// it, so that new callers do not get the cancellation.
func (g *Group[V]) leave(key string, e *entry[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.waiters--
	if e.answered() || e.waiters > 0 {
		return
	}
	e.cancel()
	g.drop(key, e)
}

// answered reports whether the result is there.
func (e *entry[V]) answered() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// dropLater drops a finished entry when it becomes too old.
func (g *Group[V]) dropLater(key string, e *entry[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	time.AfterFunc(g.maxAge-time.Since(e.began), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.drop(key, e)
	})
}

// drop removes an entry unless another one has replaced it. The caller has locked mu.
func (g *Group[V]) drop(key string, e *entry[V]) {
	if g.entries[key] == e {
		delete(g.entries, key)
	}
}

// SetMaxAge changes how old a reused result may be.
func (g *Group[V]) SetMaxAge(age time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxAge = age
}

// Size returns the number of requests and results, and of waiting callers.
func (g *Group[V]) Size() (kept, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.entries {
		waiting += e.waiters
	}
	return len(g.entries), waiting
}

// Close cancels the requests in progress and waits for their end.
func (g *Group[V]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, e := range g.entries {
		e.cancel()
	}
	g.mu.Unlock()
	g.running.Wait()
}
