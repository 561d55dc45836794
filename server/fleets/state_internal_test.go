package fleets

import (
	"testing"

	"github.com/setpoint-dev/setpoint/recommender"
)

// What a fleet's last decision shared out is told of it, and is final; the engine's own record stays.
func TestDecisionsAreToldAsTheyWereSharedOut(t *testing.T) {
	for unplaced, want := range map[int32]recommender.LastDecision{
		0: {From: 7, To: 12, Reason: "queue above target", Outcome: recommender.Applied},
		4: {From: 7, To: 8, Reason: "queue above target", Outcome: recommender.Applied},
		5: {From: 7, To: 7, Outcome: recommender.NotChanged},
	} {
		s := &state{}
		s.fleet.Unplaced = unplaced
		s.decisions.Pending = &recommender.Pending{From: 7, To: 12}
		s.decisions.Last = recommender.LastDecision{From: 7, To: 12, Reason: "queue above target", Outcome: recommender.Undecided}
		if got := s.shared(); got.Last != want || got.Pending != nil || s.decisions.Pending == nil || s.decisions.Last.To != 12 {
			t.Errorf("%d unplaced: %+v, want %+v", unplaced, got.Last, want)
		}
	}
}
