// Package pace says when an object's next evaluation is due. It is arithmetic alone: it
// reads no clock.
//
//	next, stray := pace.Next(settled, 15*time.Second, "shop", stray)
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

// MaxFirstWait bounds how long a new object waits for its first round.
const MaxFirstWait = time.Minute

// The bounds of the slack of a period, which is a hundredth of it.
const (
	minSlack = 50 * time.Millisecond
	maxSlack = time.Second
)

// Slack returns how much later than a period a round may come, so that the objects of
// a group stay together although their rounds don't take equally long.
func Slack(period time.Duration) time.Duration {
	return min(max(period/100, minSlack), maxSlack)
}

// Next returns the instant of the round after one that was settled at that
// instant, which is when its answer came: the service decided before. It is never less
// than a period later, as with the built-in controller: a change that the round made is
// then older than a policy's period of the same length, and does not hold back the next
// one for another period.
//
// The objects of a group, such as a namespace, have a beat, which is slower than the
// period by its slack, and groups have different ones. An object that would miss the beat
// by no more than the slack waits for it, so that the objects of a group come together and
// share what they read. One whose round took longer than the slack comes after the
// beat, a period after its answer, and is back as soon as its rounds are faster again:
// by the slack, less what a round takes, with each.
//
// One that is astray, after a round out of turn, may be anywhere between two beats. It
// waits up to an eighth of a period longer than it would have to, until it has met the
// beat. stray says that it has not yet.
func Next(settled time.Time, period time.Duration, group string, astray bool) (next time.Time, stray bool) {
	slack := Slack(period)
	// The beat goes by the wall's clock, the wait does not: a clock that is set makes
	// nobody wait longer.
	earliest := settled.Add(period)
	wait := UntilBeat(earliest, period+slack, group)
	late, most := period+slack-wait, period/8
	switch {
	case wait <= slack:
		return earliest.Add(wait), false
	case astray && late > most:
		return earliest.Add(min(wait, most)), wait > most
	}
	return earliest, astray
}

// AtRest returns the instant of the round after one that was settled at that instant, of an
// object whose count has not changed for so long that no policy remembers it: the next beat
// of its group that is not within an eighth of a period. Thus objects keep together
// however long their rounds take, and are together at once after rounds out of turn; those
// that are together have a period and its slack from one round to the next.
func AtRest(settled time.Time, period time.Duration, group string) time.Time {
	soonest := settled.Add(period / 8)
	return soonest.Add(UntilBeat(soonest, period+Slack(period), group))
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
// after the next round.
func RetryAt(now time.Time, failures int, period time.Duration, group string) time.Time {
	wait := FirstBackoff
	for ; failures > 1 && wait < period; failures-- {
		wait *= 2
	}
	next, _ := Next(now, period, group, false)
	if at := now.Add(wait); at.Before(next) {
		return at
	}
	return next
}
