package limit

import "sync/atomic"

// Origin is the connection of a call, known before its caller is. The zero value is one without
// calls. It must not be copied, and may be used concurrently.
//
// Overload refuses a call before its caller is known, as soon as its headers are read; later,
// refusing it would cost as much as serving it. A caller that retries at once, thousands of times
// per second, would then take nearly every free place, though it may keep few of them once it is
// known, and a caller with few calls would find none. So there are half as many places more for calls
// of origins whose last caller has less than its share. Half of these are also for origins that hold
// none: of one who is unknown, as who connects anew for each call, and of one of several programs with
// one identity, as those without credentials.
type Origin struct {
	// held counts the tickets that are not released.
	held atomic.Int64
	// caller is who last called from here; nil: nobody was identified yet.
	caller atomic.Pointer[identity]
}

// enter counts a ticket, and one of the caller that is expected while the running calls are limited.
func (o *Origin) enter(limited bool) (expected *identity) {
	if o == nil {
		return nil
	}
	o.held.Add(1)
	if expected = o.caller.Load(); expected == nil || !limited {
		return nil
	}
	expected.entering.Add(1)
	return expected
}

func (o *Origin) leave() {
	if o != nil {
		o.held.Add(-1)
	}
}

// known ends the time in which a ticket's caller is only expected: it is this one; nil: nobody will know.
func (t *Ticket) known(caller *identity) {
	if t.expected != nil {
		t.expected.entering.Add(-1)
		t.expected = nil
	}
	if o := t.from; o != nil && caller != nil && o.caller.Load() != caller {
		o.caller.Store(caller)
	}
}

// mayRunOf is the limit of running calls for another call of an origin, of whose tickets so many are the call's own.
func (l *Limiter) mayRunOf(o *Origin, own int64) int64 {
	mayRun := l.shedder.mayRun.Load()
	if o == nil || mayRun == noLimit {
		return mayRun
	}
	if caller := o.caller.Load(); caller != nil {
		callers := max(2, l.identities.active.Load()) // another one wants its share, or the limit would not matter
		if caller.running.Load()+caller.entering.Load()-own < max(1, mayRun/callers) {
			return mayRun + max(2, mayRun/2)
		}
	}
	if o.held.Load() > own {
		return mayRun
	}
	return mayRun + max(1, mayRun/4)
}
