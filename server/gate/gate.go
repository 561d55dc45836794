// Package gate limits the memory of the messages in progress.
//
// The memory of a message is known only after it was read, so there are two limits: few are
// read at a time, which costs nothing with as many readers as processors; and while the
// messages already read take Options.Bytes, no large one is started.
//
//	g := gate.New(gate.Options{Bytes: 64 << 20, Readers: 2, Waiting: 1024})
//	var pass gate.Pass
//	if err := g.Enter(ctx, &pass, caller, large); err != nil { ... } // waits for its turn
//	... // read the message
//	if !pass.Read(bytes) { ... }                             // it takes so much: refuse it
//	... // decide, and make the answer
//	pass.Leave()
//
// Small messages have their own readers, so that they overtake large ones. Callers take
// turns, however many messages of each wait.
package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrFull means that too many messages wait, of all callers or of this one.
var ErrFull = errors.New("too many large messages wait")

// Free is the memory of a message that is not counted, in bytes.
const Free = 64 << 10

// Options are the limits of a Gate.
type Options struct {
	// Bytes is the memory of messages already read beyond which large ones have to wait.
	Bytes int64
	// Readers is how many small messages, and how many large ones, are read at once.
	Readers int
	// Waiting limits how many large messages wait; small ones wait only a moment. No caller
	// may have more of them than there are free places, so that the next caller finds some.
	Waiting int
}

// Gate limits the messages in progress. Its methods may be called concurrently.
type Gate struct {
	options Options

	mu           sync.Mutex
	held         int64 // guarded by mu; memory of the messages already read
	small, large lane  // guarded by mu
}

// New returns an idle Gate.
func New(options Options) *Gate { return &Gate{options: options} }

// Pass is the passage of one message. The zero value has not entered; Leave ends it and
// may be called at any time. It is not safe for concurrent use.
type Pass struct {
	gate    *Gate
	large   bool
	reading bool
	bytes   int64
}

// TryEnter is Enter for a message that need not wait; false: it would have to.
func (g *Gate) TryEnter(p *Pass, large bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enterLocked(p, large)
}

func (g *Gate) enterLocked(p *Pass, large bool) bool {
	*p = Pass{gate: g, large: large}
	if lane := g.lane(large); g.open(lane) { // then none waits
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
	case <-place.turn: // its turn came meanwhile
		lane.reading--
	default:
		lane.remove(place)
	}
	g.callLocked()
	return ctx.Err()
}

type passKey struct{}

// With returns the context of a call whose message has a pass.
func With(ctx context.Context, p *Pass) context.Context { return context.WithValue(ctx, passKey{}, p) }

// Of returns the pass of a call's message; nil: it has none.
func Of(ctx context.Context) *Pass {
	p, _ := ctx.Value(passKey{}).(*Pass)
	return p
}

// Entered reports whether the message may be read.
func (p *Pass) Entered() bool { return p.reading }

// Read records that the message, which has entered, has been read and that it, with everything derived from it,
// takes that many bytes until it leaves. False: there is not enough memory, and it has left.
// That happens to small messages that turn out to be expensive while large ones wait.
func (p *Pass) Read(bytes int64) bool {
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

// Holds reports whether memory is counted for the message. Then it must not wait in Enter for more: all that hold some
// would wait for one another.
func (p *Pass) Holds() bool { return p.bytes > 0 }

// More records that a message that holds memory takes that many bytes more until it leaves. It never waits. False: there
// is not enough memory, and the message has what it had.
func (p *Pass) More(bytes int64) bool {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held >= 2*g.options.Bytes {
		return false
	}
	p.bytes += bytes
	g.held += bytes
	return true
}

// Leave records that the message and everything derived from it is freed.
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

// Held returns the memory of messages that were read and have not left, in bytes.
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

// callLocked admits the next messages.
func (g *Gate) callLocked() {
	for _, lane := range [...]*lane{&g.small, &g.large} {
		for lane.waiting > 0 && g.open(lane) {
			lane.reading++
			close(lane.next().turn)
		}
	}
}
