package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Limits of a spec.
const (
	MinMembers = 2
	MaxMembers = 64
	MaxMetrics = 64
	MaxWeight  = 1000
	// MaxName is in bytes.
	MaxName = 512
)

// Spec says how a fleet decides and who its members are.
type Spec struct {
	// Version changes whenever the metrics or the options of Engine do: digests of another one are not
	// added up.
	Version uint64
	// Engine is the spec for the sum of the members, Options its options.
	Engine  recommender.Spec
	Options recommender.Options
	// Namespace and Generation are the fleet's, for texts and the status.
	Namespace     string
	Generation    int64
	HasGeneration bool
	// Scopes belong to Engine.Metrics by index; they count for Object and External only.
	Scopes []Scope
	// Members are sorted by name.
	Members []Member
	// Period is the time between decisions.
	Period time.Duration
	// StaleAfter and LostAfter are ages of a member's last call, in that order.
	StaleAfter, LostAfter time.Duration
	OnLost                OnLost
	// SurviveOne shares out so many replicas that without the largest member the decided count remains.
	SurviveOne bool
	// MaxMoves limits the replicas that one decision moves between members in order to rebalance; 0: none
	// are moved but from drained members, one a decision.
	MaxMoves int32
	// Decide makes the decision; nil: recommender.Recommend. least is what metrics propose at least that are known in part
	// only, by index, also of those that fail for that; nil: there are none. The input is valid until it returns.
	Decide func(now time.Time, in *recommender.Input, least []int32, history *recommender.History) (recommender.Decision, recommender.History)
}

// Member is one member of a fleet.
type Member struct {
	Name string
	// Weight is 0 to MaxWeight; 0 drains the member.
	Weight int32
	// Min and Max bound the member's share; Max 0 drains the member, below 0: there is none.
	Min, Max int32
}

// Drained reports whether the member is to become empty.
func (m *Member) Drained() bool { return m.Weight == 0 || m.Max == 0 }

// Scope says what a reading of an Object or External metric covers.
type Scope uint8

// The scopes: each member reads its own part, or all read the same whole.
const (
	PerMember Scope = iota
	Global
)

// OnLost is what becomes of a lost member's share.
type OnLost uint8

// The choices: it stays as it was, or the others get it.
const (
	Hold OnLost = iota
	Shift
)

// Drained reports whether the member with that name is to become empty.
func (s *Spec) Drained(name string) bool {
	i := s.member(name)
	return i >= 0 && s.Members[i].Drained()
}

// OwnMin is what counts of the minimum of a member's own spec: at most what the fleet lets the member have, which is
// nothing if it is drained. What its caller has beyond that is its caller's alone: who calls does not say what others lose;
// who may override the member does.
func (s *Spec) OwnMin(name string, least int32) int32 {
	i := s.member(name)
	switch {
	case i < 0:
		return least
	case s.Members[i].Drained():
		return 0
	}
	return min(least, s.ceiling(&s.Members[i]))
}

// Validate returns what is wrong with the spec; nil: nothing. The engine's spec is not checked.
func (s *Spec) Validate() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if n := len(s.Members); n < MinMembers || n > MaxMembers {
		return fmt.Errorf("a fleet of %d members: it must have %d to %d", n, MinMembers, MaxMembers)
	}
	if n := len(s.Engine.Metrics); n > MaxMetrics {
		return fmt.Errorf("a fleet with %d metrics: it can have %d", n, MaxMetrics)
	}
	if !s.Options.Profile.AddsUp() {
		add("the profile %s: fleets need one that follows Kubernetes v1.20 or later", s.Options.Profile.Name())
	}
	floors, heaviest := int64(0), int32(0)
	keys := make(map[uint64]string, len(s.Members))
	for i := range s.Members {
		m := &s.Members[i]
		key := keyOf(m.Name)
		switch other, taken := keys[key]; {
		case m.Name == "" || len(m.Name) > MaxName:
			add("member %d: its name has %d bytes, it must have 1 to %d", i, len(m.Name), MaxName)
		case taken && other == m.Name:
			add("member %q is named twice", m.Name)
		case taken:
			add("members %q and %q can't be told apart: rename one", other, m.Name)
		case i > 0 && m.Name < s.Members[i-1].Name:
			add("member %q comes after %q: they must be sorted by name", m.Name, s.Members[i-1].Name)
		}
		keys[key] = m.Name
		switch {
		case m.Weight < 0 || m.Weight > MaxWeight:
			add("member %q: its weight is %d, it must be 0 to %d", m.Name, m.Weight, MaxWeight)
		case m.Min < 0:
			add("member %q: its minimum is %d, it must be at least 0", m.Name, m.Min)
		case m.Max > 0 && m.Min > m.Max:
			add("member %q: its minimum %d is above its maximum %d", m.Name, m.Min, m.Max)
		}
		if !m.Drained() {
			floors += int64(m.Min)
			heaviest = max(heaviest, m.Weight)
		}
	}
	switch {
	case heaviest == 0:
		add("every member is drained: at least one must have a weight")
	case floors > int64(s.Engine.MinReplicas):
		add("the minimums of the members add up to %d, which is above the fleet's minReplicas %d", floors, s.Engine.MinReplicas)
	}
	switch {
	case s.Period <= 0:
		add("the period is %v, it must be above 0", s.Period)
	case s.StaleAfter < s.Period:
		add("members are stale after %v, which is less than the period %v", s.StaleAfter, s.Period)
	case s.LostAfter < s.StaleAfter:
		add("members are lost after %v, which is less than the %v after which they are stale", s.LostAfter, s.StaleAfter)
	}
	if s.MaxMoves < 0 || s.MaxMoves > MaxMoves {
		add("rebalancing moves %d replicas a decision, it must be 0 to %d", s.MaxMoves, MaxMoves)
	}
	return errors.Join(problems...)
}

// MaxMoves limits Spec.MaxMoves.
const MaxMoves = 1000

// scope returns the scope of the metric with that index.
func (s *Spec) scope(metric int) Scope {
	if metric < len(s.Scopes) {
		return s.Scopes[metric]
	}
	return PerMember
}

// member returns the index of the member with that name, -1 for none.
func (s *Spec) member(name string) int {
	for i := range s.Members {
		if s.Members[i].Name == name {
			return i
		}
	}
	return -1
}

// ceiling is the most that a member can have.
func (s *Spec) ceiling(m *Member) int32 {
	if m.Max < 0 {
		return s.Engine.MaxReplicas
	}
	return min(m.Max, s.Engine.MaxReplicas)
}

// keyOf is how a record names a member: FNV-1a of the name.
func keyOf(name string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * 1099511628211
	}
	return hash
}
