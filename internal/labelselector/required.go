package labelselector

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Pair is a label, or the requirement of a label.
type Pair struct{ Key, Value string }

// Required returns labels that an object must have for selector to match it, in the
// selector's order; none if it requires no exact label.
func Required(selector labels.Selector) []Pair {
	requirements, _ := selector.Requirements()
	var out []Pair
	for i := range requirements {
		if value, ok := exactValue(&requirements[i]); ok {
			out = append(out, Pair{requirements[i].Key(), value})
		}
	}
	return out
}

// exactValue returns the only value a requirement allows.
func exactValue(requirement *labels.Requirement) (string, bool) {
	switch requirement.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		if values := requirement.ValuesUnsorted(); len(values) == 1 {
			return values[0], true
		}
	}
	return "", false
}
