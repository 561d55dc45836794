package unfinished

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
)

// small is what each may hold without being counted, so that small messages, which are most,
// need not be counted with those of all others. It is counted in full once it is more.
const small = 16 << 10

// DefaultStreams is how many streams a connection may have that the server has not ended.
const DefaultStreams = 10_000

// Options are the bounds of a Meter.
type Options struct {
	// Bytes bounds what all hold together that hold more than 16 KiB.
	Bytes int64
	// Answers bounds the same of answers that were not sent, where more than one holds them; 0:
	// nothing does.
	Answers int64
	// Streams is how many streams a connection may have that the server has not ended; 0:
	// DefaultStreams.
	Streams int
	// Bodies bounds how many messages are begun by themselves and not ended; 0: any number.
	Bodies int
}

// Meter counts unfinished messages and answers. Its methods may be called concurrently.
type Meter struct {
	options Options
	cut     atomic.Uint64
	// answers counts those that were not sent; nil in itself.
	answers *Meter
	// lone lets one that holds much alone hold more than the bound: an answer may be larger.
	lone bool

	mu     sync.Mutex
	bytes  int64                // guarded by mu; of those that hold much
	much   map[*Holder]struct{} // guarded by mu; those that hold more than small
	bodies list.List            // guarded by mu; of *Holder, the oldest first
}

// New returns a Meter.
func New(options Options) *Meter {
	if options.Streams == 0 {
		options.Streams = DefaultStreams
	}
	m := &Meter{options: options, much: make(map[*Holder]struct{})}
	m.answers = &Meter{options: Options{Bytes: options.Answers}, much: make(map[*Holder]struct{}), lone: true}
	if options.Answers == 0 {
		m.answers.options.Bytes = math.MaxInt64
	}
	return m
}

// Answers returns the Meter of answers that were not sent.
func (m *Meter) Answers() *Meter { return m.answers }

// Cut returns how many were cut.
func (m *Meter) Cut() uint64 { return m.cut.Load() }

// Bytes returns what those hold together that hold more than 16 KiB.
func (m *Meter) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Holder is one that is counted: a connection, or a message by itself.
type Holder struct {
	meter *Meter
	// end cuts off what it counts; it must not block.
	end  func()
	body bool

	mu    sync.Mutex
	held  int64 // guarded by mu
	known bool  // guarded by mu; the meter knows that it holds much, or did
	ended bool  // guarded by mu

	// Guarded by meter.mu: its part of meter.bytes, its place among the bodies, and
	// whether it had to make way.
	counted int64
	place   *list.Element
	gone    bool
}

// Begin counts a message that comes by itself. Cut is called, once at most and from
// wherever, if it must make way; it must not block.
func (m *Meter) Begin(cut func()) *Holder {
	h := &Holder{meter: m, end: cut, body: true}
	m.mu.Lock()
	h.place = m.bodies.PushBack(h)
	var oldest *Holder
	if m.options.Bodies > 0 && m.bodies.Len() > m.options.Bodies {
		oldest = m.bodies.Front().Value.(*Holder)
		m.removeLocked(oldest)
	}
	m.mu.Unlock()
	m.makeWay(oldest)
	return h
}

// Add counts bytes that came.
func (h *Holder) Add(bytes int) {
	h.mu.Lock()
	h.held += int64(bytes)
	most := h.count()
	h.mu.Unlock()
	h.meter.makeWay(most)
}

// Finished takes away the bytes of a message that is complete.
func (h *Holder) Finished(bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = max(0, h.held-int64(bytes))
	h.count()
}

// Held returns how many bytes it holds.
func (h *Holder) Held() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// End ends the counting.
func (h *Holder) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held, h.ended = 0, true
	if !h.known && !h.body {
		return
	}
	h.meter.mu.Lock()
	defer h.meter.mu.Unlock()
	h.meter.removeLocked(h)
}

// count tells the meter about a holder that holds much, or did, and returns which holder must
// make way; nil if none must. The holder is locked.
func (h *Holder) count() *Holder {
	much := h.held
	if much <= small || h.ended {
		much = 0
	}
	if much == 0 && !h.known {
		return nil
	}
	m := h.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	h.known = much > 0
	if h.gone {
		return nil
	}
	m.bytes += much - h.counted
	if h.counted = much; much == 0 {
		delete(m.much, h)
		return nil
	}
	m.much[h] = struct{}{}
	if m.bytes <= m.options.Bytes || m.lone && len(m.much) == 1 {
		return nil
	}
	return m.mostLocked()
}

// mostLocked removes and returns the holder with the most bytes.
func (m *Meter) mostLocked() *Holder {
	var most *Holder
	for h := range m.much {
		if most == nil || h.counted > most.counted {
			most = h
		}
	}
	m.removeLocked(most)
	return most
}

// removeLocked forgets one, for good.
func (m *Meter) removeLocked(h *Holder) {
	m.bytes -= h.counted
	h.counted, h.gone = 0, true
	delete(m.much, h)
	if h.place != nil {
		m.bodies.Remove(h.place)
		h.place = nil
	}
}

// makeWay cuts a holder; nil: none.
func (m *Meter) makeWay(h *Holder) {
	if h != nil {
		m.cut.Add(1)
		h.end()
	}
}
