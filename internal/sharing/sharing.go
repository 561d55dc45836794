// Package sharing gives concurrent callers of the same request one answer: a single-flight that
// reuses recent answers, and cancels a request once no caller waits for it.
package sharing

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed says that nothing is asked any more.
var ErrClosed = errors.New("closed")

// Group holds answers by key. Those who ask while a request is under way wait for it, and its
// answer, also a failure, is used again while it is young. An answer is as old as its request.
// What is too old to be used is dropped. It is safe for concurrent use.
type Group[V any] struct {
	running sync.WaitGroup

	mu sync.Mutex
	// maxAge of an answer that is used again. Guarded by mu.
	maxAge time.Duration
	// closed says that nothing is asked any more. Guarded by mu.
	closed bool
	// entries by key. Guarded by mu.
	entries map[string]*entry[V]
}

// entry is one request and its answer.
type entry[V any] struct {
	began time.Time
	// done is closed when value and err are there.
	done  chan struct{}
	value V
	err   error
	// waiters are those who wait for the answer; the last that leaves cancels the
	// request. Guarded by the mutex of the Group.
	waiters int
	cancel  context.CancelFunc
}

// New returns a group whose answers are used again for that long after they were asked for.
func New[V any](maxAge time.Duration) *Group[V] {
	return &Group[V]{maxAge: maxAge, entries: map[string]*entry[V]{}}
}

// Get returns the answer for key, from ask unless there is one already, and whether another's
// request brought it. It returns early when ctx ends; the request goes on as long as somebody
// waits for it, and at most for timeout. What it returns belongs to all who asked: it must not
// be changed.
func (g *Group[V]) Get(ctx context.Context, key string, timeout time.Duration, ask func(context.Context) (V, error)) (value V, joined bool, err error) {
	e, joined := g.join(ctx, key, timeout, ask)
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
func (g *Group[V]) join(ctx context.Context, key string, timeout time.Duration, ask func(context.Context) (V, error)) (e *entry[V], joined bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	if e := g.entries[key]; e != nil && (!e.answered() || time.Since(e.began) < g.maxAge) {
		e.waiters++
		return e, true
	}
	e = &entry[V]{began: time.Now(), done: make(chan struct{}), waiters: 1}
	// The first asker's end must not be that of the others' answer.
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

// leave ends the wait of one caller. A request without waiting callers is cancelled, and others
// don't join it, because they would get the cancellation.
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

// answered tells whether the answer is there.
func (e *entry[V]) answered() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// dropLater drops an answered entry when it is too old to be used.
func (g *Group[V]) dropLater(key string, e *entry[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.maxAge - time.Since(e.began)
	if left <= 0 || g.closed {
		g.drop(key, e)
		return
	}
	time.AfterFunc(left, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.drop(key, e)
	})
}

// drop removes an entry unless another has taken its place. It needs mu.
func (g *Group[V]) drop(key string, e *entry[V]) {
	if g.entries[key] == e {
		delete(g.entries, key)
	}
}

// SetMaxAge changes how old an answer may be.
func (g *Group[V]) SetMaxAge(age time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxAge = age
}

// Size returns how many requests and answers are kept, and how many askers wait.
func (g *Group[V]) Size() (kept, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.entries {
		waiting += e.waiters
	}
	return len(g.entries), waiting
}

// Close cancels what is under way and waits for its end.
func (g *Group[V]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, e := range g.entries {
		e.cancel()
	}
	g.mu.Unlock()
	g.running.Wait()
}
