// Package gate bounds the memory of the messages that are worked on at once.
//
// What a message takes is known only when it has been read, so there are two bounds: few
// are read at a time, which costs nothing where there are as many readers as processors;
// and while those that were read take Options.Bytes, no large one is begun.
//
//	g := gate.New(gate.Options{Bytes: 64 << 20, Readers: 2, Waiting: 1024})
//	var pass gate.Pass
//	if err := g.Enter(ctx, &pass, caller, large); err != nil { ... } // waits for its turn
//	... // read the message
//	if !pass.Read(bytes) { ... }                             // it takes so much: refuse it
//	... // decide, and make the answer
//	pass.Leave()
//
// Small messages wait only for a reader of their own, so that they pass large ones by.
// Callers take turns, however many messages of each wait.
package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrFull means that as many wait as may, of all callers or of this one.
var ErrFull = errors.New("too many large messages wait")

// Free is what a message may take without being counted, in bytes.
const Free = 64 << 10

// Options are the bounds of a Gate.
type Options struct {
	// Bytes is what those that were read may take together before large ones have to wait.
	Bytes int64
	// Readers is how many small ones, and how many large ones, are read at once.
	Readers int
	// Waiting bounds how many large ones wait; small ones wait only a moment. No caller may
	// have more waiting than there are places left, so that the next one finds some.
	Waiting int
}

// Gate is what messages pass. Its methods may be called concurrently.
type Gate struct {
	options Options

	mu           sync.Mutex
	held         int64 // guarded by mu; what those take that were read
	small, large lane  // guarded by mu
}

// New returns a Gate that nothing has passed.
func New(options Options) *Gate { return &Gate{options: options} }

// Pass is the way of one message. The zero value has not begun; Leave ends it and may be
// called at any time. It is of one goroutine at a time.
type Pass struct {
	gate    *Gate
	large   bool
	reading bool
	bytes   int64
}

// TryEnter is Enter where the message need not wait; false: it has not begun.
func (g *Gate) TryEnter(p *Pass, large bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enterLocked(p, large)
}

func (g *Gate) enterLocked(p *Pass, large bool) bool {
	*p = Pass{gate: g, large: large}
	if lane := g.lane(large); lane.waiting == 0 && g.open(lane) {
		lane.reading++
		p.reading = true
	}
	return p.reading
}

// Enter waits until a caller's message may be read. The error is ErrFull or the context's.
func (g *Gate) Enter(ctx context.Context, p *Pass, caller string, large bool) error {
	g.mu.Lock()
	if g.enterLocked(p, large) {
		g.mu.Unlock()
		return nil
	}
	lane := g.lane(large)
	if large && lane.waitingOf(caller) >= g.options.Waiting-lane.waiting {
		g.mu.Unlock()
		return ErrFull
	}
	place := lane.add(caller)
	g.mu.Unlock()
	select {
	case <-place.turn:
		p.reading = true
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-place.turn: // meanwhile
		lane.reading--
	default:
		lane.remove(place)
	}
	g.callLocked()
	return ctx.Err()
}

// Entered reports whether the message may be read.
func (p *Pass) Entered() bool { return p.reading }

// Read notes that the message has been read and takes so many bytes until it leaves, with
// all that will be made of it. False: there is no room for it, and it has left. That happens
// to small messages that turn out to take much while large ones wait.
func (p *Pass) Read(bytes int64) bool {
	if !p.reading {
		return true
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.reading = false
	g.lane(p.large).reading--
	roomFor := true
	if bytes > Free {
		if roomFor = p.large || g.held < 2*g.options.Bytes; roomFor {
			p.bytes = bytes
			g.held += bytes
		}
	}
	g.callLocked()
	return roomFor
}

// Leave notes that nothing is held of the message any more.
func (p *Pass) Leave() {
	if !p.reading && p.bytes == 0 {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.reading {
		g.lane(p.large).reading--
	}
	g.held -= p.bytes
	p.reading, p.bytes = false, 0
	g.callLocked()
}

// Held returns what messages take that were read and have not left, in bytes.
func (g *Gate) Held() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *Gate) lane(large bool) *lane {
	if large {
		return &g.large
	}
	return &g.small
}

// open reports whether one more of a lane may be read.
func (g *Gate) open(l *lane) bool {
	return l.reading < g.options.Readers && (l == &g.small || g.held < g.options.Bytes)
}

// callLocked lets those in whose turn it is.
func (g *Gate) callLocked() {
	for _, lane := range [...]*lane{&g.small, &g.large} {
		for lane.waiting > 0 && g.open(lane) {
			lane.reading++
			close(lane.next().turn)
		}
	}
}
