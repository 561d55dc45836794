package server_test

import (
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// What says what the last decision said is left out where too many do; all else is
// logged.
func TestRepeatsAreLeftOutOfTheLog(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		repeats int
		want    int
	}{
		{"none are logged", 0, 3},
		{"those are logged that there is room for", 1000, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(su *setup) { su.options.LoggedRepeats = tc.repeats })
			for _, value := range []int32{30, 30, 31} { // the target is 10 a replica
				s.recommend(t, queue(web, 3, value))
				s.clock.Advance(period)
			}
			s.recommend(t, queue(web, 3, 50)) // a change, pending
			s.clock.Advance(period)
			s.recommend(t, queue(web, 3, 30)) // settles it, and says something new
			resp, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: web})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range resp.GetDecisions() {
				got = append(got, d.GetOutcome())
			}
			if len(got) != tc.want {
				t.Errorf("%d decisions are logged, want %d: %v", len(got), tc.want, got)
			}
		})
	}
}
