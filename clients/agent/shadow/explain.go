package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// explain says in a sentence what the two sides saw or did differently: first their readings,
// then the limits on their counts.
func explain(r *Reconcile) string {
	parts := []string{fmt.Sprintf("%d here, %d there", r.Ours.Replicas, r.Theirs.Replicas)}
	if readings := differentReadings(r); readings != "" {
		parts = append(parts, readings)
	}
	parts = append(parts, differentConditions(r)...)
	parts = append(parts, r.Ours.Limits...)
	if len(parts) == 1 {
		parts = append(parts, "no known input differs: they may have read at different instants, or remember different recommendations")
	}
	return strings.Join(parts, "; ")
}

func differentReadings(r *Reconcile) string {
	if len(r.Ours.Metrics) == 0 || len(r.Theirs.Metrics) == 0 || slices.Equal(r.Ours.Metrics, r.Theirs.Metrics) {
		return ""
	}
	return "read " + strings.Join(r.Ours.Metrics, ", ") + " here, " + strings.Join(r.Theirs.Metrics, ", ") + " there"
}

func differentConditions(r *Reconcile) []string {
	if len(r.Theirs.Conditions) == 0 {
		return nil
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(r.Ours.Conditions)) {
		ours, theirs := r.Ours.Conditions[kind], r.Theirs.Conditions[kind]
		theirs = cmp.Or(theirs, "not set")
		if ours != theirs {
			parts = append(parts, fmt.Sprintf("%s is %s here, %s there", kind, ours, theirs))
		}
	}
	return parts
}
