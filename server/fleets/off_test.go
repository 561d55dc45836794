package fleets_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// A member that somebody set to 0 is left alone, and the others get its share; it takes part again once it has replicas.
func TestAMemberThatIsSwitchedOffGetsNothing(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		s.call(t, member(west, 6, 60))
		s.call(t, member(east, 6, 60))
		s.Clock.Advance(15 * time.Second)
		if off := s.call(t, member(west, 0, 60)); off.GetDesiredReplicas() != 0 {
			t.Errorf("it is switched on: %v", off)
		}
		if on := s.call(t, member(east, 6, 60)); on.GetDesiredReplicas() != 12 || on.GetFleet().GetShareTotal() != 12 {
			t.Errorf("the other one gets %d of %v, want all 12", on.GetDesiredReplicas(), on.GetFleet())
		}
		s.Clock.Advance(15 * time.Second)
		if back := s.call(t, member(west, 2, 60)); back.GetDesiredReplicas() < 2 {
			t.Errorf("it is on again: %v", back)
		}
	})
}
