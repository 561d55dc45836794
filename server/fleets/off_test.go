package fleets_test

import (
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
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

// Whose replicas the fleet itself took is not switched off, though the fleet's record is lost: the members' callers send
// their status, which says so. One that somebody else switched off stays so.
func TestWhoIsAtZeroByAFleetComesBackWithoutItsRecord(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"idle", "drained", "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drains := name == "drained"
			engines(t, func(t *testing.T, open func() store.Engine) {
				engine := open()
				s := start(t, func() store.Engine { return engine })
				spec := queueFleet(0, 100, west, east)
				spec.Options = &setpointv1.RecommendOptions{ScaleToZero: new(true)}
				has, statuses := map[string]int32{west: 1, east: 1}, map[string]*setpointv1.HorizontalPodAutoscalerStatus{}
				if name == "off" {
					clear(has)
				}
				periods := func(n int, queue int32) {
					t.Helper()
					for range n {
						for _, m := range []string{west, east} {
							got := s.call(t, member(m, has[m], queue, func(r *setpointv1.RecommendRequest) {
								r.PreviousStatus = statuses[m]
								if !drains {
									r.Spec.MinReplicas, r.Options = new(int32), &setpointv1.RecommendOptions{ScaleToZero: new(true)}
								}
							}))
							has[m], statuses[m] = got.GetDesiredReplicas(), got.GetStatus()
						}
						s.Clock.Advance(15 * time.Second)
					}
				}
				spec.Fleet.Members[1].Drained = drains
				spec = s.set(t, spec)
				if periods(4, 0); !drains {
					periods(1, 0)
				}
				if has[east] != 0 || !drains && has[west] != 0 {
					t.Fatalf("there are %v", has)
				}
				records, err := engine.(store.Parts).Part(store.Fleets, 0)
				fatal.If(t, err)
				if existed, err := records.Delete(t.Context(), servertest.KeyOf(fleetName)); err != nil || !existed {
					t.Fatal(existed, err)
				}
				spec.Fleet.Members[1].Drained = false
				s.set(t, spec)
				if periods(4, 30); (has[west] == 0 || has[east] == 0) != (name == "off") {
					t.Errorf("there are %v for a queue of 60", has)
				}
			})
		})
	}
}
