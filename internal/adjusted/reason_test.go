package adjusted_test

import (
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
)

// The reason comes first and as it is; an override, which is last, is never left out.
func TestReasons(t *testing.T) {
	t.Parallel()
	said := func(messages ...string) (all []*setpointv1.Adjustment) {
		for _, m := range messages {
			all = append(all, &setpointv1.Adjustment{Stage: "BOUNDS", Rule: "schedule/office", Message: m})
		}
		return all
	}
	for _, tt := range []struct {
		reason string
		all    []*setpointv1.Adjustment
		want   string
	}{
		{"", nil, ""},
		{"above target", nil, "above target"},
		{"above target", said("a"), "above target; a"},
		{"", said("a", "b"), "a; b"},
		{"a", said("a"), "a"},
		{"above target", []*setpointv1.Adjustment{{Stage: "FORECAST", Rule: "only", Message: "it only tells"}, {Stage: "FORECAST", Rule: "floor", Message: "forecast 14"}}, "above target; forecast 14"},
		{"above target", said(""), "above target; BOUNDS schedule/office"},
		{"above target", said("a", "b", "c"), "above target; a; b; c"},
		{"above target", said("a", "b", "c", "held by alice"), "above target; a; b; 1 more by stages or overrides; held by alice"},
		{"", said("a", "b", "c", "d", "e", "held by alice"), "a; b; 3 more by stages or overrides; held by alice"},
	} {
		if got := adjusted.Reason(tt.reason, adjusted.Messages(tt.all)...); got != tt.want {
			t.Errorf("%q and %d: %q, want %q", tt.reason, len(tt.all), got, tt.want)
		}
	}
}
