package agent

import (
	"context"
	"slices"
	"sync"
	"time"
)

// probeInterval is how often a service that is away is asked.
const probeInterval = time.Second

// presence is the circuit breaker of the service. While the service is away one object a
// second asks, as a probe, and the others wait; the first answer wakes them.
type presence struct {
	// wake makes objects due at once.
	wake func(...Key)
	// redial makes connections reconnect without their delay. May be nil.
	redial  func()
	metrics *metrics

	mu sync.Mutex
	// absence is nil while the service answers. Guarded by mu.
	absence *absence
	// lastAnswer is when the service answered last. Guarded by mu.
	lastAnswer time.Time
	// suspects are objects without answers while others have some, so that their failures
	// say nothing about the service. Guarded by mu.
	suspects map[Key]bool
	// began signals the begin of an absence. It has room for one signal.
	began chan struct{}
}

// absence is a time without answers.
type absence struct {
	since  time.Time
	reason string
	// cause is the object that was not answered first, the empty key if it is gone.
	cause Key
	// waiting are the objects that wait for its end.
	waiting map[Key]bool
	// probes are the objects that were woken to ask and have not come yet. How long they
	// take is the queue's business, so that one is not replaced by the next.
	probes map[Key]bool
	// permit reports whether one of them may ask: there is one a second, and they don't add up
	// while none of them comes.
	permit bool
	// asking is the object that asks with the permit of this second, the empty key: none does.
	asking Key
}

func newPresence(wake func(...Key), redial func(), m *metrics) *presence {
	m.recommender(time.Time{})
	return &presence{wake: wake, redial: redial, metrics: m, suspects: map[Key]bool{}, began: make(chan struct{}, 1)}
}

// admit reports whether the object may ask. If not, the object waits, and admit returns since
// when the service has been away, and why.
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

// pass gives up the object's turn, if it has one, because it has nothing to ask now; another
// object gets it.
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

// choose makes one of the waiting objects a probe, and returns the empty key if none waits.
// The lock is held, and the service away.
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

// answered notes an answer about an object.
func (p *presence) answered(key Key) {
	p.mu.Lock()
	p.lastAnswer = time.Now()
	a := p.absence
	p.absence = nil
	if a != nil {
		// Here, so that the metrics change in the order in which the service came and went.
		p.metrics.recommender(time.Time{})
		if a.cause != (Key{}) {
			p.suspects[a.cause] = true
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

// failed records a request of that time without an answer. It returns since when the service
// is away, and why; false: it is not away, as it answered others meanwhile.
func (p *presence) failed(key Key, asked time.Time, reason string) (since time.Time, first string, away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.absence == nil {
		if !p.lastAnswer.Before(asked) || p.suspects[key] {
			p.suspects[key] = true
			return asked, reason, false
		}
		p.absence = &absence{since: asked, reason: reason, cause: key, waiting: map[Key]bool{}, probes: map[Key]bool{}}
		p.metrics.recommender(asked)
		select {
		case p.began <- struct{}{}:
		default:
		}
	}
	if p.absence.asking == key {
		p.absence.asking = Key{}
	}
	p.absence.waiting[key] = true
	return p.absence.since, p.absence.reason, true
}

// forget drops an object that is no more.
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.began:
		}
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
	}
}

// sendProbe lets one of the waiting objects ask; false: the service is back.
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
