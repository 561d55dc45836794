package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The pace of a target, for people and alerts: how often it is asked for, and when its count turned.
// No decision depends on it, but for what a pause is to callers that ask for RestartAfterPause.

// maxInterval limits the interval, in milliseconds.
const maxInterval = int64(365 * 24 * time.Hour / time.Millisecond)

// Intervals in milliseconds. Calls in a burst, as retries and restarts make, are no interval to begin
// with, and one that they shortened may grow to the controller's at once.
const (
	leastFirst = int64(time.Second / time.Millisecond)
	controller = int64(15 * time.Second / time.Millisecond)
)

// paced returns the interval after a decision that came that long after the previous one, and whether that gap was a
// pause, as the one before may have been. The interval follows the longest usual gaps: one gap at most doubles it, and it
// falls by an eighth at most, because calls may come twice in a row. A longer gap is a pause, as an outage of the service
// makes it: a single one changes nothing, and of several in a row the second one is usual. The first interval counts as one,
// for it may be that of a restart.
func paced(interval int64, paused bool, gap time.Duration) (next int64, pause bool) {
	took := min(gap.Milliseconds(), maxInterval)
	pause = took > 2*interval
	switch {
	case took <= 0, interval == 0 && took < leastFirst:
		return interval, paused
	case interval == 0:
		return took, true
	case pause && !paused:
		return interval, true
	}
	return min(max(took, interval-interval/8), max(2*interval, controller)), pause
}

// pace keeps the frame's interval, direction and turns after a decision or a report on the record
// before, whose history is now this one.
func (r *Record) pace(before *Record) {
	if last := before.Last.At; last != 0 {
		r.Interval, r.Paused = paced(before.Interval, before.Paused, time.Duration(r.Last.At-last))
	}
	p := before.Pending
	if p == nil || p.Outside || !r.applied(p.ID) {
		return
	}
	r.Turns, r.LastChange = r.turnedBy(p), directionOf(p)
}

// applied reports whether that change is among the settled ones, and was applied.
func (r *Record) applied(id recommender.ID) bool {
	return slices.ContainsFunc(r.Settled, func(s recommender.Settled) bool { return s.ID == id && s.Outcome == recommender.Applied })
}

func directionOf(p *recommender.Pending) int8 {
	if p.To > p.From {
		return 1
	}
	return -1
}

// turnedBy returns the turns with a change: it is one if the last applied change went the other way.
func (r *Record) turnedBy(p *recommender.Pending) []int64 {
	if r.LastChange == 0 || r.LastChange == directionOf(p) {
		return r.Turns
	}
	return append([]int64{p.At / int64(time.Millisecond)}, r.Turns[:min(len(r.Turns), codec.MaxTurns-1)]...)
}

// The rules of the states that come with time, for the API, metrics and alerts.
const (
	// missedIntervals is after how many of its intervals a target is not asked for any more, and
	// firstPatience after how long one whose interval is unknown, as after its first call.
	missedIntervals = 3
	firstPatience   = int64(15 * time.Minute / time.Millisecond)
	// flappingTurns within TurnsPeriod are flapping.
	flappingTurns = 3
	// TurnsPeriod is the time in which turns count.
	TurnsPeriod = time.Hour
)

// NotAskedAt is from when on a target counts as not asked for, after its last decision and with its
// interval; all in milliseconds.
func NotAskedAt(last, interval int64) int64 {
	if interval <= 0 {
		return last + firstPatience
	}
	return last + missedIntervals*interval
}

// RestartAfterPause has the windows of the target's history begin anew if it was not asked for longer than they last, and for
// so long that it counted as not asked: windows may be shorter than its interval.
func (r *Record) RestartAfterPause(h *recommender.History, now time.Time, in *recommender.Input) bool {
	return now.UnixMilli() > NotAskedAt(h.Updated.UnixMilli(), r.Interval) && h.RestartAfterPause(now, in)
}

// FlappingUntil is until when a count with these turns, newest first, is flapping, in milliseconds;
// 0: it never was.
func FlappingUntil(turns []int64) int64 {
	if len(turns) < flappingTurns {
		return 0
	}
	return turns[flappingTurns-1] + TurnsPeriod.Milliseconds()
}

// TurnTimes are when the count turned, newest first, in milliseconds since the Unix epoch: by changes
// that were applied, and by one that is pending. A change that failed does not count.
func (r *Record) TurnTimes() []int64 {
	if r.Pending == nil || r.Pending.Outside {
		return r.Turns
	}
	return r.turnedBy(r.Pending)
}

// TurnsAt are TurnTimes for a count that was seen: a pending change counts if that is what it was to.
func (r *Record) TurnsAt(replicas int32) []int64 {
	if r.Pending == nil || r.Pending.To != replicas {
		return r.Turns
	}
	return r.TurnTimes()
}

// mergedPace sets the pace of a record merged from two, which settle each other's changes: the turns of
// both, and the direction of the side that decided last.
func (r *Record) mergedPace(stored, local *Record) {
	first, second := *stored, *local
	if stored.Updated.After(local.Updated) {
		first, second = second, first
	}
	for _, side := range []*Record{&first, &second} {
		if p := side.Pending; p != nil && !p.Outside && r.applied(p.ID) {
			side.Turns, side.LastChange = side.turnedBy(p), directionOf(p)
		}
	}
	r.Interval, r.Paused, r.LastChange = second.Interval, second.Paused, second.LastChange
	if r.Interval == 0 {
		r.Interval = first.Interval
	}
	if r.LastChange == 0 {
		r.LastChange = first.LastChange
	}
	turns := slices.Concat(first.Turns, second.Turns)
	slices.SortFunc(turns, func(a, b int64) int { return cmp.Compare(b, a) })
	turns = slices.Compact(turns)
	r.Turns = turns[:min(len(turns), codec.MaxTurns)]
}
