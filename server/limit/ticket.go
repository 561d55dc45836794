package limit

import (
	"context"
	"sync/atomic"
	"time"
)

// Ticket is a call's right to run. The zero value holds nothing. It must not be copied
// after it was passed to a Limiter. Release and Abandon may be called at any time from
// any goroutine; the other methods belong to the call.
type Ticket struct {
	state    atomic.Uint32
	voided   bool // refused after admission
	charged  bool // to its caller, or that was refused
	limiter  *Limiter
	identity *identity // the owner of its units
	from     *Origin   // nil: unknown
	// expected is the caller by what called before from its origin, until it is known; nil: unknown, or no longer needed.
	expected *identity
	// units are held of the limit of all callers, identityUnits of the identity's,
	// running of the limit of running calls.
	units, identityUnits, running uint32
	// paused is what running was when it was paused; 0: it is not.
	paused uint32
	// waitsSince is the time of the call of Wait, by Limiter.now.
	waitsSince int64
}

// States of a Ticket. The goroutine that changes it from entered or begun to a state
// that holds nothing releases what it holds.
const (
	empty = iota
	entered
	begun
	waiting
)

// soon is how long a call may wait for its message and continue as if it had not waited.
const soon = 10 * time.Millisecond

// Begin records that the call's goroutine runs, and will release the ticket: from now
// on Abandon does nothing. It returns false if the ticket was already abandoned: the
// caller has gone.
func (t *Ticket) Begin() bool { return t.state.CompareAndSwap(entered, begun) }

// Wait releases what a call holds while it waits for its message, so that slow callers, or
// those that never send it, take no capacity from others. Call it after Begin and before
// Identify, from the call's goroutine.
func (t *Ticket) Wait() {
	if t.state.Load() != begun {
		return
	}
	l := t.limiter
	t.waitsSince = l.now()
	t.state.Store(waiting)
	l.held.sub(newAmount(t.units, t.running))
	l.waiting.Add(1)
}

// Arrived takes it again: the message has arrived. A call that waited for more than a
// moment is admitted anew, or refused, and must still be released.
func (t *Ticket) Arrived() Refusal {
	if t.state.Load() != waiting {
		return Refusal{}
	}
	l := t.limiter
	amount := newAmount(t.units, t.running)
	if reason := l.take(amount, t.from, 1); reason != 0 {
		if l.now()-t.waitsSince > int64(soon) {
			return t.refuse(reason, 0)
		}
		l.held.add(amount)
	}
	l.waiting.Add(-1)
	t.state.Store(begun)
	l.giveWay()
	return Refusal{}
}

// Pause stops counting a call among the running ones while it waits for a third party, or in a queue:
// otherwise others would be refused for Overload although the processors are free. It keeps its units.
// Call it from the call's goroutine; nil does nothing.
func (t *Ticket) Pause() {
	if t == nil || t.paused != 0 || !t.holds() {
		return
	}
	l := t.limiter
	if t.identity != nil {
		l.identities.run(t.identity, -int64(t.running))
	}
	l.held.sub(newAmount(0, t.running))
	t.paused, t.running = t.running, 0
}

// Resume counts it again. It is not refused, however many calls run: it was admitted, and others have
// already worked for it.
func (t *Ticket) Resume() {
	if t == nil || t.paused == 0 || !t.holds() {
		return
	}
	l := t.limiter
	t.paused, t.running = 0, t.paused
	if t.identity != nil {
		l.identities.run(t.identity, int64(t.running))
	}
	l.held.add(newAmount(0, t.running))
	l.giveWay()
}

// holds reports whether it holds something, and its call does not wait for its message.
func (t *Ticket) holds() bool {
	state := t.state.Load()
	return state == begun || state == entered
}

// ChargeUnread charges a call whose message can't be read, and which has no weight therefore, to its caller's rate. It does
// nothing if the call was charged; nil does nothing.
func (t *Ticket) ChargeUnread(name string) Refusal {
	if t == nil || t.charged || t.state.Load() == empty {
		return Refusal{}
	}
	t.charged = true
	return t.limiter.Charge(name)
}

// Release releases what the ticket holds. It is idempotent.
func (t *Ticket) Release() {
	switch t.state.Swap(empty) {
	case empty:
	case waiting:
		t.limiter.waiting.Add(-1)
		t.ended()
	default:
		t.giveBack()
	}
}

// Abandon releases the ticket of a call that will not begin. Pass it to
// context.AfterFunc if a call can end between Enter and Begin.
func (t *Ticket) Abandon() {
	if t.state.CompareAndSwap(entered, empty) {
		t.giveBack()
	}
}

func (t *Ticket) giveBack() {
	l := t.limiter
	if t.identity != nil {
		l.identities.giveBack(t.identity, t.identityUnits, t.running)
		t.identity = nil
	}
	l.held.sub(newAmount(t.units, t.running))
	t.ended()
}

func (t *Ticket) ended() {
	t.from.leave()
	t.known(nil)
	if !t.voided {
		t.limiter.shedder.released.Add(1)
	}
}

// TicketKey is the key of a call's ticket in its context.
type TicketKey struct{}

// WithTicket returns the context of a call that has the ticket.
func WithTicket(ctx context.Context, t *Ticket) context.Context {
	return context.WithValue(ctx, TicketKey{}, t)
}

// TicketOf returns the ticket of a call, nil if it has none.
func TicketOf(ctx context.Context) *Ticket {
	t, _ := ctx.Value(TicketKey{}).(*Ticket)
	return t
}
