package spelling_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

func TestClosest(t *testing.T) {
	fields := []string{"type", "target", "name", "maxReplicas", "minReplicas", "averageValue"}
	tests := []struct {
		name string
		word string
		want string // empty: no guess
	}{
		{"two neighbours swapped", "traget", "target"},
		{"a letter missing", "maxReplica", "maxReplicas"},
		{"a letter too many", "tarrget", "target"},
		{"a letter replaced", "nane", "name"},
		{"letter case is no edit", "MAXREPLICAS", "maxReplicas"},
		{"another convention", "average_value", "averageValue"},
		{"the first of two as close", "mixReplicas", "maxReplicas"},
		{"a short word may be one edit off", "nme", "name"},
		{"a short word may not be two edits off", "nm", ""},
		{"a long word may be three edits off", "avergeValu3s", "averageValue"},
		{"nothing alike", "selector", ""},
		{"the empty word", "", ""},
		{"a word beyond all measure", strings.Repeat("target", 1<<20), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := spelling.Closest(tt.word, fields)
			if ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("got %q, %t, want %q", got, ok, tt.want)
			}
		})
	}
}

// KEDA's keys of a schedule are known where there are schedules.
func TestClosestOfSchedules(t *testing.T) {
	t.Parallel()
	keys := []string{"name", "timeZone", "cron", "at", "duration", "endCron", "minReplicas", "maxReplicas"}
	for word, want := range map[string]string{"start": "cron", "end": "endCron", "desiredReplicas": "minReplicas", "timezone": "timeZone", "begin": ""} {
		if got, ok := spelling.Closest(word, keys); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", word, got, ok, want)
		}
		if got, ok := spelling.Closest(word, []string{"name", "minReplicas"}); ok {
			t.Errorf("%s of a spec: %q", word, got)
		}
	}
}

func TestClosestWithoutCandidates(t *testing.T) {
	if got, ok := spelling.Closest("target", nil); ok {
		t.Errorf("got %q, want no guess", got)
	}
}
