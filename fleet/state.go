package fleet

// State is what a fleet knows of a member.
type State uint8

// The states.
const (
	// Unseen: it has never called.
	Unseen State = iota
	// Fresh: it has called within StaleAfter.
	Fresh
	// Returning: as Fresh, but it was lost or never seen before the last decision. Its share stays as it
	// is for two decisions.
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

// stateOf returns a member's state. Silence counts from the instant at which the fleet itself was awake:
// while nobody called, the silence was the service's, and only those that were lost before stay lost.
func (s *Spec) stateOf(m *MemberRecord, awake, now int64) State {
	switch {
	case m.Seen == 0:
		return Unseen
	case m.Gone:
		return Lost
	case m.Digest == nil || now-m.Told > int64(s.StaleAfter) || m.Version != s.Version:
		if now-max(m.Seen, awake) > int64(s.LostAfter) {
			return Lost
		}
		return Stale
	case m.Back > 0:
		return Returning
	}
	return Fresh
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
