package validation_test

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/server/validation"
)

func TestViolationString(t *testing.T) {
	tests := []struct {
		name      string
		violation validation.Violation
		want      string
	}{
		{"of a field", validation.Violation{Field: "spec", Description: "Required value"}, "spec: Required value"},
		{"of the message", validation.Violation{Description: "Required value"}, "Required value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.violation.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDistinctKeepsTheFirstOfEach(t *testing.T) {
	a := validation.Violation{Field: "a", Description: "x"}
	b := validation.Violation{Field: "b", Description: "x"}
	c := validation.Violation{Field: "a", Description: "y"}
	got := validation.Distinct([]validation.Violation{b, a, b, c, a})
	if want := []validation.Violation{b, a, c}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := validation.Distinct(nil); got != nil {
		t.Errorf("of none: got %v, want nil", got)
	}
}
