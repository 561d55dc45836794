package agent

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
)

// state is the agent's state of an object between reconciles. Reconciles of an object never
// overlap, so that only due needs a lock.
type state struct {
	// uid is the object's at the last look; nil before the first.
	uid *string
	// sighted is when an object that waits for its first reconcile was first seen.
	sighted time.Time
	// seen is the object of the last reconcile; nil before the first.
	seen *Object
	// astray reports whether the object has not met the beat of its group since a reconcile
	// out of turn.
	astray bool
	// begun reports whether the service knows of the object, or was told to forget a namesake.
	begun bool
	// changed is when a reconcile last decided to change the count, zero: none did that a policy
	// could remember. soonest is as many periods later as there were reconciles since.
	changed, soonest time.Time
	// answered reports whether the service has answered this agent about the object.
	answered bool
	// settled is when the last reconcile was, or its answer came; zero: there was none.
	settled time.Time
	// failures is the number of consecutive failures that were retried early.
	failures int
	// unforgotten is the number of consecutive failures to delete the gone object at the
	// service.
	unforgotten int
	// unread is the number of consecutive failures to read the object.
	unread int
	// unreported is a report that did not reach the service.
	unreported *setpointv1.ReportScaleRequest
	// targets are the names under which the service knows the object, with its uid; stale
	// are those of earlier objects of its name that could not be deleted at the service.
	targets, stale map[string]string
	// taken is the last valid answer, without its large parts.
	taken *setpointv1.RecommendResponse
	// distrusted are the invalid answers, by kind of request.
	distrusted [questions]distrust
	// held is why the object is not scaled, heldFor the reason, "" if it is scaled.
	held, heldFor string
	// told is the reason for which the recommender does not decide that an event has told
	// of, "": it decides; nil: this agent does not know yet. toldAt is when.
	told   *string
	toldAt time.Time
	// fault is the error of the last decision.
	fault string
	// warned is the warning of the last event about one.
	warned string

	due     time.Time // guarded by states.mu; zero: at once
	hurried bool      // guarded by states.mu; due does not wait for the reconcile in flight to say so
}

// states are the states of all objects.
type states struct {
	metrics *metrics

	mu  sync.Mutex
	all map[Key]*state // guarded by mu
}

func newStates(m *metrics) *states { return &states{metrics: m, all: map[Key]*state{}} }

// of returns the object's state, a new one if it has none.
func (s *states) of(key Key) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[key]
	if found == nil {
		found = newState()
		s.all[key] = found
	}
	return found
}

func newState() *state { return &state{targets: map[string]string{}, stale: map[string]string{}} }

// restAfter is how long a change of the count is remembered: as long as the longest period
// that a policy may have.
const restAfter = 30 * time.Minute

// soonestAfter returns when the next reconcile may be that policies count a change of the count
// as they would with the built-in controller, after one that was settled at that instant;
// zero: at any time.
func (st *state) soonestAfter(settled time.Time, period time.Duration) time.Time {
	if settled.Sub(st.changed) > restAfter {
		return time.Time{}
	}
	// A reconcile out of turn is one more, but takes no period: after it a whole one does.
	st.soonest = st.soonest.Add(period)
	if most := settled.Add(period); st.soonest.After(most) {
		st.soonest = most
	}
	return st.soonest
}

// notBefore is when the next reconcile may be of an object whose spec changed meanwhile: at once,
// but no more often than the shortest period has it; and a period after a change of the
// count, as what limits a reconcile would otherwise limit nothing, and readings don't show yet
// what became of the change.
func (st *state) notBefore(period time.Duration) time.Time {
	at := st.settled.Add(pace.MinPeriod)
	if change := st.changed.Add(period); change.After(at) {
		return change
	}
	return at
}

// first notes the first answer that the agent has about an object. A count that another
// one changed before may be remembered by policies as well.
func (st *state) first(o *Object, settled time.Time) {
	st.answered = true
	if o.New || o.LastChange != nil && settled.Sub(*o.LastChange) > restAfter {
		return
	}
	st.changed, st.soonest = settled, settled
}

// keys are those of all objects, in order.
func (s *states) keys() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.all), Key.Compare)
}

// replace gives the object a new state: of the one that had its name before nothing
// counts, but what the service is still to forget.
func (s *states) replace(key Key, old *state) *state {
	s.drop(key)
	next := s.of(key)
	for _, left := range []map[string]string{old.stale, old.targets} {
		for target, uid := range left {
			next.stale[target] = uid
		}
	}
	return next
}

// find returns the object's state, nil if it has none.
func (s *states) find(key Key) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

func (s *states) drop(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.all[key]; found != nil && found.seen != nil {
		s.count(found.seen, -1)
	}
	delete(s.all, key)
}

// saw notes the object of a reconcile, and tells whether its period is another one now.
func (s *states) saw(st *state, o *Object) (otherPeriod bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	otherPeriod = st.seen == nil || st.seen.Period != o.Period
	if st.seen != nil {
		s.count(st.seen, -1)
	}
	s.count(o, 1)
	st.seen = o
	return otherPeriod
}

func (s *states) count(o *Object, n float64) {
	s.metrics.objects.WithLabelValues(s.metrics.sourceOf(o.Key), strconv.FormatBool(o.Shadow)).Add(n)
}

// hurry makes the next reconciles of the objects due at once.
func (s *states) hurry(keys []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if found := s.all[key]; found != nil {
			found.due, found.hurried = time.Time{}, true
		}
	}
}

// begin returns when the reconcile that begins was due.
func (s *states) begin(st *state) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.hurried = false
	return st.due
}

// end sets when the next reconcile is due, and returns it: at once if the object was
// hurried while its reconcile was in flight.
func (s *states) end(st *state, due time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.hurried {
		st.due = due
	}
	return st.due
}

// shortestPeriod is that of all objects; none: the one given.
func (s *states) shortestPeriod(none time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	shortest := none
	for _, st := range s.all {
		if st.seen != nil {
			shortest = min(shortest, st.seen.Period)
		}
	}
	return shortest
}
