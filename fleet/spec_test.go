package fleet

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/recommender"
)

func TestValidate(t *testing.T) {
	old, ok := recommender.ProfileByName("v1.15")
	if !ok {
		t.Fatal("no profile v1.15")
	}
	for _, tt := range []struct {
		name   string
		change func(s *Spec)
		want   string // empty: it is valid
	}{
		{"as it is", func(*Spec) {}, ""},
		{"drained", func(s *Spec) { s.Members[0].Weight, s.Members[0].Min = 0, 100 }, ""},
		{"drained by its maximum", func(s *Spec) { s.Members[1].Max = 0 }, ""},
		{"one", func(s *Spec) { s.Members = s.Members[:1] }, "it must have 2 to 64"},
		{"many", func(s *Spec) { s.Members = make([]Member, 65) }, "it must have 2 to 64"},
		{"no name", func(s *Spec) { s.Members[0].Name = "" }, "its name has 0 bytes"},
		{"twice", func(s *Spec) { s.Members[1].Name = "a" }, `"a" is named twice`},
		{"unsorted", func(s *Spec) { s.Members[0].Name = "z" }, `"b" comes after "z"`},
		{"weight", func(s *Spec) { s.Members[0].Weight = 1001 }, "must be 0 to 1000"},
		{"below zero", func(s *Spec) { s.Members[0].Min = -1 }, "its minimum is -1"},
		{"bounds", func(s *Spec) { s.Members[0].Min, s.Members[0].Max = 3, 2 }, "is above its maximum 2"},
		{"all drained", func(s *Spec) { s.Members[0].Weight, s.Members[1].Weight = 0, 0 }, "at least one"},
		{"minimums", func(s *Spec) { s.Members[0].Min, s.Members[1].Min = 3, 2 }, "add up to 5, which is above the fleet's minReplicas 4"},
		{"period", func(s *Spec) { s.Period = 0 }, "the period is 0s"},
		{"stale", func(s *Spec) { s.StaleAfter = s.Period - 1 }, "less than the period"},
		{"lost", func(s *Spec) { s.LostAfter = s.StaleAfter - 1 }, "after which they are stale"},
		{"moves", func(s *Spec) { s.MaxMoves = 1001 }, "must be 0 to 1000"},
		{"an old profile", func(s *Spec) { s.Options.Profile = old }, "the profile v1.15"},
		{"metrics", func(s *Spec) { s.Engine.Metrics = make([]recommender.MetricSpec, 65) }, "it can have 64"},
	} {
		w := newWorld(t, utilization(50), 1, 1)
		w.spec.Engine.MinReplicas = 4
		tt.change(w.spec)
		err := w.spec.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
