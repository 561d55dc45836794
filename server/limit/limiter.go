package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Limiter says which calls may run. It has no goroutine and needs no closing. Its
// methods may be called concurrently.
type Limiter struct {
	options    Options
	start      time.Time
	identities *identities
	shedder    shedder
	early      early
	// held is what is in flight, so that all of it is bounded in one step.
	held held
	// waiting are calls that wait for their message.
	waiting atomic.Int64
	// streams are open.
	streams atomic.Int64
	refused [reasonCount]atomic.Uint64
}

// New returns a Limiter.
func New(options Options) (*Limiter, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if options.Clock == nil {
		options.Clock = time.Now
	}
	options.Shedding = options.Shedding.withDefaults()
	l := &Limiter{options: options, start: options.Clock()}
	l.identities = newIdentities(&l.options)
	l.shedder.init(&l.options, l.identities.nextEpoch)
	return l, nil
}

// now returns nanoseconds since the start, never 0.
func (l *Limiter) now() int64 { return int64(l.options.Clock().Sub(l.start)) + 1 }

// Enter lets a call of one unit in whose caller is unknown yet, or refuses it: for
// GlobalInFlight or Overload. The ticket must hold nothing; refused, it still does. from is
// the connection that the call came on; nil: it is not known, and has no right to more than others.
func (l *Limiter) Enter(t *Ticket, from *Origin) Refusal {
	if reason := l.take(newAmount(1, 1), from.isIdle(0)); reason != 0 {
		return l.refuse(reason, 0)
	}
	from.add(1)
	t.limiter, t.from, t.identity, t.voided, t.queued = l, from, nil, false, false
	t.units, t.running, t.identityUnits = 1, 1, 0
	t.state.Store(entered)
	if l.shedder.counted() {
		l.shedder.look(l.now(), l.held.load().running(), l.refused[Overload].Load()+l.refused[GlobalInFlight].Load())
	}
	return Refusal{}
}

// take takes an amount, or returns why not. idle says that the call's origin holds
// nothing else.
func (l *Limiter) take(a amount, idle bool) Reason {
	mayRun := mayRunOf(l.shedder.mayRun.Load(), idle)
	for {
		before := l.held.load()
		after := before + a
		switch {
		case after.units() > int64(l.options.InFlight):
			return GlobalInFlight
		case after.running() > mayRun:
			return Overload
		case l.held.swap(before, after):
			return 0
		}
	}
}

// Identify charges a call to the identity that makes it, and says its weight, 1 or
// above: of a batch more than of one call. A call that is heavier than a bound is taken
// to be as heavy as the bound. Refused, the ticket holds what it held before and is still
// to be released. To be called once, by the call's goroutine after Begin, or before Abandon
// can be called.
func (t *Ticket) Identify(name string, weight int) Refusal {
	if t.state.Load() == empty {
		return Refusal{}
	}
	l := t.limiter
	units := uint32(max(1, min(weight, l.options.InFlight)))
	mayRun := l.shedder.mayRun.Load()
	// However heavy, it has one goroutine, and leaves room for others.
	heaviest := min(mayRun/4, int64(l.options.Shedding.MinRunning))
	running := uint32(max(1, min(int64(units), heaviest)))
	if t.queued {
		running = 0
	}
	// An admitted call is not refused for overload because it turns out heavier.
	more := newAmount(units-min(units, t.units), running-min(running, t.running))
	if more != 0 && !l.takeMore(more) {
		return t.refuse(GlobalInFlight, 0)
	}
	id, identityUnits, refusal := l.identities.take(name, units, running, l.share(mayRun), l.part(name))
	if refusal.Refused() {
		l.held.sub(more)
		return t.refuse(refusal.Reason, refusal.RetryAfter)
	}
	t.units, t.running = t.units+uint32(more.units()), t.running+uint32(more.running())
	t.identity, t.identityUnits = id, identityUnits
	return Refusal{}
}

// takeMore takes an amount for an admitted call.
func (l *Limiter) takeMore(a amount) bool {
	for {
		before := l.held.load()
		if (before + a).units() > int64(l.options.InFlight) {
			return false
		}
		if l.held.swap(before, before+a) {
			return true
		}
	}
}

// refuse refuses an admitted call.
func (t *Ticket) refuse(reason Reason, retryAfter time.Duration) Refusal {
	if !t.voided {
		t.voided = true
		t.limiter.shedder.voided.Add(1)
	}
	return t.limiter.refuse(reason, retryAfter)
}

// Admit is Enter and Identify in one, for calls whose caller is already known. Refused, the
// ticket holds nothing.
func (l *Limiter) Admit(t *Ticket, identity string, weight int) Refusal {
	refusal := l.Enter(t, nil)
	if refusal.Refused() {
		return refusal
	}
	if refusal = t.Identify(identity, weight); refusal.Refused() {
		t.Release()
	}
	return refusal
}

const (
	// queuedTime is for how long a message of a stream may wait to be let in, and
	// queuedPause after how long it is tried again.
	queuedTime  = time.Second
	queuedPause = 2 * time.Millisecond
)

// AdmitQueued is Admit, with a weight of one, for a message of a stream that is read no
// further meanwhile. It need not be refused for Overload at once, as calls must that come
// however many there are already, but waits until there is room: for queuedTime at most,
// or until the context ends or hurry is closed. Who is refused sends the next message, and
// refusing one costs a good part of what answering it does.
func (l *Limiter) AdmitQueued(ctx context.Context, hurry <-chan struct{}, t *Ticket, identity string) Refusal {
	if l.hasRoom() {
		if refusal := l.Admit(t, identity, 1); refusal.Reason != Overload {
			return refusal
		}
	}
	end := l.now() + int64(queuedTime)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for l.now() < end {
		// Spread, so that not all streams come at once.
		pause.Reset(queuedPause/2 + rand.N(queuedPause))
		select {
		case <-pause.C:
		case <-hurry:
			return l.Admit(t, identity, 1)
		case <-ctx.Done():
			return l.Admit(t, identity, 1)
		}
		if l.hasRoom() {
			if refusal := l.Admit(t, identity, 1); refusal.Reason != Overload {
				return refusal
			}
		}
	}
	return l.Admit(t, identity, 1)
}

// hasRoom reports whether a message that can wait may go on. A quarter is left to calls that
// can't, for those who wait would be there whenever there is room.
func (l *Limiter) hasRoom() bool {
	mayRun := l.shedder.mayRun.Load()
	return l.held.load().running() < mayRun-mayRun/4
}

// share is what an identity may run at once while calls are refused for overload and
// others call too: beyond an equal part it leaves a quarter to them. 0: there is no bound.
func (l *Limiter) share(mayRun int64) int64 {
	active := l.identities.active.Load()
	if active < 2 || !l.shedder.shedding.Load() || l.held.load().running() <= mayRun-mayRun/4 {
		return 0
	}
	return max(1, mayRun/active)
}

// part is how many units an identity may hold while more than three quarters are held: those,
// if it calls alone, else an equal part of all, one of them for the next caller. So no
// caller takes all. 0: there is no bound, because there is room, or the caller is unknown.
func (l *Limiter) part(name string) int64 {
	most := 3 * int64(l.options.InFlight) / 4
	if name == "" || l.held.load().units() <= most {
		return 0
	}
	if active := l.identities.active.Load(); active > 1 {
		most = int64(l.options.InFlight) / (active + 1)
	}
	return max(1, most)
}

// Refuse counts and returns a refusal for a reason that the limiter does not know of, such as
// Unfinished, Unread or ExemptCalls.
func (l *Limiter) Refuse(reason Reason) Refusal { return l.refuse(reason, 0) }

func (l *Limiter) refuse(reason Reason, retryAfter time.Duration) Refusal {
	l.refused[reason].Add(1)
	if retryAfter == 0 {
		// Spread, so that not all come back at once.
		usual := retryUsual[reason]
		retryAfter = usual/2 + rand.N(usual)
	}
	return Refusal{reason, retryAfter}
}

var retryUsual = [reasonCount]time.Duration{
	GlobalInFlight: time.Second, Overload: time.Second,
	IdentityInFlight: 200 * time.Millisecond, IdentityStreams: 5 * time.Second,
	Unfinished: time.Second, Unread: time.Second, ExemptCalls: 5 * time.Second, Streams: 5 * time.Second,
	ClusterTargets: time.Minute, ClusterBytes: time.Minute, LargeRequests: time.Second,
}

// Reload has the limits of all identities asked for again.
func (l *Limiter) Reload() { l.identities.generation.Add(1) }

// Admitted returns how many calls were admitted and not refused later.
func (l *Limiter) Admitted() uint64 {
	voided := l.shedder.voided.Load() // first: it never passes the other
	return l.shedder.admitted.Load() - voided
}

// Refused returns how many calls were refused for a reason.
func (l *Limiter) Refused(reason Reason) uint64 { return l.refused[reason].Load() }

// InFlight returns the units in flight.
func (l *Limiter) InFlight() int { return int(l.held.load().units()) }

// Running returns how many calls run. A heavy one counts as some, up to a quarter of MayRun.
func (l *Limiter) Running() int { return int(l.held.load().running()) }

// Waiting returns how many calls wait for their message.
func (l *Limiter) Waiting() int { return int(l.waiting.Load()) }

// MayRun returns how many calls may run at once: Options.InFlight, or less when the
// processors can't keep up.
func (l *Limiter) MayRun() int {
	return int(min(l.shedder.mayRun.Load(), int64(l.options.InFlight)))
}

// Shedding reports whether calls are refused because for some time the processors could not
// keep up.
func (l *Limiter) Shedding() bool { return l.shedder.shedding.Load() }

// giveWay lets connections be read before a call begins its work, while the processors
// can't keep up: the readers let calls in, and refuse them.
func (l *Limiter) giveWay() {
	if !l.Shedding() {
		return
	}
	began := l.now()
	yield()
	l.shedder.yielded.Add(l.now() - began)
}

// Identities returns how many identities are remembered.
func (l *Limiter) Identities() int { return l.identities.len() }
