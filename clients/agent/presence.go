package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// probeInterval is the time between two probes of a service that is away.
const probeInterval = time.Second

// presence is the circuit breaker of the service. While the service is away one object a second
// sends its request as a probe, and the others wait; the first answer wakes them.
type presence struct {
	// wake makes objects due at once.
	wake func(...Key)
	// redial makes connections reconnect without their delay. May be nil.
	redial  func()
	metrics *metrics
	log     *zap.Logger
	once    *once

	mu sync.Mutex
	// absence is nil while the service answers. Guarded by mu.
	absence *absence
	// lastAnswer is when the service answered last. Guarded by mu.
	lastAnswer time.Time
	// suspects are objects whose requests fail while others succeed, so that their failures say
	// nothing about the service. Guarded by mu.
	suspects map[Key]bool
	// began signals the start of an absence. It has room for one signal.
	began chan struct{}
}

// absence is a time without answers.
type absence struct {
	since time.Time
	// reason is why the last request failed. It changes at most once a minute, and only with the
	// cause, because it is written to all objects.
	reason   string
	reasonAt time.Time
	// cause is the object whose request failed first; the empty key if it is deleted.
	cause Key
	// waiting are the objects that wait for the end of the absence.
	waiting map[Key]bool
	// probes are the objects that were woken to probe and have not started yet. They stay
	// probes however long the queue takes, and are not replaced by the next one.
	probes map[Key]bool
	// logged reports whether the log says that the service is away.
	logged bool
	// permit reports whether a probe may send its request. There is one permit a second; unused
	// permits don't accumulate.
	permit bool
	// asking is the object that uses the permit of this second; the empty key: none.
	asking Key
}

func newPresence(wake func(...Key), redial func(), m *metrics, log *zap.Logger, once *once) *presence {
	m.recommender(time.Time{})
	return &presence{wake: wake, redial: redial, metrics: m, log: log, once: once, suspects: map[Key]bool{}, began: make(chan struct{}, 1)}
}

// admit reports whether the object may send a request. If not, the object waits, and admit
// returns since when the service has been away, and why.
func (p *presence) admit(key Key) (ok bool, since time.Time, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.absence
	if a == nil {
		return true, time.Time{}, ""
	}
	probe := a.probes[key]
	delete(a.probes, key)
	if probe && a.permit {
		a.permit, a.asking = false, key
		return true, time.Time{}, ""
	}
	a.waiting[key] = true
	return false, a.since, a.reason
}

// pass gives up the object's turn, if it has one, because it has nothing to ask; another object
// gets the turn.
func (p *presence) pass(key Key) {
	p.mu.Lock()
	var next Key
	if a := p.absence; a != nil {
		turn := a.probes[key] || a.asking == key
		delete(a.waiting, key)
		delete(a.probes, key)
		if a.asking == key {
			a.permit, a.asking = true, Key{}
		}
		if turn {
			next = p.choose()
		}
	}
	p.mu.Unlock()
	if next != (Key{}) {
		p.wake(next)
	}
}

// choose makes one of the waiting objects a probe; the empty key: none waits. The caller holds
// the lock, and the service is away.
func (p *presence) choose() (probe Key) {
	a := p.absence
	// A random one, because one object's request may be what fails.
	for probe = range a.waiting {
		if !p.suspects[probe] {
			break
		}
	}
	if probe != (Key{}) {
		a.probes[probe] = true
		delete(a.waiting, probe)
	}
	return probe
}

// answered records an answer about an object.
func (p *presence) answered(key Key) {
	p.mu.Lock()
	p.lastAnswer = time.Now()
	a := p.absence
	p.absence = nil
	if a != nil {
		// Under the lock, so that the metrics change in the order of events.
		p.metrics.recommender(time.Time{})
		if a.cause != (Key{}) {
			p.suspects[a.cause] = true
		}
		if a.logged {
			held := len(a.waiting) + len(a.probes)
			if !a.waiting[key] && !a.probes[key] {
				held++ // the probe
			}
			p.log.Info("the recommender answers again", zap.Duration("after", time.Since(a.since)), zap.Int("held", held))
		}
	}
	delete(p.suspects, key)
	p.mu.Unlock()
	if a == nil {
		return
	}
	woken := make([]Key, 0, len(a.waiting))
	for key := range a.waiting {
		woken = append(woken, key)
	}
	slices.SortFunc(woken, Key.Compare) // group by group, as they share readings
	p.wake(woken...)
}

// failed records that the request sent at that time failed. It returns since when the service
// has been away, and why; false: it is not away, because it answered others meanwhile.
func (p *presence) failed(key Key, asked time.Time, reason string) (since time.Time, why string, away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.absence == nil {
		if !p.lastAnswer.Before(asked) || p.suspects[key] {
			p.suspects[key] = true
			return asked, reason, false
		}
		p.absence = &absence{since: asked, reason: reason, reasonAt: time.Now(), cause: key, waiting: map[Key]bool{}, probes: map[Key]bool{}}
		p.metrics.recommender(asked)
		p.tell()
		select {
		case p.began <- struct{}{}:
		default:
		}
	}
	a := p.absence
	if causeOf(reason) != causeOf(a.reason) && time.Since(a.reasonAt) >= minTellInterval {
		a.reason, a.reasonAt = reason, time.Now()
		p.tell()
	}
	if a.asking == key {
		a.asking = Key{}
	}
	a.waiting[key] = true
	return a.since, a.reason, true
}

// tell logs an absence, or another cause of it, at most once a minute for each cause: a service that fails half of all
// requests comes and goes. The caller holds the lock.
func (p *presence) tell() {
	a := p.absence
	if p.once.say(p.log, zapcore.WarnLevel, "the recommender does not answer; nothing is scaled until it does", causeOf(a.reason),
		zap.Time("since", a.since), zap.String("cause", a.reason)) {
		a.logged = true
	}
}

// forget drops a deleted object.
func (p *presence) forget(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.suspects, key)
	if a := p.absence; a != nil {
		delete(a.waiting, key)
		delete(a.probes, key)
		if a.cause == key {
			a.cause = Key{}
		}
	}
}

// run sends probes while the service is away, until the context ends.
func (p *presence) run(ctx context.Context) {
	for { // the service may be away already: an agent that lost a lock runs again
		ticker := time.NewTicker(probeInterval)
		for away := true; away; {
			select {
			case <-ctx.Done():
				away = false
			case <-ticker.C:
				away = p.sendProbe()
			}
		}
		ticker.Stop()
		select {
		case <-ctx.Done():
			return
		case <-p.began:
		}
	}
}

// sendProbe lets one of the waiting objects probe; false: the service is back.
func (p *presence) sendProbe() bool {
	p.mu.Lock()
	a := p.absence
	if a == nil {
		p.mu.Unlock()
		return false
	}
	probe := p.choose()
	a.permit, a.asking = true, Key{}
	p.mu.Unlock()
	if probe == (Key{}) {
		return true
	}
	if p.redial != nil {
		p.redial()
	}
	p.wake(probe)
	return true
}
