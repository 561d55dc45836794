package fleet

import (
	"slices"
	"time"
)

// State is what a fleet knows of a member.
type State uint8

// The states.
const (
	// Unseen: it has never called.
	Unseen State = iota
	// Fresh: it has called within StaleAfter.
	Fresh
	// Returning: as Fresh, but it was lost, or the fleet had decided before it was ever seen. Its share stays
	// as it is for two decisions.
	Returning
	// Stale: it has not called within StaleAfter, or can't see its pods, or its digest is of another
	// version of the spec.
	Stale
	// Lost: it has not called within LostAfter.
	Lost
)

var stateNames = [...]string{Unseen: "UNSEEN", Fresh: "FRESH", Returning: "RETURNING", Stale: "STALE", Lost: "LOST"}

// String returns the state's name.
func (s State) String() string { return stateNames[s] }

// backAfter is for how many decisions a member that comes back keeps its share.
const backAfter = 2

// Moved says that a decision does without a member, or counts it, for the first time; empty: neither. was is its record
// before, nil: there was none.
func (m *MemberRecord) Moved(was *MemberRecord) string {
	switch {
	case m.Gone && (was == nil || !was.Gone):
		return "lost"
	case m.Back == backAfter-1 && (was == nil || was.Back != m.Back):
		return "back, or new"
	}
	return ""
}

// stateOf returns a member's state. Silence counts from the instant at which the fleet itself was awake:
// while nobody called, the silence was the service's, and only those that were lost before stay lost.
func (s *Spec) stateOf(m *MemberRecord, awake, now int64) State {
	switch {
	case m.Seen == 0:
		return Unseen
	case m.Gone:
		return Lost
	case m.Digest == nil || m.Seen > m.Told || now-m.Told > int64(s.StaleAfter) || m.Version != s.Version:
		if now-max(m.Seen, awake) > int64(s.LostAfter) {
			return Lost
		}
		return Stale
	case m.Back > 0:
		return Returning
	}
	return Fresh
}

// paused reports whether nobody has called for so long that the service was away: for longer than callers are silent between
// two calls, which may be longer than StaleAfter, but not for so long that those that come back late would be lost.
func (s *Spec) paused(r *Record, at int64) bool {
	return at-r.Updated > int64(max(s.StaleAfter, s.LostAfter/2))
}

// States returns what a fleet knows of each member of the spec at an instant, in the spec's order, and the
// record of each; that of one that never called is the zero one, without a key.
func (s *Spec) States(r *Record, now time.Time) ([]State, []MemberRecord) {
	next := r.own(s)
	at := max(now.UnixNano(), r.Updated)
	awake := next.Awake
	if s.paused(r, at) {
		awake = at // as of the next call
	}
	states := make([]State, len(next.Members))
	for i := range next.Members {
		states[i] = s.stateOf(&next.Members[i], awake, at)
	}
	return states, next.Members
}

// Count counts members by state.
func (s *Spec) Count(states []State) (c Counts) {
	for i, state := range states {
		c.add(state, s.Members[i].Drained())
	}
	return c
}

// Counts is how many members of a fleet are in which state.
type Counts struct{ Unseen, Fresh, Returning, Stale, Lost, Drained int }

func (c *Counts) add(state State, drained bool) {
	switch state {
	case Unseen:
		c.Unseen++
	case Fresh:
		c.Fresh++
	case Returning:
		c.Returning++
	case Stale:
		c.Stale++
	case Lost:
		c.Lost++
	}
	if drained {
		c.Drained++
	}
}

// contradicts is how many times as large as the smallest reading of a global metric the largest one is that
// contradicts it.
const contradicts = 2

// Contradictions returns of which Object and External metrics the readings of the members that call contradict
// the scope, by their indices in ascending order: members read a global one very differently, or all of them the same of
// one of which each should read a part, if they are unlikely to by chance. The states and the records are those of States.
func (s *Spec) Contradictions(states []State, members []MemberRecord) (metrics []int) {
	totals := make([][]int64, len(s.Engine.Metrics))
	calling := 0
	var d Digest
	for i := range members {
		if states[i] != Fresh && states[i] != Returning || members[i].Version != s.Version || d.decode(members[i].Digest) != nil {
			continue
		}
		calling++
		for k := range min(len(totals), len(d.Metrics)) {
			if IsTotal(&s.Engine.Metrics[k]) && !d.Metrics[k].problem(&s.Engine.Metrics[k]) {
				totals[k] = append(totals[k], d.Metrics[k].Total.Sum)
			}
		}
		clear(d.Metrics)
	}
	for k, read := range totals {
		if len(read) < 2 {
			continue
		}
		least, most := slices.Min(read), slices.Max(read)
		switch s.scope(k) {
		case Global:
			if least >= 0 && most/contradicts > least {
				metrics = append(metrics, k)
			}
		default:
			if least == most && !common(least) && len(read) == calling {
				metrics = append(metrics, k)
			}
		}
	}
	return metrics
}

// common reports whether balanced parts may well be equal by chance: small and round numbers, which have fewer than
// three digits before the zeros at their end, often are.
func common(v int64) bool {
	for v != 0 && v%10 == 0 {
		v /= 10
	}
	return -100 < v && v < 100
}
