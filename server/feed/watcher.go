package feed

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

// Event is decisions, and what came before them.
type Event struct {
	// Decisions are encoded messages WatchedDecision in their order, shared with other watchers: they
	// must not be changed. None: this is a sign of life.
	Decisions [][]byte
	// Missed is how many decisions before them were missed, at most math.MaxInt32. Uncounted says
	// that others were, and nobody knows how many of the watcher's.
	Missed    int32
	Uncounted bool
	// Position is where the watcher is after them, of each part; it belongs to the caller.
	Position []store.FeedPosition
}

// eventBytes is about what the decisions of an event take at most, in bytes: what a caller can
// receive before it reads.
const eventBytes = 32 << 10

// takenAtOnce is how many decisions a watcher takes from the hub at once: it holds them until they
// are sent, also when the hub has dropped them.
const takenAtOnce = 32

// Watcher takes decisions from a hub. Its methods are for one goroutine.
type Watcher struct {
	hub    *Hub
	filter Filter
	viewer Viewer
	ready  chan struct{}
	closed bool // guarded by hub.mu
	place  int  // among those of the same names in the index; guarded by hub.mu

	// The rest up to mu belongs to the watcher's goroutine.

	position []store.FeedPosition
	// skip is what was sent by another instance that was ahead.
	skip   []store.FeedPosition
	resets int
	replay *replay // nil: there is nothing before what is new
	// numbers and taken are of decisions that it took from its queue and has not looked at.
	numbers []uint64
	taken   []*item
	told    missed // what the next event is to tell

	mu     sync.Mutex
	queue  []uint64 // of the hub's ring; guarded by mu
	missed missed   // since the last decision was taken from the queue; guarded by mu
}

// missed is what a watcher did not get.
type missed struct {
	decisions uint64
	uncounted bool // others were missed, too
}

func (m *missed) add(other missed) {
	m.decisions += other.decisions
	m.uncounted = m.uncounted || other.uncounted
}

// newWatcher returns a watcher that is to be added. h.mu is held.
func newWatcher(h *Hub, filter Filter, viewer Viewer, from []store.FeedPosition) *Watcher {
	w := &Watcher{
		hub: h, filter: filter, viewer: viewer, ready: make(chan struct{}, 1), resets: h.resets,
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
	return (!w.filter.ChangesOnly || it.fed.Changes) && (w.viewer.Sees == nil || w.viewer.Sees(it.key.Cluster, it.key.Namespace))
}

// offer has a decision wait for the watcher, which is interested in its target, and reports
// whether none waited before. h.mu is held.
func (w *Watcher) offer(n uint64, it *item) (first bool) {
	if !w.maySee(it) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	first = len(w.queue) == 0
	if len(w.queue) >= w.hub.options.Queue {
		w.queue = w.queue[1:]
		w.missed.decisions++
		w.hub.missed.Add(1)
	}
	w.queue = append(w.queue, n)
	return first
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
	if w.filter == (Filter{}) && w.viewer.Sees == nil {
		w.missed.decisions += counted
	} else {
		uncounted = uncounted || counted > 0
	}
	w.missed.uncounted = w.missed.uncounted || uncounted
}

// Take returns decisions that wait, in their order: at most so many, and no more than fit into some
// 32 KiB. Without any it returns false; Ready is told when there may be some, also while it reads
// what was before the watcher. The error is the store's, and the watcher of no use then.
func (w *Watcher) Take(ctx context.Context, most int) (e Event, ok bool, err error) {
	for bytes := 0; len(e.Decisions) < most && bytes < eventBytes; {
		it, err := w.next(ctx)
		if err != nil {
			return Event{}, false, err
		}
		if it == nil {
			break
		}
		// Whether it may be seen may have changed while it waited.
		if w.maySee(it) {
			if decision := it.encoded(); decision != nil {
				e.Decisions = append(e.Decisions, decision)
				bytes += len(decision)
			}
		}
	}
	if len(e.Decisions) == 0 {
		return Event{}, false, nil
	}
	w.hub.sent.Add(int64(len(e.Decisions)))
	w.finish(&e)
	return e, true, nil
}

// next returns the next decision that the filter chooses, and moves the watcher there; nil if none
// is there.
func (w *Watcher) next(ctx context.Context) (*item, error) {
	for w.replay != nil {
		it, more, err := w.replay.next(ctx)
		switch {
		case err != nil:
			return nil, err
		case it == nil && more:
			return nil, nil
		case it == nil:
			w.replayed()
			continue
		}
		w.position[it.part] = it.position
		if w.filter.matches(it.key) {
			return it, nil
		}
	}
	for {
		if len(w.taken) == 0 {
			if !w.refill() {
				return nil, nil
			}
			continue // the hub may have dropped all of them
		}
		it := w.taken[0]
		w.taken[0] = nil
		w.taken = w.taken[1:]
		if !w.skip[it.part].Before(it.position) {
			continue
		}
		w.position[it.part] = it.position
		return it, nil
	}
}

// refill takes decisions from the queue, and reports whether there were any.
func (w *Watcher) refill() bool {
	w.mu.Lock()
	w.numbers = append(w.numbers[:0], w.queue[:min(len(w.queue), takenAtOnce)]...)
	if w.queue = w.queue[len(w.numbers):]; len(w.queue) == 0 {
		w.queue = nil // a burst's memory is not kept
	}
	w.told.add(w.missed)
	w.missed = missed{}
	w.mu.Unlock()
	if len(w.numbers) == 0 {
		w.numbers, w.taken = nil, nil
		return false
	}
	w.hub.mu.RLock()
	resets := w.hub.resets
	for _, n := range w.numbers {
		if it := w.hub.ring.get(n); it != nil {
			w.taken = append(w.taken, it)
		}
	}
	w.hub.mu.RUnlock()
	if resets != w.resets {
		clear(w.skip)
	}
	if dropped := len(w.numbers) - len(w.taken); dropped > 0 {
		w.told.decisions += uint64(dropped)
		w.hub.missed.Add(int64(dropped))
	}
	return true
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

// Beat returns a sign of life: an event without decisions.
func (w *Watcher) Beat() (e Event) {
	w.finish(&e)
	return e
}

// finish says in an event where the watcher is, and what it has missed so far.
func (w *Watcher) finish(e *Event) {
	if len(w.taken) == 0 {
		w.catchUp()
	}
	e.Position = slices.Clone(w.position)
	e.Missed, e.Uncounted = int32(min(w.told.decisions, math.MaxInt32)), w.told.uncounted
	w.told = missed{}
}

// catchUp moves the watcher to where the hub is, if nothing waits: what is between is nothing
// of its own. What it missed up to there is told with it.
func (w *Watcher) catchUp() {
	w.hub.mu.RLock()
	position, resets := w.hub.position, w.hub.resets
	w.hub.mu.RUnlock()
	w.mu.Lock()
	waits := len(w.queue) > 0
	if !waits || w.replay != nil {
		w.told.add(w.missed)
		w.missed = missed{}
	}
	w.mu.Unlock()
	if waits || w.replay != nil {
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
