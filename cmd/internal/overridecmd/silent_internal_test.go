package overridecmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// An override does nothing where there are no decisions, as when the requests of a target are refused.
func TestTargetsWithoutDecisionsAreWarnedOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		interval, ago, patience time.Duration // patience 0: the server does not say
		warns                   bool
	}{
		"asked":               {15 * time.Second, 15 * time.Second, 45 * time.Second, false},
		"late":                {15 * time.Second, 45 * time.Second, 45 * time.Second, false},
		"not asked":           {15 * time.Second, 46 * time.Second, 45 * time.Second, true},
		"of unknown interval": {0, time.Hour, 15 * time.Minute, true},
		"of an older server":  {15 * time.Second, time.Hour, 0, false},
	} {
		target := &setpointv1.Target{LastDecision: &setpointv1.Decision{Time: timestamppb.New(now.Add(-tt.ago))}}
		if tt.interval > 0 {
			target.Interval = durationpb.New(tt.interval)
		}
		if tt.patience > 0 {
			target.NotAskedTime = timestamppb.New(now.Add(tt.patience - tt.ago))
		}
		got := silent(target, now)
		if tt.warns != strings.Contains(got, "its requests are refused") || !tt.warns && got != "" || strings.Contains(got, "though") != (tt.warns && tt.interval > 0) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := silent(nil, now); got != "" {
		t.Errorf("no target: %q", got)
	}
}
