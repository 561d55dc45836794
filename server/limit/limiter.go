package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Limiter decides which calls may run. It has no goroutine and needs no Close. Its
// methods may be called concurrently.
type Limiter struct {
	options    Options
	start      time.Time
	identities *identities
	shedder    shedder
	early      early
	// held is what calls in flight hold, checked in one atomic step.
	held held
	// waiting counts the calls that wait for their message.
	waiting atomic.Int64
	// streams counts the open streams.
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

// Enter admits a call of one unit whose caller is unknown yet, or refuses it: for GlobalInFlight or
// Overload. The ticket must hold nothing; after a refusal it still holds nothing. from is the
// connection of the call; nil: unknown, and without priority.
func (l *Limiter) Enter(t *Ticket, from *Origin) Refusal {
	if reason := l.take(newAmount(1, 1), from, 0); reason != 0 {
		return l.refuse(reason, 0)
	}
	t.limiter, t.from, t.identity, t.voided, t.charged, t.paused = l, from, nil, false, false, 0
	t.expected = from.enter(l.shedder.mayRun.Load() != noLimit)
	t.units, t.running, t.identityUnits = 1, 1, 0
	t.state.Store(entered)
	if l.shedder.counted() {
		l.evaluate(l.now())
	}
	return Refusal{}
}

// take takes an amount, or returns why not. own is how many of the origin's tickets are the call's.
func (l *Limiter) take(a amount, from *Origin, own int64) Reason {
	mayRun := l.mayRunOf(from, own)
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

// Identify charges a call to its caller's identity, with its weight, 1 or more: a batch has
// more than one call. A weight above a limit counts as the limit. After a refusal, the
// ticket holds what it held before and must still be released. Call it once, from the
// call's goroutine after Begin, or before Abandon can be called.
func (t *Ticket) Identify(name string, weight int) Refusal {
	if t.state.Load() == empty {
		return Refusal{}
	}
	t.charged = true
	l := t.limiter
	units := uint32(max(1, min(weight, l.options.InFlight)))
	mayRun := l.shedder.mayRun.Load()
	// However heavy, a call has one goroutine, and leaves capacity to others.
	heaviest := min(mayRun/4, int64(l.options.Shedding.MinRunning))
	running := uint32(max(1, min(int64(units), heaviest)))
	// An admitted call is not refused for overload because it turns out to be heavier.
	more := newAmount(units-min(units, t.units), running-min(running, t.running))
	if more != 0 && !l.takeMore(more) {
		return t.refuse(GlobalInFlight, 0)
	}
	id, identityUnits, refusal := l.identities.take(name, units, running, l.share(mayRun), l.part(name))
	t.known(id)
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

// Admit is Enter and Identify in one, for calls whose caller is already known. After a
// refusal, the ticket holds nothing.
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
	// queuedTime is how long a message of a stream may wait for admission, and
	// queuedPause the interval of the attempts.
	queuedTime  = time.Second
	queuedPause = 2 * time.Millisecond
)

// AdmitQueued is Admit, with a weight of one, for a message of a stream. Calls are refused at
// once under Overload. A message waits for capacity, for queuedTime at most, or until the context
// is over or hurry is closed: its stream is not read meanwhile, so no more can arrive. A refused
// stream would send its next message, and refusing one costs a good part of serving it.
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
		// Spread, so that the streams do not all retry at once.
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

// hasRoom reports whether a waiting message may go on. It leaves a quarter to calls that
// can't wait, because waiting messages would take every free place at once.
func (l *Limiter) hasRoom() bool {
	mayRun := l.shedder.mayRun.Load()
	return l.held.load().running() < mayRun-mayRun/4
}

// share is how many running calls an identity may have while calls are refused for
// overload, other identities call, too, and more than three quarters of the limit are in
// use: an equal part. 0: unlimited.
func (l *Limiter) share(mayRun int64) int64 {
	active := l.identities.active.Load()
	if active < 2 || !l.shedder.shedding.Load() || l.held.load().running() <= mayRun-mayRun/4 {
		return 0
	}
	return max(1, mayRun/active)
}

// part is how many units an identity may hold while more than three quarters are held: those,
// if it calls alone, else an equal part of all, where the next caller counts as one. So no
// caller takes everything. 0: unlimited, because there is capacity, or the caller is unknown.
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

// Refuse counts and returns a refusal for a reason outside the limiter, such as Unfinished,
// Unread or ExemptCalls.
func (l *Limiter) Refuse(reason Reason) Refusal { return l.refuse(reason, 0) }

func (l *Limiter) refuse(reason Reason, retryAfter time.Duration) Refusal {
	l.refused[reason].Add(1)
	if retryAfter == 0 {
		retryAfter = reason.retry()
	}
	return Refusal{reason, retryAfter}
}

// Reload makes the limiter fetch the limits of all identities again.
func (l *Limiter) Reload() { l.identities.generation.Add(1) }

// Admitted returns how many calls were admitted and not refused later.
func (l *Limiter) Admitted() uint64 {
	voided := l.shedder.voided.Load() // first, so that it never exceeds the other
	return l.shedder.admitted.Load() - voided
}

// Refused returns how many calls were refused for a reason.
func (l *Limiter) Refused(reason Reason) uint64 { return l.refused[reason].Load() }

// InFlight returns the units in flight.
func (l *Limiter) InFlight() int { return int(l.held.load().units()) }

// Running returns the number of running calls. A heavy one counts as several, up to a
// quarter of MayRun.
func (l *Limiter) Running() int { return int(l.held.load().running()) }

// Waiting returns how many calls wait for their message.
func (l *Limiter) Waiting() int { return int(l.waiting.Load()) }

// MayRun returns the current limit of running calls: Options.InFlight, or less when the
// processors can't keep up.
func (l *Limiter) MayRun() int {
	return int(min(l.shedder.mayRun.Load(), int64(l.options.InFlight)))
}

// Shedding reports whether calls are refused because the processors could not keep up for
// some time.
func (l *Limiter) Shedding() bool {
	if !l.shedder.shedding.Load() {
		return false
	}
	// Calls that are admitted end a window, each so many. If none come, who asks does: what waits
	// for the end of an overload would wait for the next call.
	if now := l.now(); now-l.shedder.looked.Load() > int64(longestWindow) {
		l.evaluate(now)
	}
	return l.shedder.shedding.Load()
}

func (l *Limiter) evaluate(now int64) {
	l.shedder.evaluate(now, l.held.load().running(), l.refused[Overload].Load()+l.refused[GlobalInFlight].Load())
}

// giveWay lets connections be read before a call starts its work, while the processors
// can't keep up: their readers admit or refuse calls.
func (l *Limiter) giveWay() {
	if !l.Shedding() {
		return
	}
	began := l.now()
	yield()
	l.shedder.yielded.Add(l.now() - began)
}

// Identities returns the number of known identities.
func (l *Limiter) Identities() int { return l.identities.len() }
