package fleets_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
)

// The decisions of a fleet are in its log, and those of a member whenever its share changes, though neither has a record of its
// own. Of another target without a record nothing is known, as before.
func TestDecisionsOfFleetsAreListed(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		list := func(name string, size int32) ([]*setpointv1.Decision, error) {
			resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: size})
			return resp.GetDecisions(), err
		}
		for _, name := range []string{fleetName, west, north} {
			if got, err := list(name, 10); status.Code(err) != codes.NotFound {
				t.Errorf("before there is a fleet, %s: %v, %v", name, got, err)
			}
		}
		s.set(t, queueFleet(2, 100, west, east))
		for _, name := range []string{fleetName, west} {
			if got, err := list(name, 10); err != nil || len(got) != 0 {
				t.Errorf("before any call, %s: %v, %v", name, got, err)
			}
		}
		s.call(t, member(west, 3, 60))
		s.call(t, member(east, 3, 60))
		s.call(t, member(west, 3, 60))
		for name, want := range map[string][2]int32{fleetName: {6, 12}, west: {3, 6}, east: {3, 6}} {
			for _, size := range []int32{1, 10} {
				got, err := list(name, size)
				if err != nil || len(got) == 0 || [2]int32{got[0].GetCurrentReplicas(), got[0].GetDesiredReplicas()} != want {
					t.Errorf("%s, %d a page: %v, %v, want %v", name, size, got, err, want)
				}
			}
		}
		if got, err := list(north, 10); status.Code(err) != codes.NotFound {
			t.Errorf("no member: %v, %v", got, err)
		}
	})
}
