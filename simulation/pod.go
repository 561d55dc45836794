package simulation

import (
	"fmt"
	"time"
)

// pod is one pod. Instants are offsets from the start; never means unknown.
type pod struct {
	name   string
	serial uint64
	uid    uint64
	// generation is that of its template: rollouts replace older ones.
	generation int
	// weight is its share of the load before saturation, 1 on average.
	weight   float64
	restarts int
	// fate is its rank among the victims of an event.
	fate uint64
	// onSlot reports whether it occupies one of the slots.
	onSlot bool

	created, running, readyAt time.Duration
	// crashedUntil is when it becomes ready again after a crash.
	crashedUntil time.Duration
	// deleted, drained and gone are instants of its end.
	deleted, drained, gone time.Duration

	// ready is the Ready condition, and readyChanged when it last changed.
	ready        bool
	readyChanged time.Duration

	// shownStart and shownReady are what the API shows of running and readyChanged.
	shownStart, shownReady shownInstant

	// served is the volume served so far.
	served float64
	// scrapes is how often its usage was scraped; the last scrape was at scrapedAt,
	// when it had served scrapedServed. samples are the results, newest last.
	scrapes       int
	scrapedAt     time.Duration
	scrapedServed float64
	samples       []sample
	// log has served at the instants of the world's log, from entry logFrom on.
	log     []float64
	logFrom int
}

// sample is the result of one scrape of a pod.
type sample struct {
	at     time.Duration
	window time.Duration
	// usage of the resources, in the order of world.resources, milli-units.
	usage []int64
}

func (p *pod) isRunning(now time.Duration) bool  { return p.running <= now }
func (p *pod) isDeleting(now time.Duration) bool { return p.deleted <= now }

// serves reports whether it receives load.
func (p *pod) serves(now time.Duration) bool { return p.ready && now < p.drained }

// next returns the next instant after now at which the pod changes on its own.
func (p *pod) next(now time.Duration) time.Duration {
	next := never
	for _, at := range [...]time.Duration{p.running, p.readyAt, p.crashedUntil, p.drained, p.gone} {
		if at > now && at < next {
			next = at
		}
	}
	return next
}

// update sets the Ready condition, and reports whether it changed.
func (p *pod) update(now time.Duration) bool {
	if p.running == now && p.readyChanged < p.running {
		p.readyChanged = now
	}
	ready := p.running <= now && p.readyAt <= now && p.crashedUntil <= now
	if ready == p.ready {
		return false
	}
	p.ready, p.readyChanged = ready, now
	return true
}

// draw draws the time from the pod's start to its readiness.
func (s *Startup) draw(seed, serial uint64) time.Duration {
	switch s.Kind {
	case UniformStartup:
		return s.From + time.Duration(mul(uniform(seed, startupStream, serial), float64(s.To-s.From)))
	case LogNormalStartup:
		// 1.6449 standard deviations above the median are 95 %.
		sigma := log(float64(s.To)/float64(s.From)) / 1.6448536269514722
		factor := exp(mul(sigma, normal(seed, startupStream, serial)))
		// A median of nanoseconds and 95 % of hours could draw values beyond any
		// duration.
		return time.Duration(min(mul(float64(s.From), factor), float64(MaxDuration))).Round(time.Millisecond)
	}
	return s.From
}

// newPod creates the next pod. Pods of the start have been ready for a day.
func (w *world) newPod(atStart bool) *pod {
	serial := w.serial
	w.serial++
	w.work += looksToMake
	p := &pod{
		name: fmt.Sprintf("%s-%05d", w.name, serial), serial: serial,
		uid:        draw(w.scenario.Seed, identityStream, serial),
		generation: w.generation,
		weight:     1,
		created:    w.now, readyChanged: -never,
		deleted: never, drained: never, gone: never, crashedUntil: -never,
		logFrom: w.logFrom + len(w.log),
	}
	if cv := w.scenario.Workload.Imbalance; cv > 0 {
		p.weight = max(0.05, 1+mul(cv, normal(w.scenario.Seed, weightStream, serial)))
	}
	if atStart {
		p.created = -24 * time.Hour
		p.running, p.readyAt, p.readyChanged = p.created, p.created, p.created
		p.ready = true
		p.onSlot = true
		w.slotsTaken++
		return p
	}
	workload := &w.scenario.Workload
	p.running = w.now + workload.SchedulingDelay
	if p.onSlot = workload.Slots == 0 || w.slotsTaken < workload.Slots; p.onSlot {
		w.slotsTaken++
	} else {
		p.running += workload.NodeDelay
	}
	p.readyAt = p.running + workload.Startup.draw(w.scenario.Seed, serial)
	p.update(w.now)
	return p
}

// delete starts the deletion of a pod.
func (w *world) delete(p *pod) {
	p.deleted = w.now
	p.drained = w.now + w.scenario.Workload.Drain
	p.gone = max(p.drained, w.now+w.scenario.Workload.Grace)
	if !p.isRunning(w.now) {
		p.gone = w.now // nothing runs that would have to stop
	}
}
