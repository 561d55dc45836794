package fleets_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// Of two clusters with one name one is the member, as of any target; who tells no uid is believed. A cluster takes the place of
// one that is lost.
func TestTwoClustersWithTheNameOfAMember(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		a, b := start(t, open), start(t, open)
		a.set(t, queueFleet(2, 100, west, east))
		of := func(uid string) func(*setpointv1.RecommendRequest) {
			return func(r *setpointv1.RecommendRequest) { r.ClusterUid = uid }
		}
		a.call(t, member(west, 3, 60))
		a.call(t, member(west, 3, 60, of("one")))
		for _, s := range []*service{a, b} {
			for what, change := range map[string][]func(*setpointv1.RecommendRequest){"a call": {of("two")}, "a dry run": {of("two"), servertest.DryRun}} {
				want(t, what+" of another cluster", s.try(t, member(west, 9, 900, change...)), codes.FailedPrecondition, "OTHER_CLUSTER")
			}
			s.call(t, member(west, 3, 60))
			s.call(t, member(west, 3, 60, of("one")))
			s.call(t, member(east, 3, 60, of("two")))
		}
		if f := a.fleet(t); f.GetMembers()[1].GetSpecReplicas() != 3 {
			t.Errorf("another cluster told of a member: %v", f.GetMembers())
		}
		for range 21 {
			a.Clock.Advance(15 * time.Second)
			b.Clock.Advance(15 * time.Second)
			a.call(t, member(east, 3, 60, of("two")))
		}
		b.call(t, member(west, 3, 60, of("two")))
		want(t, "the one that was lost", a.try(t, member(west, 9, 900, of("one"))), codes.FailedPrecondition, "OTHER_CLUSTER")
	})
}

func ofCluster(uid string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.ClusterUid = uid }
}

// A cluster that is built anew under its name takes the place of the former one once that is gone for the fleet: also where
// nobody calls that is not refused, as when all are built anew.
func TestAllClustersAreBuiltAnew(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60, ofCluster("west-1")))
	s.call(t, member(east, 3, 60, ofCluster("east-1")))
	anew := func(after string, refused bool) {
		t.Helper()
		for name, uid := range map[string]string{west: "west-2", east: "east-2"} {
			if refused {
				want(t, after, s.try(t, member(name, 3, 60, ofCluster(uid))), codes.FailedPrecondition, "OTHER_CLUSTER")
			} else {
				s.call(t, member(name, 3, 60, ofCluster(uid)))
			}
		}
	}
	s.Clock.Advance(time.Hour) // the service was away, which makes nobody lost
	anew("after an outage", true)
	s.Clock.Advance(time.Hour)
	for range 20 {
		anew("for five minutes", true)
		s.Clock.Advance(15 * time.Second)
	}
	anew("after that", false)
	want(t, "the former one", s.try(t, member(west, 9, 900, ofCluster("west-1"))), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// What a fleet knows of the cluster of a member that was taken out of it does not count when that comes back.
func TestAMemberComesBackFromAnotherCluster(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := s.set(t, queueFleet(2, 100, west, east, north))
	for _, name := range []string{west, east, north} {
		s.call(t, member(name, 3, 60, ofCluster("one")))
	}
	spec.Fleet = queueFleet(2, 100, west, east).GetFleet()
	spec = s.set(t, spec)
	s.call(t, member(east, 3, 60, ofCluster("one")))
	spec.Fleet = queueFleet(2, 100, west, east, north).GetFleet()
	s.set(t, spec)
	s.call(t, member(north, 3, 60, ofCluster("two")))
	want(t, "the former one", s.try(t, member(north, 9, 900, ofCluster("one"))), codes.FailedPrecondition, "OTHER_CLUSTER")
}
