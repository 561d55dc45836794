// Package pace says when an object's next evaluation is due. It is arithmetic alone: it
// reads no clock.
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

// Slack returns how much later than a period a reconcile may come, so that the objects of
// a group stay together although their reconciles don't take equally long.
func Slack(period time.Duration) time.Duration {
	return min(max(period/100, minSlack), maxSlack)
}

// Next returns the instant of the reconcile after one that was settled at that
// instant, which is when its answer came: the service decided before. After a reconcile that
// changed the count it is never less than a period later, and n reconciles after it n periods,
// as with the built-in controller: the change is then older than a policy's period of the
// same length, and does not hold back the next one for another period. That instant is
// soonest; it is zero for an object whose count has not changed for so long that no policy
// remembers it.
//
// The objects of a group, such as a namespace, have a beat, which is slower than the
// period by its slack, and groups have different ones. Objects that come with the beat
// share what they read. One that has lost time, because its reconciles take longer than the
// slack or it waited for the beat before, makes it up and comes with the beat, as long as
// that is not before soonest. Another one that would miss the beat by no more than the
// slack waits for it, and else comes a period after its answer.
//
// One that is astray, after a reconcile out of turn, may be anywhere between two beats. It
// waits up to an eighth of a period longer than it would have to, until it has met the
// beat. stray says that it has not yet.
func Next(settled, soonest time.Time, period time.Duration, group string, astray bool) (next time.Time, stray bool) {
	slack := Slack(period)
	most := max(period/8, slack)
	// Rounds don't follow each other at once.
	if least := settled.Add(most - slack); soonest.Before(least) {
		soonest = least
	}
	// The beat follows the wall clock, the wait does not: setting the clock makes no
	// object wait longer.
	beat := soonest.Add(UntilBeat(soonest, period+slack, group))
	earliest, late := settled.Add(period), slack
	if astray {
		late = most
	}
	if !beat.After(earliest.Add(late)) {
		return beat, false
	}
	if astray && period+slack-UntilBeat(earliest, period+slack, group) > most {
		return earliest.Add(most), true
	}
	return earliest, astray
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

// RetryAt returns when to try again after so many failures in a row, at least one: not
// after the next reconcile.
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
