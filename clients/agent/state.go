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
// overlap, so only due needs a lock.
type state struct {
	// uid is the object's UID when last read; nil before.
	uid *string
	// sighted is when an object that waits for its first reconcile was first seen.
	sighted time.Time
	// seen is the object of the last reconcile; nil before the first. last is the one that was read
	// last, as the platform returned it.
	seen, last *Object
	// outOfTurn reports whether the object is off the beat of its group since a reconcile out of
	// turn.
	outOfTurn bool
	// ownsRecord reports whether the service has no record of a deleted object of the same name: it
	// has one of this object, or has deleted the old one.
	ownsRecord bool
	// changed is when a reconcile last changed the count; zero: not so recently that a policy
	// could remember it. soonest is as many periods later as there were reconciles since.
	changed, soonest time.Time
	// answered reports whether the service has answered this agent about the object.
	answered bool
	// settled is the time of the last reconcile or of its answer; zero: there was none.
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
	// targets are the names under which the service may have a record of the object, with its
	// uid; stale are those of deleted objects of the same name that are still to be deleted at
	// the service.
	targets, stale map[string]string
	// taken is the last valid answer, without its large parts.
	taken *setpointv1.RecommendResponse
	// sight is what a shadow last asked about. uncounted tells of a scale that its policies do not
	// count, while those of the controller in charge do: until uncountedUntil.
	sight          sight
	uncounted      string
	uncountedUntil time.Time
	// distrusted are the invalid answers, by kind of request.
	distrusted [questions]distrust
	// held is the logged cause why the object is not scaled, "" if it is scaled.
	held string
	// eventReason is the reason of the last event that is not over, "": the recommender decides;
	// nil: this agent does not know yet. eventAt is the time of the event.
	eventReason *string
	eventAt     time.Time
	// moved is the number of consecutive reconciles whose counts others had changed.
	moved int
	// counts is the last change of the count that the platform took.
	counts takenCounts
	// fault is the error of the last decision.
	fault string
	// adjusted is the adjustment of the last event about one, its stage and rule; fleet is what the last
	// event about the fleet told.
	adjusted, fleet told
	// warned is the text of the last warning event.
	warned string

	due     time.Time // guarded by states.mu; zero: at once
	madeDue bool      // guarded by states.mu; makes due ignore the end of the reconcile in flight
}

// takenCounts is the last change of a count that the platform took. The zero value: none that matters.
type takenCounts struct {
	from, to int32
	at       time.Time
	// undone is how many changes in a row ended with the count that was before them, and back reports whether the last one
	// has. content counts the decisions in a row to leave it there.
	undone, content int
	back            bool
}

// see takes a decision in. It returns how many changes in a row were undone, if the count is now what it was before them.
func (k *takenCounts) see(e *evaluation) (undone int) {
	current := e.Answer.GetCurrentReplicas()
	switch {
	case k.at.IsZero():
	case current == k.from:
		if !k.back {
			k.back, k.undone = true, k.undone+1
		}
		if k.content++; e.changes() {
			k.content = 0
		}
		undone = k.undone
	case current != k.to, e.Applied, e.answered.Sub(k.at) > restAfter: // others want another count, or it stayed
		*k = takenCounts{}
	}
	switch {
	case e.Applied:
		*k = takenCounts{from: current, to: e.Answer.GetDesiredReplicas(), at: e.answered, undone: undone}
	case k.content > maxMoved:
		*k = takenCounts{}
	}
	return undone
}

// states has the states of all objects.
type states struct {
	metrics *metrics

	mu  sync.Mutex
	all map[Key]*state // guarded by mu
	// periods is how many objects have each period. Guarded by mu.
	periods map[time.Duration]int
}

func newStates(m *metrics) *states {
	return &states{metrics: m, all: map[Key]*state{}, periods: map[time.Duration]int{}}
}

// of returns the object's state; it creates one if necessary.
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

// restAfter is how long a change of the count matters: as long as the longest allowed period of
// a policy.
const restAfter = 30 * time.Minute

// soonestAfter returns the earliest time of the next reconcile at which policies count a change
// as they would with the built-in controller, given that the last reconcile was settled at that
// instant; zero: any time.
func (st *state) soonestAfter(settled time.Time, period time.Duration) time.Time {
	if settled.Sub(st.changed) > restAfter {
		return time.Time{}
	}
	// A reconcile out of turn counts as one, but does not start a period.
	st.soonest = st.soonest.Add(period)
	if most := settled.Add(period); st.soonest.After(most) {
		st.soonest = most
	}
	return st.soonest
}

// notBefore is the earliest reconcile of an object whose spec changed: at once, but no more
// often than the minimum period; and a period after a change of the count, because rate limits
// count per period and readings do not show the effect of the change yet.
func (st *state) notBefore(period time.Duration) time.Time {
	at := st.settled.Add(pace.MinPeriod)
	if change := st.changed.Add(period); change.After(at) {
		return change
	}
	return at
}

// first records the first answer to this agent about an object. Policies may also remember a
// change made by another agent.
func (st *state) first(o *Object, settled time.Time) {
	st.answered = true
	if o.New || o.LastChange != nil && settled.Sub(*o.LastChange) > restAfter {
		return
	}
	st.changed, st.soonest = settled, settled
}

// keys are the keys of all objects, in order.
func (s *states) keys() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.all), Key.Compare)
}

// replace gives the object a new state. Of the namesake's state it keeps only what is still to
// be deleted at the service.
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

func (s *states) drop(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.all[key]; found != nil && found.seen != nil {
		s.count(found.seen, -1)
	}
	delete(s.all, key)
}

// saw records the object of a reconcile, and reports whether its period changed.
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

// count counts the object, or with -1 no longer. The caller holds the lock.
func (s *states) count(o *Object, n int) {
	s.metrics.objects.WithLabelValues(s.metrics.sourceOf(o.Key), strconv.FormatBool(o.Shadow)).Add(float64(n))
	if s.periods[o.Period] += n; s.periods[o.Period] == 0 {
		delete(s.periods, o.Period)
	}
}

// makeDue makes the next reconciles of the objects due at once.
func (s *states) makeDue(keys []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if found := s.all[key]; found != nil {
			found.due, found.madeDue = time.Time{}, true
		}
	}
}

// begin returns when the starting reconcile was due.
func (s *states) begin(st *state) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.madeDue = false
	return st.due
}

// end sets when the next reconcile is due, and returns it: at once if the object was made due
// while its reconcile was in flight.
func (s *states) end(st *state, due time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.madeDue {
		st.due = due
	}
	return st.due
}

// shortestPeriod is the shortest period of all objects; the longest one there can be if there are no objects.
func (s *states) shortestPeriod() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	shortest := pace.MaxPeriod
	for period := range s.periods {
		shortest = min(shortest, period)
	}
	return shortest
}
