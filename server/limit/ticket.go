package limit

import (
	"sync/atomic"
	"time"
)

// Ticket is a call's right to run. The zero value is one that holds nothing. It must
// not be copied once it was given to a Limiter. Release and Abandon may be called
// whenever and wherever; the other methods belong to the call.
type Ticket struct {
	state    atomic.Uint32
	voided   bool // refused after it was let in
	queued   bool // it does not count among those that run
	limiter  *Limiter
	identity *identity // whose units it holds
	from     *Origin   // nil: not known
	// units are held of all callers' bound, identityUnits of the identity's, running of
	// what may run at once.
	units, identityUnits, running uint32
	// waitsSince is when Wait was called, by Limiter.now.
	waitsSince int64
}

// States of a Ticket. Who changes it from entered or begun to another one that holds
// nothing gives back what it holds.
const (
	empty = iota
	entered
	begun
	waiting
)

// soon is for how long a call may wait for its message and go on as if it had not waited.
const soon = 10 * time.Millisecond

// Begin notes that the call's goroutine runs, and will release the ticket: from now on
// Abandon does nothing. It returns false if the ticket was abandoned before: the caller
// has gone.
func (t *Ticket) Begin() bool { return t.state.CompareAndSwap(entered, begun) }

// Wait gives back what a call holds that begins to wait for its message: a caller who is
// slow, or never sends it, takes no place from others. To be called after Begin and before
// Identify, by the call's goroutine.
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

// Arrived takes it again: the message is there. A call that waited for more than a moment
// is let in anew, or refused, and is then still to be released.
func (t *Ticket) Arrived() Refusal {
	if t.state.Load() != waiting {
		return Refusal{}
	}
	l := t.limiter
	amount := newAmount(t.units, t.running)
	if reason := l.take(amount, t.from.isIdle(1)); reason != 0 {
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

// Queued has a call not count among those that run any more: it has waited, or will wait,
// in a queue of its own that lets few through at once. If it counted, the calls of such a
// queue would have others refused for Overload that are not in their way. To be called by
// the call's goroutine.
func (t *Ticket) Queued() {
	if t == nil || t.queued || t.state.Load() != begun && t.state.Load() != entered {
		return
	}
	t.queued = true
	l := t.limiter
	if t.identity != nil {
		l.identities.giveBack(t.identity, 0, t.running)
	}
	l.held.sub(newAmount(0, t.running))
	t.running = 0
}

// Release gives back what the ticket holds, and does nothing if it holds nothing.
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

// Abandon releases the ticket of a call that will not begin. Give it to
// context.AfterFunc if there are ways for a call to end between Enter and Begin.
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
	t.from.add(-1)
	if !t.voided {
		t.limiter.shedder.released.Add(1)
	}
}
