package limit

import "sync/atomic"

// Ticket is a call's right to run. The zero value is one that holds nothing. It must
// not be copied once it was given to a Limiter. Release and Abandon may be called
// whenever and wherever; the other methods belong to the call.
type Ticket struct {
	state    atomic.Uint32
	voided   bool // refused after it was let in
	limiter  *Limiter
	identity *identity // whose units it holds
	// units are held of all callers' bound, identityUnits of the identity's, running of
	// what may run at once.
	units, identityUnits, running uint32
}

// States of a Ticket. Who changes it from entered or begun to empty gives back what it
// holds.
const (
	empty = iota
	entered
	begun
)

// Begin notes that the call's goroutine runs, and will release the ticket: from now on
// Abandon does nothing. It returns false if the ticket was abandoned before: the caller
// has gone.
func (t *Ticket) Begin() bool { return t.state.CompareAndSwap(entered, begun) }

// Release gives back what the ticket holds, and does nothing if it holds nothing.
func (t *Ticket) Release() {
	if t.state.Swap(empty) != empty {
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
	if !t.voided {
		l.shedder.released.Add(1)
	}
}
