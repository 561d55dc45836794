package unfinished

import (
	"cmp"
	"container/list"
	"math"
	"sync"
	"sync/atomic"
)

// small is what each holder may have without being counted in the total, so that small
// messages, the majority, cost nothing. A larger holder is counted in full.
const small = 16 << 10

// DefaultStreams is how many streams that the server has not ended a connection may have.
const DefaultStreams = 10_000

// Options are the limits of a Meter.
type Options struct {
	// Bytes limits the total of all holders with more than 16 KiB.
	Bytes int64
	// Answers limits the total of unsent responses in the same way, if more than one connection
	// has some; 0: unlimited.
	Answers int64
	// Streams is how many streams that the server has not ended a connection may have; 0:
	// DefaultStreams.
	Streams int
	// Bodies limits the unfinished bodies; 0: unlimited.
	Bodies int
}

// Meter counts unfinished messages and unsent responses. Its methods may be called
// concurrently.
type Meter struct {
	options Options
	cut     atomic.Uint64
	// answers counts the unsent responses; nil in that meter itself.
	answers *Meter
	// lone lets a single large holder exceed the limit: a response may be larger.
	lone bool

	mu     sync.Mutex
	bytes  int64                // guarded by mu; of the large holders
	much   map[*Holder]struct{} // guarded by mu; the holders with more than small
	bodies list.List            // guarded by mu; of *Holder, the oldest first
}

// New returns a Meter.
func New(options Options) *Meter {
	options.Streams = cmp.Or(options.Streams, DefaultStreams)
	m := &Meter{options: options, much: make(map[*Holder]struct{})}
	m.answers = &Meter{options: Options{Bytes: options.Answers}, much: make(map[*Holder]struct{}), lone: true}
	if options.Answers == 0 {
		m.answers.options.Bytes = math.MaxInt64
	}
	return m
}

// Answers returns the Meter of unsent responses.
func (m *Meter) Answers() *Meter { return m.answers }

// Cut returns how many were cut off.
func (m *Meter) Cut() uint64 { return m.cut.Load() }

// Bytes returns the total of the holders with more than 16 KiB.
func (m *Meter) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Holder is something counted: a connection, or a single body.
type Holder struct {
	meter *Meter
	// end cuts it off; it must not block.
	end  func()
	body bool

	mu    sync.Mutex
	held  int64 // guarded by mu
	known bool  // guarded by mu; the meter has counted it as large before
	ended bool  // guarded by mu

	// Guarded by meter.mu: its part of meter.bytes, its element among the bodies, and
	// whether it was cut off.
	counted int64
	place   *list.Element
	gone    bool
}

// Begin counts a single body. Cut is called, at most once and from any goroutine, to
// cut it off; it must not block.
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

// Add counts received bytes.
func (h *Holder) Add(bytes int) {
	h.mu.Lock()
	h.held += int64(bytes)
	most := h.count()
	h.mu.Unlock()
	h.meter.makeWay(most)
}

// Finished subtracts the bytes of a complete message.
func (h *Holder) Finished(bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = max(0, h.held-int64(bytes))
	h.count()
}

// Held returns its bytes.
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

// count updates the meter for a holder that is or was large, and returns the holder to cut
// off; nil for none. The caller has locked the holder.
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

// mostLocked removes and returns the largest holder.
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

// removeLocked removes a holder for good.
func (m *Meter) removeLocked(h *Holder) {
	m.bytes -= h.counted
	h.counted, h.gone = 0, true
	delete(m.much, h)
	if h.place != nil {
		m.bodies.Remove(h.place)
		h.place = nil
	}
}

// makeWay cuts off a holder; nil: none.
func (m *Meter) makeWay(h *Holder) {
	if h != nil {
		m.cut.Add(1)
		h.end()
	}
}
