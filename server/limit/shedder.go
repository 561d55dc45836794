package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// noLimit is no limit of running calls.
const noLimit = math.MaxInt64

const (
	// window is the interval of the measurements; with fewer than enoughCalls finished
	// calls a window lasts up to longestWindow.
	window        = 50 * time.Millisecond
	enoughCalls   = 8
	longestWindow = 500 * time.Millisecond
	// looksPerWindow is about how often per window the clock is read.
	looksPerWindow = 16
	// This many overloaded windows in a row mean overload, which a burst of twice the
	// capacity for 100 ms does not cause.
	overloadedWindows = 4
	// overloadFactor is how much longer than the target calls wait in overload.
	overloadFactor = 4
	// quietTime without overload ends it.
	quietTime = 500 * time.Millisecond
	// epochTime is how long an identity counts as active after a call.
	epochTime = time.Second
	// How many seconds the highest rate is remembered, and the number of calls.
	peakMemory    = 20
	offeredMemory = .15
	// fits is the part of the capacity that may be requested without overload; seldom is
	// the part of calls that may be refused nevertheless, because they arrive at random.
	fits   = .9
	seldom = .1
	// heldUp is how many times more calls arrive than finish if something other than
	// processors blocks them, so that many have waited for processors and not finished.
	heldUp = 16
	// workFactor is how many times its own work a call may wait on average, floorFactor how
	// many times its unavoidable wait.
	workFactor  = 2
	floorFactor = 1.2
	// Below idleShare of the capacity, calls should not queue. floorMemory is the time
	// constant, in seconds, of measuring how long they wait then.
	idleShare   = .7
	floorMemory = 2
	// probeTime is how often the floor is probed in overload.
	probeTime = 5 * time.Second
)

// shedder limits the running calls if the processors don't keep up.
//
// It measures how long runnable goroutines wait for a processor, per call: to read its
// frames, to run its handler, also each time after the handler has waited for something
// else, and to write. This time grows without limit when more calls arrive than the
// processors can serve, and only then. The total time of a call, which gradient limiters
// use, does not distinguish busy processors from a slow store; and the wait before its
// handler starts is short, because the handler waits later, when its body has arrived.
//
// If calls wait too long in several windows, and nothing shows that it will pass, it is
// overload: from then on the limit keeps the wait at its target. Overload ends when no more
// calls arrive than can be served. To refuse because a queue persists, instead of because
// it is long, is CoDel's idea (RFC 8289).
type shedder struct {
	options *Options
	waited  func() time.Duration
	// nextEpoch is called once per epochTime.
	nextEpoch func()
	// mayRun is the limit of running calls; noLimit: none.
	mayRun   atomic.Int64
	shedding atomic.Bool
	// admitted and released count calls, voided counts admitted ones that were refused
	// later. The clock is read for calls whose number has none of mask's bits.
	admitted, released, voided, mask atomic.Uint64
	// yielded is the total time for which calls gave way to others, in nanoseconds.
	yielded atomic.Int64
	// looked is when the last window ended.
	looked atomic.Int64

	mu sync.Mutex
	// Guarded by mu: the window's start.
	began      int64
	at         counts
	runningSum int64
	looks      int64
	stale      bool // it started with calls that waited too long
	// Guarded by mu: longer intervals.
	epochBegan  int64
	peak        float64 // highest rate of finished calls per second
	floor       float64 // unavoidable wait of calls, in nanoseconds
	offered     float64 // calls that arrived per second, mean of some windows
	refusing    float64 // refused part, mean of some windows
	lastRunning float64 // running calls, mean of the last window
	overloaded  int     // number of windows
	quietSince  int64   // 0: not quiet
	probing     bool    // the limit is minimal, to measure the unavoidable wait
	probed      int64
	afterwards  float64 // the limit after probing
}

// counts are totals so far.
type counts struct {
	admitted, released, voided, refused uint64
	waited                              time.Duration
}

func (s *shedder) init(o *Options, nextEpoch func()) {
	s.options, s.nextEpoch = o, nextEpoch
	if s.waited = o.Shedding.Waited; s.waited == nil {
		s.waited = newSchedulerWaits().total
	}
	s.mayRun.Store(noLimit)
	s.at.waited = s.waited()
}

// counted counts an admitted call, and reports whether to read the clock.
func (s *shedder) counted() bool { return s.admitted.Add(1)&s.mask.Load() == 0 }

// evaluate evaluates a window that has ended. Its arguments are the running calls and the
// total of calls refused by global limits so far.
func (s *shedder) evaluate(now, running int64, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runningSum += running
	s.looks++
	elapsed, released := now-s.began, s.released.Load()
	done := released - s.at.released
	if elapsed < int64(window) || done < enoughCalls && elapsed < int64(longestWindow) {
		return
	}
	at := counts{s.admitted.Load(), released, s.voided.Load(), refused, s.waited() + time.Duration(s.yielded.Load())}
	seconds := float64(elapsed) / 1e9
	w := measured{
		seconds: seconds,
		rate:    float64(done) / seconds,
		offered: float64(int64(at.admitted-s.at.admitted)+int64(at.refused-s.at.refused)-int64(at.voided-s.at.voided)) / seconds,
		running: float64(s.runningSum) / float64(s.looks),
		refused: at.refused > s.at.refused,
	}
	if w.refused {
		w.refusing = float64(at.refused-s.at.refused) / (float64(at.refused-s.at.refused) + float64(at.admitted-s.at.admitted))
	}
	calls := done
	if came := at.admitted - s.at.admitted; done < came/heldUp {
		calls = came
	}
	if calls > 0 {
		w.wait = float64(at.waited-s.at.waited) / float64(calls)
	}
	s.lookAgain(float64(at.admitted-s.at.admitted) / seconds)
	if !s.options.Shedding.Off {
		s.adjust(now, w)
	}
	s.began, s.at, s.lastRunning, s.runningSum, s.looks = now, at, w.running, 0, 0
	s.looked.Store(now)
	if now-s.epochBegan >= int64(epochTime) {
		s.epochBegan = now
		s.nextEpoch()
	}
}

// lookAgain adjusts mask so that the clock is read looksPerWindow times, or up to twice
// as often.
func (s *shedder) lookAgain(callsPerSecond float64) {
	every := uint64(1)
	for callsPerSecond*window.Seconds() >= float64(2*every*looksPerWindow) {
		every *= 2
	}
	s.mask.Store(every - 1)
}

// measured has the measurements of a window.
type measured struct {
	seconds float64
	rate    float64 // finished calls per second
	offered float64 // arriving calls per second; including refused ones, except by limits of identities
	running float64 // mean number of running calls when calls entered
	wait    float64 // wait for processors, in nanoseconds per call; 0 without calls
	refused bool
	// refusing is the refused part.
	refusing float64
}

// adjust sets the limit from now on.
func (s *shedder) adjust(now int64, w measured) {
	s.peak = max(w.rate, s.peak*math.Exp(-w.seconds/peakMemory))
	s.offered += (w.offered - s.offered) * min(1, w.seconds/offeredMemory)
	s.refusing += (w.refusing - s.refusing) * min(1, w.seconds/offeredMemory)
	s.learnFloor(w)
	switch shedding := s.shedding.Load(); {
	case !shedding && s.isOverloaded(w):
		s.overloaded, s.quietSince = 0, 0
		s.shedding.Store(true)
		s.probe(now, w.running*s.targetWait()/w.wait)
	case shedding && s.isOver(now, w):
		s.shedding.Store(false)
		s.mayRun.Store(noLimit)
	case !shedding:
		s.mayRun.Store(s.backlog(w))
	case s.stale:
		s.stale = false
	case s.probing:
		s.probing = false
		s.floor += (w.wait - s.floor) / 2
		s.mayRun.Store(s.bounded(s.afterwards))
	case s.floorCounts() && now-s.probed >= int64(probeTime):
		s.probe(now, float64(s.mayRun.Load()))
	default:
		s.correct(w)
	}
}

// learnFloor learns how long calls wait even if few run: for a processor that other
// processes use, or that the system throttles. A lower limit could not change that.
func (s *shedder) learnFloor(w measured) {
	idle := !s.shedding.Load() && !w.refused && w.offered < idleShare*s.peak && !s.waitTooLong(w)
	switch {
	case w.wait == 0:
	case w.wait < s.floor:
		s.floor += (w.wait - s.floor) / 4
	case idle:
		s.floor += (w.wait - s.floor) * min(1, w.seconds/floorMemory)
	}
}

// targetWait is how long calls should wait for processors at most, in nanoseconds.
func (s *shedder) targetWait() float64 { return max(s.workWait(), floorFactor*s.floor) }

// workWait is the part of targetWait that depends on the calls' own work, which follows
// from the capacity.
func (s *shedder) workWait() float64 {
	work := float64(s.options.Shedding.Processors) / s.peak * 1e9
	return max(float64(s.options.Shedding.TargetWait), workFactor*work)
}

// floorCounts reports whether targetWait depends on the unavoidable wait.
func (s *shedder) floorCounts() bool { return floorFactor*s.floor > s.workWait() }

func (s *shedder) waitTooLong(w measured) bool { return w.wait > overloadFactor*s.targetWait() }

// backlog is the limit while calls wait too long, but not yet for long.
func (s *shedder) backlog(w measured) int64 {
	if !s.waitTooLong(w) {
		return noLimit
	}
	return s.bounded(s.peak * s.options.Shedding.MaxBacklog.Seconds())
}

// isOverloaded reports whether the windows in which calls waited too long mean
// overload. If the number of running calls falls, a burst is being worked off.
func (s *shedder) isOverloaded(w measured) bool {
	falling := w.running < .97*s.lastRunning
	if s.waitTooLong(w) && !falling {
		s.overloaded++
	} else {
		s.overloaded = 0
	}
	return s.overloaded >= overloadedWindows
}

// isOver reports whether overload has ended: no more calls arrive than can be served.
func (s *shedder) isOver(now int64, w measured) bool {
	if w.refused && (s.offered > fits*s.peak || s.refusing > seldom) {
		s.quietSince = 0
		return false
	}
	if s.quietSince == 0 {
		s.quietSince = s.began
	}
	return now-s.quietSince >= int64(quietTime)
}

// correct adjusts the limit by the wait of calls.
func (s *shedder) correct(w measured) {
	mayRun, target := float64(s.mayRun.Load()), s.targetWait()
	switch {
	case w.wait > 1.25*target:
		s.cut(.8 * mayRun)
	case w.wait < target/4 && w.refused: // the processors are almost idle
		s.mayRun.Store(s.bounded(2 * mayRun))
	case w.wait < target && w.refused:
		s.mayRun.Store(s.bounded(mayRun + max(1, mayRun/8)))
	}
}

// probe sets the minimum limit until the wait under it is measured.
func (s *shedder) probe(now int64, afterwards float64) {
	s.cut(0)
	s.probing, s.probed, s.afterwards = true, now, afterwards
}

// cut sets a lower limit. Until fewer calls than that run, measurements still show the
// previous limit.
func (s *shedder) cut(mayRun float64) {
	s.mayRun.Store(s.bounded(mayRun))
	s.stale = true
}

func (s *shedder) bounded(mayRun float64) int64 {
	return max(int64(s.options.Shedding.MinRunning), min(int64(s.options.InFlight), int64(mayRun)))
}
