package labelselector_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/fatal"
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
	fatal.If(t, err)
	return labelselector.Identity(parsed)
}

// New does what Kubernetes does with the same fields, errors included.
func TestNewIsKubernetesSelector(t *testing.T) {
	type expressions = []labelselector.Expression
	tests := []struct {
		name        string
		labels      map[string]string
		expressions expressions
	}{
		{"nothing", nil, nil},
		{"labels", map[string]string{"b": "2", "a": "1", "empty": ""}, nil},
		{"all operators", map[string]string{"a": "1"}, expressions{
			{"in", "In", []string{"y", "x"}}, {"not-in", "NotIn", []string{"x"}}, {"is", "Exists", nil}, {"is-not", "DoesNotExist", nil},
		}},
		{"an operator of another case", nil, expressions{{"a", "in", []string{"x"}}}},
		{"an operator of a selector's string form", nil, expressions{{"a", "=", []string{"x"}}}},
		{"no operator", nil, expressions{{"a", "", nil}}},
		{"In without values", nil, expressions{{"a", "In", nil}}},
		{"Exists with a value", nil, expressions{{"a", "Exists", []string{"x"}}}},
		{"a key that is none", map[string]string{"-": "1"}, nil},
		{"a value that is none", map[string]string{"a": "-"}, nil},
		{"an expression's key that is none", nil, expressions{{"/", "Exists", nil}}},
		{"an expression's value that is none", nil, expressions{{"a", "In", []string{"x", "/"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			upstream := &metav1.LabelSelector{MatchLabels: tt.labels}
			for _, e := range tt.expressions {
				upstream.MatchExpressions = append(upstream.MatchExpressions, metav1.LabelSelectorRequirement{
					Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
				})
			}
			want, wantErr := metav1.LabelSelectorAsSelector(upstream)
			got, err := labelselector.New(tt.labels, tt.expressions)
			if text(err) != text(wantErr) {
				t.Fatalf("got %q, want %q", text(err), text(wantErr))
			}
			if err == nil && got.String() != want.String() {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
