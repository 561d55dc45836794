package feed

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

// Event has decisions, and the number of decisions missed before them.
type Event struct {
	// Decisions are encoded messages WatchedDecision in their order, shared with other watchers:
	// they must not be changed. None: this is a heartbeat.
	Decisions [][]byte
	// Missed is how many decisions before them were missed, at most math.MaxInt32. Uncounted
	// reports that an unknown number of others was missed.
	Missed    int32
	Uncounted bool
	// Position is the watcher's position after them, for each part; it belongs to the
	// caller.
	Position []store.FeedPosition
}

// eventBytes limits the decisions of an event, in bytes: a caller can receive as much without
// reading, and the whole response fits into 32 KiB, the size of memory that is reused.
const eventBytes = 24 << 10

// takenAtOnce is how many decisions a watcher takes from the hub at once: it keeps them until they
// are sent, even when the hub has dropped them.
const takenAtOnce = 32

// Watcher takes decisions from a hub. Its methods are for one goroutine.
type Watcher struct {
	hub    *Hub
	filter Filter
	viewer Viewer
	ready  chan struct{}
	closed bool // guarded by hub.mu
	place  int  // its index among the watchers with the same names; guarded by hub.mu

	// The fields up to mu belong to the watcher's goroutine.

	position []store.FeedPosition
	// skip is the position up to which another instance that was ahead has already
	// sent.
	skip   []store.FeedPosition
	resets int
	replay *replay // nil: the replay is finished
	// numbers and taken are the decisions taken from its queue and not checked yet.
	numbers    []uint64
	taken      []*item
	unreported missed // to report in the next event

	mu     sync.Mutex
	queue  []uint64 // numbers in the hub's ring; guarded by mu
	missed missed   // since decisions were last taken from the queue; guarded by mu
}

// missed counts the decisions that a watcher did not get.
type missed struct {
	decisions uint64
	uncounted bool // an unknown number of others was missed, too
}

func (m *missed) add(other missed) {
	m.decisions += other.decisions
	m.uncounted = m.uncounted || other.uncounted
}

// newWatcher returns a watcher to add to the hub. The caller has locked h.mu.
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
		case !from[part].Before(h.position[part]): // perhaps in the future: the same as now
			from[part] = h.position[part]
		}
	}
	w.position = from
	w.replay = newReplay(w, slices.Clone(from), slices.Clone(h.position))
	return w
}

// Close removes the watcher.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.hub.index.remove(w)
	}
}

// Ready receives a value when there may be decisions to take.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// maySee reports whether the watcher requested a decision and may see it.
func (w *Watcher) maySee(it *item) bool {
	return (!w.filter.ChangesOnly || it.fed.Changes) && (w.viewer.Sees == nil || w.viewer.Sees(it.key.Cluster, it.key.Namespace))
}

// offer queues a decision for the watcher, which is interested in its target, and reports
// whether it did, and whether the queue was empty. The caller has locked h.mu.
func (w *Watcher) offer(n uint64, it *item) (queued, first bool) {
	if !w.maySee(it) {
		return false, false
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
	return true, first
}

// wake signals Ready.
func (w *Watcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// lost counts unreadable entries. They count as missed if the watcher may see all of them.
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

// Take returns queued decisions in their order: at most that many, and no more than fit into some
// 24 KiB. If there are none it returns false; Ready signals when there may be some, even while the
// watcher's replay is being read. After an error of the store the watcher is of no use.
func (w *Watcher) Take(ctx context.Context, most int) (e Event, ok bool, err error) {
	for bytes := 0; len(e.Decisions) < most && bytes < eventBytes; {
		it, err := w.next(ctx)
		if err != nil {
			return Event{}, false, err
		}
		if it == nil {
			break
		}
		// The permission may have changed while it was queued.
		if w.maySee(it) {
			if decision := it.encoded(); decision != nil {
				e.Decisions = append(e.Decisions, decision)
				bytes += len(decision)
			} else {
				w.unreported.uncounted = true
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

// next returns the next decision that the filter selects, and moves the watcher there; nil if
// there is none.
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
		w.queue = nil // free the memory of a burst
	}
	w.unreported.add(w.missed)
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
		w.unreported.decisions += uint64(dropped)
		w.hub.missed.Add(int64(dropped))
	}
	return true
}

// replayed ends the replay. The watcher is now at the hub's position of that time, even if
// nothing followed the instant that it requested.
func (w *Watcher) replayed() {
	for part := range w.position {
		if instant(w.position[part]) {
			w.position[part] = w.replay.until[part]
		}
	}
	w.replay = nil
}

// Beat returns a heartbeat: an event without decisions.
func (w *Watcher) Beat() (e Event) {
	w.finish(&e)
	return e
}

// finish sets the watcher's position in an event, and what it has missed so far.
func (w *Watcher) finish(e *Event) {
	if len(w.taken) == 0 {
		w.catchUp()
	}
	e.Position = slices.Clone(w.position)
	e.Missed, e.Uncounted = int32(min(w.unreported.decisions, math.MaxInt32)), w.unreported.uncounted
	w.unreported = missed{}
}

// catchUp moves the watcher to the hub's position, if its queue is empty: it is not
// interested in what is in between. The event reports what it missed up to there.
func (w *Watcher) catchUp() {
	w.hub.mu.RLock()
	position, resets := w.hub.position, w.hub.resets
	w.hub.mu.RUnlock()
	w.mu.Lock()
	waits := len(w.queue) > 0
	if !waits || w.replay != nil {
		w.unreported.add(w.missed)
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
