// Package pace computes when an object's next reconcile is due. It is pure arithmetic and reads
// no clock.
//
//	next, stray := pace.Next(settled, soonest, 15*time.Second, "shop", stray)
package pace

import (
	"hash/fnv"
	"time"
)

// The bounds of an object's own period.
const (
	MinPeriod = time.Second
	MaxPeriod = time.Hour
)

// FirstBackoff is the wait after a first failure; it doubles with each further one.
const FirstBackoff = time.Second

// MaxFirstWait bounds how long a new object waits for its first reconcile.
const MaxFirstWait = time.Minute

// The bounds of the slack of a period, which is a hundredth of it.
const (
	minSlack = 50 * time.Millisecond
	maxSlack = time.Second
)

// Slack returns how much later than a period a reconcile may start, so that the objects of a
// group stay together although their reconciles take different times.
func Slack(period time.Duration) time.Duration {
	return min(max(period/100, minSlack), maxSlack)
}

// Next returns when the reconcile after the settled one is due; settled is when its answer
// arrived. After a change of the count the n-th reconcile starts at least n periods later, as
// with the built-in controller: a policy with a period of the same length then no longer counts
// the change. soonest is that instant; it is zero for an object whose last change is so old
// that no policy remembers it.
//
// The objects of a group, such as a namespace, share a beat, which is slower than the period by
// the slack; different groups have different beats. Objects on the beat share their readings.
// An object that fell behind, because its reconciles take longer than the slack or because it
// waited for the beat before, catches up with the beat, but not before soonest. Any other
// object waits for the beat if it would miss it by at most the slack; otherwise it is due a
// period after its answer.
//
// An object that was reconciled out of turn may be anywhere between two beats. Each reconcile
// waits up to an eighth of a period longer until the object is on the beat. stray reports that it
// is not yet.
func Next(settled, soonest time.Time, period time.Duration, group string, outOfTurn bool) (next time.Time, stray bool) {
	slack := Slack(period)
	most := max(period/8, slack)
	// Reconciles never follow each other at once.
	if least := settled.Add(most - slack); soonest.Before(least) {
		soonest = least
	}
	// The beat follows the wall clock, the wait does not: setting the clock never makes an
	// object wait longer.
	beat := soonest.Add(UntilBeat(soonest, period+slack, group))
	earliest, late := settled.Add(period), slack
	if outOfTurn {
		late = most
	}
	if !beat.After(earliest.Add(late)) {
		return beat, false
	}
	if outOfTurn && period+slack-UntilBeat(earliest, period+slack, group) > most {
		return earliest.Add(most), true
	}
	return earliest, outOfTurn
}

// UntilBeat returns how long after now the next beat of a group is; 0: now.
func UntilBeat(now time.Time, spacing time.Duration, group string) time.Duration {
	after := time.Duration(now.UnixNano()-int64(shiftOf(group, spacing))) % spacing
	if after < 0 {
		after += spacing
	}
	return (spacing - after) % spacing
}

// shiftOf spreads groups over the time between two beats.
func shiftOf(group string, spacing time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(group))
	return time.Duration(h.Sum64() % uint64(spacing))
}

// RetryAt returns when to retry after so many consecutive failures, at least one: never later
// than the next reconcile.
func RetryAt(now time.Time, failures int, period time.Duration, group string) time.Time {
	wait := FirstBackoff
	for ; failures > 1 && wait < period; failures-- {
		wait *= 2
	}
	next, _ := Next(now, now.Add(period), period, group, false)
	if at := now.Add(wait); at.Before(next) {
		return at
	}
	return next
}
