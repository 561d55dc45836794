package feed

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

// Event is a decision, and what came before it.
type Event struct {
	// Response is an encoded WatchDecisionsResponse with the decision and its target, and nothing
	// else: it is shared with other watchers and must not be changed. Nil: there is none.
	Response []byte
	// Missed is how many decisions before it were missed, at most math.MaxInt32. Uncounted says
	// that others were, and nobody knows how many of the watcher's.
	Missed    int32
	Uncounted bool
	// Position is where the watcher is now, of each part; it belongs to the caller.
	Position []store.FeedPosition
}

// Watcher takes decisions from a hub. Its methods are for one goroutine.
type Watcher struct {
	hub    *Hub
	filter Filter
	sees   func(cluster, namespace string) bool
	ready  chan struct{}
	closed bool

	// The rest up to mu belongs to the watcher's goroutine.

	position []store.FeedPosition
	// skip is what was sent by another instance that was ahead.
	skip   []store.FeedPosition
	resets int
	replay *replay // nil: there is nothing before what is new

	mu     sync.Mutex
	queue  []uint64 // of the hub's ring; guarded by mu
	missed uint64   // guarded by mu
	// uncounted says that others were missed; guarded by mu.
	uncounted bool
}

// newWatcher returns a watcher that is to be added. h.mu is held.
func newWatcher(h *Hub, filter Filter, sees func(cluster, namespace string) bool, from []store.FeedPosition) *Watcher {
	w := &Watcher{
		hub: h, filter: filter, sees: sees, ready: make(chan struct{}, 1), resets: h.resets,
		position: slices.Clone(h.position), skip: make([]store.FeedPosition, h.parts),
	}
	if from == nil {
		return w
	}
	from = slices.Clone(from)
	for part := range from {
		switch {
		case !instant(from[part]):
			w.skip[part] = from[part]
		case !from[part].Before(h.position[part]): // maybe one to come: this is as good as now
			from[part] = h.position[part]
		}
	}
	w.position = from
	w.replay = newReplay(w, slices.Clone(from), slices.Clone(h.position))
	return w
}

// Close ends the watching.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.hub.index.remove(w)
	}
}

// Ready is told when there may be something to take.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// maySee reports whether a decision is one that the watcher asked for and may see.
func (w *Watcher) maySee(it *item) bool {
	return (!w.filter.ChangesOnly || it.fed.Changes) && (w.sees == nil || w.sees(it.key.Cluster, it.key.Namespace))
}

// offer has a decision wait for the watcher, which is interested in its target. h.mu is held.
func (w *Watcher) offer(n uint64, it *item) {
	if !w.maySee(it) {
		return
	}
	w.mu.Lock()
	if len(w.queue) >= w.hub.options.Queue {
		w.queue = w.queue[1:]
		w.missed++
		w.hub.missed.Add(1)
	}
	w.queue = append(w.queue, n)
	w.mu.Unlock()
	w.wake()
}

// wake tells Ready.
func (w *Watcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// lost takes note of entries that nobody could read. They count where all of them were the
// watcher's to see.
func (w *Watcher) lost(counted uint64, uncounted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.filter == (Filter{}) && w.sees == nil {
		w.missed += counted
	} else {
		uncounted = uncounted || counted > 0
	}
	w.uncounted = w.uncounted || uncounted
}

// Take returns the next decision, if there is one. It may return none after it has read for a
// while what was before the watcher: Ready is told, and it goes on with the next call. The error
// is the store's, and the watcher of no use then.
func (w *Watcher) Take(ctx context.Context) (Event, bool, error) {
	for pages := 0; w.replay != nil; {
		it, more, err := w.replay.next(ctx, &pages)
		switch {
		case err != nil:
			return Event{}, false, err
		case it == nil && more:
			w.wake()
			return Event{}, false, nil
		case it == nil:
			w.replayed()
			continue
		}
		w.position[it.part] = it.position
		if w.filter.matches(it.key) && w.maySee(it) {
			return w.event(it), true, nil
		}
	}
	for {
		n, waits := w.next()
		if !waits {
			return Event{}, false, nil
		}
		w.hub.mu.RLock()
		it, resets := w.hub.ring.get(n), w.hub.resets
		w.hub.mu.RUnlock()
		if resets != w.resets {
			clear(w.skip)
		}
		if it == nil {
			w.mu.Lock()
			w.missed++
			w.mu.Unlock()
			w.hub.missed.Add(1)
			continue
		}
		if !w.skip[it.part].Before(it.position) {
			continue
		}
		w.position[it.part] = it.position
		if w.maySee(it) { // which may have changed
			return w.event(it), true, nil
		}
	}
}

// replayed takes note that nothing is left of what was before the watcher. It is where the hub
// was then, also where it asked for an instant that nothing came after.
func (w *Watcher) replayed() {
	for part := range w.position {
		if instant(w.position[part]) {
			w.position[part] = w.replay.until[part]
		}
	}
	w.replay = nil
}

// next returns the number of the next decision that waits.
func (w *Watcher) next() (n uint64, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.queue = nil // a burst's memory is not kept
		return 0, false
	}
	n = w.queue[0]
	w.queue = w.queue[1:]
	return n, true
}

// Beat returns a sign of life: an event without a decision.
func (w *Watcher) Beat() Event { return w.event(nil) }

// event makes an event of an item, which may be nil.
func (w *Watcher) event(it *item) Event {
	w.catchUp()
	e := Event{Position: slices.Clone(w.position)}
	w.mu.Lock()
	e.Missed, e.Uncounted = int32(min(w.missed, math.MaxInt32)), w.uncounted
	w.missed, w.uncounted = 0, false
	w.mu.Unlock()
	if it != nil {
		e.Response = it.encoded()
		w.hub.sent.Add(1)
	}
	return e
}

// catchUp moves the watcher to where the hub is, if nothing waits: what is between is nothing
// of its own.
func (w *Watcher) catchUp() {
	if w.replay != nil {
		return
	}
	w.hub.mu.RLock()
	position, resets := w.hub.position, w.hub.resets
	w.hub.mu.RUnlock()
	w.mu.Lock()
	waits := len(w.queue) > 0
	w.mu.Unlock()
	if waits {
		return
	}
	for part := range w.position {
		if resets != w.resets {
			w.position[part] = position[part]
		} else if w.position[part].Before(position[part]) {
			w.position[part] = position[part]
		}
	}
	w.resets = resets
}
