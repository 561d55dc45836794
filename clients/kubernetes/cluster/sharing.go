package cluster

import (
	"context"
	"sync"
	"time"
)

// sharing is a single-flight cache: callers of the same key share one request and its answer,
// even a failure, while it is younger than maxAge. The age counts from the request's start.
// Entries are dropped when they are too old, so that nothing is kept between reconciles.
type sharing[V any] struct {
	tally tally

	mu sync.Mutex
	// maxAge of an answer that is used again. Guarded by mu.
	maxAge time.Duration
	// entries by key. Guarded by mu.
	entries map[string]*shared[V]
}

// shared is one request and its answer.
type shared[V any] struct {
	began time.Time
	// done is closed when value and err are there.
	done  chan struct{}
	value V
	err   error
	// waiters is the number of callers that wait; the last one to leave cancels the request.
	// Guarded by the mutex of sharing.
	waiters int
	cancel  context.CancelFunc
}

func newSharing[V any](tally tally, maxAge time.Duration) *sharing[V] {
	return &sharing[V]{tally: tally, maxAge: maxAge, entries: map[string]*shared[V]{}}
}

// get returns the answer for key, and calls read if there is none yet. It returns early with
// the context's error when ctx ends; the request goes on while others wait for it, and at most
// for timeout.
func (s *sharing[V]) get(ctx context.Context, call Call, key string, timeout time.Duration, read func(context.Context) (V, error)) (V, error) {
	entry := s.join(ctx, call, key, timeout, read)
	select {
	case <-entry.done:
	case <-ctx.Done():
	}
	s.leave(key, entry)
	if err := ctx.Err(); err != nil {
		var none V
		return none, err
	}
	return entry.value, entry.err
}

// join returns the entry of key and counts a waiter.
func (s *sharing[V]) join(ctx context.Context, call Call, key string, timeout time.Duration, read func(context.Context) (V, error)) *shared[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry := s.entries[key]; entry != nil && (!entry.answered() || time.Since(entry.began) < s.maxAge) {
		s.tally.saved(call)
		entry.waiters++
		return entry
	}
	entry := &shared[V]{began: time.Now(), done: make(chan struct{}), waiters: 1}
	// The end of the first caller's context must not end the request of the others.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	entry.cancel = cancel
	s.entries[key] = entry
	go func() {
		defer cancel()
		entry.value, entry.err = read(request)
		s.tally.made(call, entry.err)
		close(entry.done)
		s.dropLater(key, entry)
	}()
	return entry
}

// leave removes a waiter. It cancels a request without waiters and drops its entry, so that no
// further caller gets the cancellation.
func (s *sharing[V]) leave(key string, entry *shared[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.waiters--
	if entry.answered() || entry.waiters > 0 {
		return
	}
	entry.cancel()
	s.drop(key, entry)
}

// answered reports whether the answer is there.
func (e *shared[V]) answered() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// dropLater drops an answered entry when it is too old to be used.
func (s *sharing[V]) dropLater(key string, entry *shared[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.AfterFunc(s.maxAge-time.Since(entry.began), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(key, entry)
	})
}

// drop removes entry unless another has taken its place. s.mu is held.
func (s *sharing[V]) drop(key string, entry *shared[V]) {
	if s.entries[key] == entry {
		delete(s.entries, key)
	}
}

// setMaxAge changes how old an answer may be.
func (s *sharing[V]) setMaxAge(age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxAge = age
}
