package feed

import (
	"sync"
	"time"
)

// turns has replays read one after the other, and rests in between: a call of a few bytes can cause
// a read of the whole feed. Callers take turns, however many watchers each has.
type turns struct {
	done    <-chan struct{} // ends pauses
	mu      sync.Mutex
	busy    bool                // guarded by mu
	closed  bool                // guarded by mu
	callers []string            // waiting callers, next one first; guarded by mu
	waiting map[string][]func() // by caller; guarded by mu
	running sync.WaitGroup
}

func newTurns(done <-chan struct{}) *turns {
	return &turns{done: done, waiting: make(map[string][]func())}
}

// ask runs a function for a caller on its turn, in another goroutine; never after close.
func (t *turns) ask(caller string, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[caller]) == 0 {
		t.callers = append(t.callers, caller)
	}
	t.waiting[caller] = append(t.waiting[caller], do)
	if !t.busy && !t.closed {
		t.busy = true
		t.running.Go(t.run)
	}
}

// run runs what waits.
func (t *turns) run() {
	for do := t.next(); do != nil; do = t.next() {
		began := time.Now()
		do()
		rest(time.Since(began), replayRest, t.done)
	}
}

// next removes the function whose turn it is; nil if there is none.
func (t *turns) next() (do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy = len(t.callers) > 0 && !t.closed; !t.busy {
		return nil
	}
	caller := t.callers[0]
	t.callers = t.callers[1:]
	all := t.waiting[caller]
	if len(all) > 1 {
		t.callers, t.waiting[caller] = append(t.callers, caller), all[1:]
	} else {
		delete(t.waiting, caller)
	}
	return all[0]
}

// close starts no more functions, and waits for the running one.
func (t *turns) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}
