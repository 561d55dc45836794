package samples

import (
	"context"
	"sync"
	"time"
)

// sharing gives several askers of the same thing one answer: those who ask while a request
// is under way wait for it, and its answer, also a failure, is used again while it is
// young. An answer is as old as its request. It is safe for concurrent use.
type sharing struct {
	// maxAge of an answer that is used again.
	maxAge time.Duration
	// timeout of a request.
	timeout time.Duration

	running sync.WaitGroup

	mu sync.Mutex
	// closed reports whether nothing is asked any more. Guarded by mu.
	closed bool
	// entries by what is asked. Guarded by mu.
	entries map[string]*shared
	// swept is when entries were last dropped. Guarded by mu.
	swept time.Time
}

// shared is one request and its answer.
type shared struct {
	began time.Time
	// done is closed when value and err are there.
	done  chan struct{}
	value any
	err   error
	// waiters is the number of callers that wait; the last one to leave cancels the request.
	// Guarded by the mutex of sharing.
	waiters int
	cancel  context.CancelFunc
}

func newSharing(maxAge, timeout time.Duration) *sharing {
	return &sharing{maxAge: maxAge, timeout: timeout, entries: map[string]*shared{}, swept: time.Now()}
}

// get returns the answer to what key stands for, from ask unless there is one already,
// and whether another's request brought it. It returns early when ctx ends; the request
// goes on as long as somebody waits for it, and at most for the timeout. What it returns
// belongs to all who asked: it must not be changed.
func (s *sharing) get(ctx context.Context, key string, ask func(context.Context) (any, error)) (value any, joined bool, err error) {
	entry, joined := s.join(ctx, key, ask)
	if entry == nil {
		return nil, false, failed(Cancelled, "the sources are closed")
	}
	select {
	case <-entry.done:
	case <-ctx.Done():
	}
	s.leave(key, entry)
	if !entry.answered() {
		return nil, joined, ctx.Err()
	}
	return entry.value, joined, entry.err
}

// join returns the entry of key and counts a waiter. Nil: all is closed.
func (s *sharing) join(ctx context.Context, key string, ask func(context.Context) (any, error)) (entry *shared, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	now := time.Now()
	s.sweep(now)
	if entry := s.entries[key]; entry != nil && (!entry.answered() || now.Sub(entry.began) < s.maxAge) {
		entry.waiters++
		return entry, true
	}
	entry = &shared{began: now, done: make(chan struct{}), waiters: 1}
	// The end of the first caller's context must not end the request of the others.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	entry.cancel = cancel
	s.entries[key] = entry
	s.running.Go(func() {
		defer cancel()
		defer close(entry.done)
		entry.value, entry.err = ask(request)
	})
	return entry, false
}

// leave ends one waiting. A request that nobody waits for any more is cancelled and not
// joined by others, who would be told that it was.
func (s *sharing) leave(key string, entry *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.waiters--
	if entry.answered() || entry.waiters > 0 {
		return
	}
	entry.cancel()
	if s.entries[key] == entry {
		delete(s.entries, key)
	}
}

// answered reports whether the answer is there.
func (e *shared) answered() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// sweep drops answers that are too old to be used, now and then: what is kept is bounded
// by what is asked in a second or the age, whichever is longer. s.mu is held.
func (s *sharing) sweep(now time.Time) {
	if now.Sub(s.swept) < max(s.maxAge, time.Second) {
		return
	}
	s.swept = now
	for key, entry := range s.entries {
		if entry.answered() && now.Sub(entry.began) >= s.maxAge {
			delete(s.entries, key)
		}
	}
}

// close cancels what is under way and waits for its end.
func (s *sharing) close() {
	s.mu.Lock()
	s.closed = true
	for _, entry := range s.entries {
		entry.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}
