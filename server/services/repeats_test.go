package services_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Decisions that repeat the previous one are left out of the log if there are too many;
// all others are logged, and the last decision is shown in any case.
func TestRepeatsAreLeftOutOfTheLog(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		repeats int
		// want are the decisions listed then, newest first, by when they were made.
		before, after []int
	}{
		{"none are logged", 0, []int{2}, []int{5, 4, 3, 2}},
		{"those are logged that there is room for", 1000, []int{2, 1, 0}, []int{5, 4, 3, 2, 1, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Options.LoggedRepeats = tc.repeats })
			var ids []string
			ask := func(value int32) {
				ids = append(ids, s.Recommend(t, servertest.Queue(servertest.Web, 3, value)).GetRecommendationId())
				s.Clock.Advance(servertest.Period)
			}
			check := func(want []int) {
				t.Helper()
				var wanted []string
				for _, i := range want {
					wanted = append(wanted, ids[i])
				}
				for _, size := range []int{1, 2, 3, 4, 100} {
					if got := pages(t, s, "/v1/"+servertest.Web+"/decisions", "", size, decisionIDs); !slices.Equal(got, wanted) {
						t.Errorf("in pages of %d: %v are listed of %v, want %v", size, got, ids, want)
					}
				}
				last := s.Decisions(t, servertest.Web)[0]
				last.Basis = ofRecord(last.GetBasis())
				servertest.SameMessage(t, last, s.Target(t, servertest.Web).GetLastDecision())
			}
			for _, value := range []int32{30, 30, 31} { // the target is 10 a replica
				ask(value)
			}
			check(tc.before)
			ask(50) // a change, pending
			ask(30) // settles it, and says something new
			ask(31) // repeats that
			check(tc.after)
		})
	}
}

// ofRecord is the part of a basis that a record has, too.
func ofRecord(b *setpointv1.DecisionBasis) *setpointv1.DecisionBasis {
	if b == nil || b.Proposal == nil {
		return nil
	}
	return &setpointv1.DecisionBasis{Proposal: b.Proposal}
}

// The log begins with the decision before the first new one, whatever that is.
func TestTheLogTellsWhatWasSaidBefore(t *testing.T) {
	t.Parallel()
	failing := servertest.Queue(servertest.Web, 3, 30)
	failing.ExternalMetrics = nil
	for name, next := range map[string]*setpointv1.RecommendRequest{
		"a change": servertest.Queue(servertest.Web, 3, 50), "an error": failing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Options.LoggedRepeats = 0 })
			s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
			s.Clock.Advance(servertest.Period)
			s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
			said := s.Target(t, servertest.Web).GetLastDecision()
			s.Clock.Advance(servertest.Period)
			s.Recommend(t, next)
			decisions := s.Decisions(t, servertest.Web)
			if len(decisions) != 2 {
				t.Fatalf("%d decisions are listed, want 2: %v", len(decisions), decisions)
			}
			for _, d := range decisions {
				d.Basis = ofRecord(d.GetBasis())
			}
			servertest.SameMessage(t, decisions[0], s.Target(t, servertest.Web).GetLastDecision())
			servertest.SameMessage(t, decisions[1], said)
		})
	}
}

// The log of some days has each change, something of each hour, and all of the last hours: where a
// target is scaled, and where nobody makes the change that each decision asks for.
func TestDaysOfDecisionsAreListed(t *testing.T) {
	t.Parallel()
	const days, changeEach = 3, 200 * time.Minute
	for _, scaled := range []bool{true, false} {
		t.Run(fmt.Sprint("scaled ", scaled), func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Options.LoggedRepeats = 1 << 20 })
			changes := 0
			for at := time.Duration(0); at < days*24*time.Hour; at += time.Minute {
				length := int32(30)
				if !scaled || at%changeEach == changeEach/2 {
					length = 50
				}
				r := s.Recommend(t, servertest.Queue(servertest.Web, 3, length))
				if scaled && r.GetDesiredReplicas() != 3 {
					s.Report(t, servertest.Web, r.GetRecommendationId(), "APPLIED", "")
					changes++
				}
				s.Clock.Advance(time.Minute)
			}
			decisions := s.Decisions(t, servertest.Web)
			if most := memory.DefaultLogLength + memory.DefaultKeptLength; len(decisions) > most {
				t.Errorf("%d decisions are listed, want %d at most", len(decisions), most)
			}
			oldest := s.Clock.Now().Add(-days * 24 * time.Hour)
			for i, d := range decisions {
				if d.GetOutcome() == "APPLIED" {
					changes--
				}
				before := oldest
				if i+1 < len(decisions) {
					before = decisions[i+1].GetTime().AsTime()
				}
				gap := time.Hour
				if i < memory.DefaultLogLength {
					gap = time.Minute
				}
				if passed := d.GetTime().AsTime().Sub(before); passed <= 0 && i+1 < len(decisions) || passed > gap {
					t.Errorf("%v passed before decision %d, want up to %v", passed, i, gap)
				}
			}
			if changes != 0 {
				t.Errorf("%d changes are missing", changes)
			}
		})
	}
}
