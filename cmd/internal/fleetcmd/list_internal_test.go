package fleetcmd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// slow answers after a second, and to some with an error.
type slow struct{ fails map[string]codes.Code }

func (s slow) GetFleet(ctx context.Context, req *setpointv1.GetFleetRequest, _ ...grpc.CallOption) (*setpointv1.GetFleetResponse, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if code := s.fails[req.GetName()]; code != codes.OK {
		return nil, status.Error(code, "refused")
	}
	return &setpointv1.GetFleetResponse{Fleet: &setpointv1.Fleet{Name: req.GetName()}}, nil
}

// A page of fleets is asked for eight at a time: twenty take as long as three.
func TestStatesAreAskedForAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fleets []*setpointv1.TargetSpec
		for i := range 20 {
			fleets = append(fleets, &setpointv1.TargetSpec{Name: fmt.Sprint(i)})
		}
		began := time.Now()
		states, err := statesOf(t.Context(), slow{map[string]codes.Code{"3": codes.NotFound, "4": codes.PermissionDenied}}, fleets)
		if took := time.Since(began); err != nil || took != 3*time.Second {
			t.Errorf("%v, %v", took, err)
		}
		for i, s := range states {
			if failed := i == 3 || i == 4; (s.err != nil) != failed || !failed && s.of.GetName() != fmt.Sprint(i) {
				t.Errorf("%d: %v, %v", i, s.of, s.err)
			}
		}
		// What no fleet of a server can be read for ends it.
		if _, err := statesOf(t.Context(), slow{map[string]codes.Code{"0": codes.Unimplemented}}, fleets); status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if _, err := statesOf(ctx, slow{}, fleets); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
