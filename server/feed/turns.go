package feed

import "sync"

// turns limits how many replays are read at once: a call of a few bytes can cause a read of
// the whole feed. Callers take turns, however many watchers each has.
type turns struct {
	mu      sync.Mutex
	free    int
	closed  bool
	callers []string            // waiting callers, next one first; guarded by mu
	waiting map[string][]func() // by caller; guarded by mu
	running sync.WaitGroup
}

func newTurns(atOnce int) *turns { return &turns{free: atOnce, waiting: make(map[string][]func())} }

// ask runs a function for a caller on its turn, in another goroutine; never after close.
func (t *turns) ask(caller string, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[caller]) == 0 {
		t.callers = append(t.callers, caller)
	}
	t.waiting[caller] = append(t.waiting[caller], do)
	t.begin()
}

// begin starts as many as allowed. The caller has locked t.mu.
func (t *turns) begin() {
	for t.free > 0 && len(t.callers) > 0 && !t.closed {
		caller := t.callers[0]
		t.callers = t.callers[1:]
		all := t.waiting[caller]
		if len(all) > 1 {
			t.callers, t.waiting[caller] = append(t.callers, caller), all[1:]
		} else {
			delete(t.waiting, caller)
		}
		t.free--
		t.running.Go(func() {
			defer t.end()
			all[0]()
		})
	}
}

func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.begin()
}

// close starts no more functions, and waits for the running ones.
func (t *turns) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}
