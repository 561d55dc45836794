package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// noLimit lets any number of calls run.
const noLimit = math.MaxInt64

const (
	// window is how often is looked at how calls fare; if fewer than enoughCalls were
	// done, up to longestWindow later.
	window        = 50 * time.Millisecond
	enoughCalls   = 8
	longestWindow = 500 * time.Millisecond
	// looksPerWindow is about how often the time is looked at.
	looksPerWindow = 16
	// overloadedWindows in a row make overload: a burst of twice what can be done, for
	// 100 ms, does not.
	overloadedWindows = 4
	// overloadFactor is how much longer than their target calls wait in overload.
	overloadFactor = 4
	// quietTime ends it.
	quietTime = 500 * time.Millisecond
	// epochTime is for how long an identity that called counts as active.
	epochTime = time.Second
	// For how many seconds the highest rate is remembered, and how many calls came.
	peakMemory    = 20
	offeredMemory = .15
	// fits is how much of what can be done at most may be asked for without overload, and
	// seldom which share of calls may be refused nevertheless, for they come in no order.
	fits   = .9
	seldom = .1
	// heldUp is how many times more calls come than are done if something else than
	// processors holds them up, so that many have waited for these and are not done.
	heldUp = 16
	// workFactor is how many times its own work a call may wait in the mean, floorFactor how
	// many times what it waits anyhow.
	workFactor  = 2
	floorFactor = 1.2
	// Below idleShare of what can be done at most, no call should wait for others. In how
	// many seconds it is believed how long it waits then.
	idleShare   = .7
	floorMemory = 2
	// probeTime is how often the floor is probed in overload.
	probeTime = 5 * time.Second
)

// shedder bounds how many calls run at once, if the processors don't keep up.
//
// It goes by how long goroutines that could run wait for a processor, by call: for the
// reading of its frames, for its handler, also after each time that this has waited for
// something else, and for the writing. That grows without end when more calls come than can
// be done, and tells it from all else that makes calls take longer. How long a call takes
// altogether, which gradient limiters go by, can't tell processors that are busy from a
// store that got slow; and the wait before its handler begins is short, for it is later,
// when its body is there, that the handler must wait.
//
// If calls wait for long, in several windows, and there is no sign that it will pass, it is
// overload: from then on so many may run at once that they wait as long as they should.
// It ends when no more come than can be done. Refusing because a queue stands, instead of
// because it is long, is CoDel's idea (RFC 8289).
type shedder struct {
	options *Options
	waited  func() time.Duration
	// nextEpoch is called once in epochTime.
	nextEpoch func()
	// mayRun is how many calls may; noLimit: any number.
	mayRun   atomic.Int64
	shedding atomic.Bool
	// admitted and released count calls, voided those of admitted that were refused later.
	// If none of the bits of mask are in a call's number, the time is looked at.
	admitted, released, voided, mask atomic.Uint64
	// yielded is for how long calls let others go first, in nanoseconds.
	yielded atomic.Int64

	mu sync.Mutex
	// Guarded by mu: the window's beginning.
	began      int64
	at         counts
	runningSum int64
	looks      int64
	stale      bool // it began with calls that waited too long
	// Guarded by mu: longer times.
	epochBegan  int64
	peak        float64 // calls done a second, at most
	floor       float64 // how long calls wait anyhow, in nanoseconds
	offered     float64 // calls that came a second, in the mean of some windows
	refusing    float64 // share that was refused, in the mean of some windows
	lastRunning float64 // calls, in the mean of the last window
	overloaded  int     // windows
	quietSince  int64   // 0: it is not quiet
	probing     bool    // as few as possible run, to see how long they wait
	probed      int64
	afterwards  float64 // how many may run then
}

// counts are numbers so far.
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

// counted counts a call that is let in, and reports whether to look at the time.
func (s *shedder) counted() bool { return s.admitted.Add(1)&s.mask.Load() == 0 }

// look measures a window, if it has ended. It takes how many calls run now, and how many
// were refused so far because there are too many altogether.
func (s *shedder) look(now, running int64, refused uint64) {
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
		s.judge(now, w)
	}
	s.began, s.at, s.lastRunning, s.runningSum, s.looks = now, at, w.running, 0, 0
	if now-s.epochBegan >= int64(epochTime) {
		s.epochBegan = now
		s.nextEpoch()
	}
}

// lookAgain has the time looked at looksPerWindow or up to twice as often.
func (s *shedder) lookAgain(callsPerSecond float64) {
	every := uint64(1)
	for callsPerSecond*window.Seconds() >= float64(2*every*looksPerWindow) {
		every *= 2
	}
	s.mask.Store(every - 1)
}

// measured is the measurement of a window.
type measured struct {
	seconds float64
	rate    float64 // calls done a second
	offered float64 // calls that came a second; also those refused, but for limits of identities
	running float64 // when calls entered, in the mean
	wait    float64 // for processors, in nanoseconds a call; 0 if there was none
	refused bool
	// refusing is which share was refused.
	refusing float64
}

// judge decides how many may run from now on.
func (s *shedder) judge(now int64, w measured) {
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

// learnFloor learns how long calls wait even if few run: for a processor that others have,
// or that the system holds back. Fewer could not help it.
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

// workWait is targetWait as far as it goes by the calls' own work, which is told by how
// many the processors can do.
func (s *shedder) workWait() float64 {
	work := float64(s.options.Shedding.Processors) / s.peak * 1e9
	return max(float64(s.options.Shedding.TargetWait), workFactor*work)
}

// floorCounts reports whether targetWait goes by how long calls wait anyhow.
func (s *shedder) floorCounts() bool { return floorFactor*s.floor > s.workWait() }

func (s *shedder) waitTooLong(w measured) bool { return w.wait > overloadFactor*s.targetWait() }

// backlog is how many may run while calls wait too long, but not for long.
func (s *shedder) backlog(w measured) int64 {
	if !s.waitTooLong(w) {
		return noLimit
	}
	return s.bounded(s.peak * s.options.Shedding.MaxBacklog.Seconds())
}

// isOverloaded reports whether windows in which calls waited too long show overload. If
// ever fewer run, a burst is being worked off.
func (s *shedder) isOverloaded(w measured) bool {
	falling := w.running < .97*s.lastRunning
	if s.waitTooLong(w) && !falling {
		s.overloaded++
	} else {
		s.overloaded = 0
	}
	return s.overloaded >= overloadedWindows
}

// isOver reports whether overload has ended: no more calls come than can be done.
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

// correct corrects the bound by how long calls wait.
func (s *shedder) correct(w measured) {
	mayRun, target := float64(s.mayRun.Load()), s.targetWait()
	switch {
	case w.wait > 1.25*target:
		s.cut(mayRun * max(.8, target/w.wait))
	case w.wait < target/4 && w.refused: // the processors are all but idle
		s.mayRun.Store(s.bounded(2 * mayRun))
	case w.wait < target && w.refused:
		s.mayRun.Store(s.bounded(mayRun + max(1, mayRun/8)))
	}
}

// probe has as few calls run as may be, until it is seen how long they wait.
func (s *shedder) probe(now int64, afterwards float64) {
	s.cut(0)
	s.probing, s.probed, s.afterwards = true, now, afterwards
}

// cut sets a lower bound. What is seen until fewer than that run is of those before.
func (s *shedder) cut(mayRun float64) {
	s.mayRun.Store(s.bounded(mayRun))
	s.stale = true
}

func (s *shedder) bounded(mayRun float64) int64 {
	return max(int64(s.options.Shedding.MinRunning), min(int64(s.options.InFlight), int64(mayRun)))
}
