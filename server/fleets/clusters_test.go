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
