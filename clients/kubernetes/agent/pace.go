package agent

import (
	"hash/fnv"
	"time"
)

// The bounds of an object's own sync period.
const (
	minSyncPeriod = time.Second
	maxSyncPeriod = time.Hour
)

// firstBackoff is the wait after a first failure; it doubles with each further one.
const firstBackoff = time.Second

// nextRound returns the instant of the round after one at now: a multiple of the
// period, shifted for the namespace, so that the objects of a namespace come together
// and share what they read, and namespaces don't. It is half a period to one and a half
// away: a round out of turn, after a change, takes the place of the one that comes
// right after it, since without behavior the count may double with every round.
func nextRound(now time.Time, period time.Duration, namespace string) time.Time {
	shift := shiftOf(namespace, period)
	earliest := now.Add(period / 2).UnixNano()
	n := (earliest-int64(shift))/int64(period) + 1
	return time.Unix(0, n*int64(period)+int64(shift)).UTC()
}

// shiftOf spreads namespaces over the period.
func shiftOf(namespace string, period time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace))
	return time.Duration(h.Sum64() % uint64(period))
}

// retryAt returns when to try again after so many failures in a row, at least one: not
// after the next round.
func retryAt(now time.Time, failures int, period time.Duration, namespace string) time.Time {
	wait := firstBackoff
	for ; failures > 1 && wait < period; failures-- {
		wait *= 2
	}
	next := nextRound(now, period, namespace)
	if at := now.Add(wait); at.Before(next) {
		return at
	}
	return next
}
