package labelselector

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Expression is one of a LabelSelector's matchExpressions.
type Expression struct {
	Key, Operator string
	Values        []string
}

// operators are those that a LabelSelector's expressions may have.
var operators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
}

// New makes the selector of a LabelSelector's matchLabels and matchExpressions; it selects
// all if there are none. It is LabelSelectorAsSelector of k8s.io/apimachinery/pkg/apis/meta/v1,
// whose package alone would make the service's program larger by 1 MiB. Of several labels
// that are not valid it names the first by key.
func New(matchLabels map[string]string, matchExpressions []Expression) (labels.Selector, error) {
	requirements := make(labels.Requirements, 0, len(matchLabels)+len(matchExpressions))
	for _, key := range slices.Sorted(maps.Keys(matchLabels)) {
		r, err := labels.NewRequirement(key, selection.Equals, []string{matchLabels[key]})
		if err != nil {
			return nil, err
		}
		requirements = append(requirements, *r)
	}
	for _, e := range matchExpressions {
		operator, known := operators[e.Operator]
		if !known {
			return nil, fmt.Errorf("%q is not a valid label selector operator", e.Operator)
		}
		r, err := labels.NewRequirement(e.Key, operator, slices.Clone(e.Values))
		if err != nil {
			return nil, err
		}
		requirements = append(requirements, *r)
	}
	if len(requirements) == 0 {
		return labels.Everything(), nil
	}
	return labels.NewSelector().Add(requirements...), nil
}
