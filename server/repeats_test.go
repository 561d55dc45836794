package server_test

import (
	"slices"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
			s := start(t, func(su *setup) { su.options.LoggedRepeats = tc.repeats })
			var ids []string
			ask := func(value int32) {
				ids = append(ids, s.recommend(t, queue(web, 3, value)).GetRecommendationId())
				s.clock.Advance(period)
			}
			check := func(want []int) {
				t.Helper()
				var wanted []string
				for _, i := range want {
					wanted = append(wanted, ids[i])
				}
				for _, size := range []int{1, 2, 3, 4, 100} {
					if got := pages(t, s, "/v1/"+web+"/decisions", "", size, decisionIDs); !slices.Equal(got, wanted) {
						t.Errorf("in pages of %d: %v are listed of %v, want %v", size, got, ids, want)
					}
				}
				last := s.decisions(t, web)[0]
				last.Basis = nil // which only the log has
				sameMessage(t, last, s.target(t, web).GetLastDecision())
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

// The log begins with the decision before the first new one, whatever that is.
func TestTheLogTellsWhatWasSaidBefore(t *testing.T) {
	t.Parallel()
	failing := queue(web, 3, 30)
	failing.ExternalMetrics = nil
	for name, next := range map[string]*setpointv1.RecommendRequest{
		"a change": queue(web, 3, 50), "an error": failing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(su *setup) { su.options.LoggedRepeats = 0 })
			s.recommend(t, queue(web, 3, 30))
			s.clock.Advance(period)
			s.recommend(t, queue(web, 3, 30))
			said := s.target(t, web).GetLastDecision()
			s.clock.Advance(period)
			s.recommend(t, next)
			decisions := s.decisions(t, web)
			if len(decisions) != 2 {
				t.Fatalf("%d decisions are listed, want 2: %v", len(decisions), decisions)
			}
			for _, d := range decisions {
				d.Basis = nil // which only the log has
			}
			sameMessage(t, decisions[0], s.target(t, web).GetLastDecision())
			sameMessage(t, decisions[1], said)
		})
	}
}
