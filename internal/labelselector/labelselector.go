// Package labelselector compares label selectors by meaning.
package labelselector

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Identity formats a selector so that selectors with the same meaning have the same
// text: requirements sorted, and those with one value with an equals sign; "" for a
// selector of everything or nothing.
func Identity(s labels.Selector) string {
	requirements, _ := s.Requirements()
	if len(requirements) == 0 {
		return ""
	}
	parts := make([]string, len(requirements))
	for i := range requirements {
		parts[i] = requirement(&requirements[i])
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}

func requirement(r *labels.Requirement) string {
	values := r.ValuesUnsorted()
	slices.Sort(values)
	values = slices.Compact(values)
	operator := r.Operator()
	switch {
	case len(values) == 1 && (operator == selection.In || operator == selection.DoubleEquals):
		operator = selection.Equals
	case len(values) == 1 && operator == selection.NotIn:
		operator = selection.NotEquals
	}
	return fmt.Sprintf("%s %s %q", r.Key(), operator, values)
}
