package labelselector_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

func TestIdentity(t *testing.T) {
	tests := []struct {
		name, a, b string
		same       bool
	}{
		{"order", "a=1,b=2", "b=2,a=1", true},
		{"one value", "a in (1)", "a=1", true},
		{"all but one value", "a notin (1)", "a!=1", true},
		{"two equals signs", "a==1", "a=1", true},
		{"values in another order, and twice", "a in (2,1,2)", "a in (1,2)", true},
		{"the same twice", "a=1,a=1", "a=1", true},
		{"nothing asked", "", "", true},
		{"another value", "a=1", "a=2", false},
		{"another key", "a=1", "b=1", false},
		{"the opposite", "a=1", "a!=1", false},
		{"any value", "a", "a=1", false},
		{"no value", "a", "!a", false},
		{"none of the values", "a in (1,2)", "a notin (1,2)", false},
		{"nothing and something", "", "a", false},
		{"a comma in a value's place", "a in (1,2)", "a in (1),b in (2)", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a, b := identity(t, tt.a), identity(t, tt.b); (a == b) != tt.same {
				t.Errorf("%q and %q", a, b)
			}
		})
	}
}

func identity(t *testing.T, s string) string {
	parsed, err := labels.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return labelselector.Identity(parsed)
}
