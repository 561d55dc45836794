package kubernetes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Reasons for which pods can't be chosen.
const (
	selectorRequired  = "SelectorRequired"
	invalidSelector   = "InvalidSelector"
	ambiguousSelector = "AmbiguousSelector"
)

// parseSelector returns the selector that text spells, or the problem with it.
func parseSelector(text string) (labels.Selector, *setpointv1.SelectorProblem) {
	if text == "" {
		return nil, &setpointv1.SelectorProblem{Reason: selectorRequired}
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, &setpointv1.SelectorProblem{Reason: invalidSelector, Message: err.Error()}
	}
	return selector, nil
}

// ambiguity returns a problem when another autoscaler of the namespace selects one
// of pods too, nil when none does. The problem lists the autoscalers that share
// pods, the evaluated one included, sorted; upstream lists them in no order.
func (s *Snapshot) ambiguity(pods []*corev1.Pod) *setpointv1.SelectorProblem {
	own := s.Autoscaler.Name
	sharing := map[string]bool{}
	for _, other := range s.Others {
		if other.Name != own && s.inNamespace(other.Namespace) && matchesAny(other.Selector, pods) {
			sharing[other.Name] = true
		}
	}
	if len(sharing) == 0 {
		return nil
	}
	sharing[own] = true
	problem := &setpointv1.SelectorProblem{Reason: ambiguousSelector}
	for _, name := range slices.Sorted(maps.Keys(sharing)) {
		problem.Autoscalers = append(problem.Autoscalers, s.Autoscaler.Namespace+"/"+name)
	}
	return problem
}

// matchesAny reports whether the selector matches one of pods. An autoscaler whose
// scale was never read has no selector and matches nothing.
func matchesAny(text string, pods []*corev1.Pod) bool {
	selector, problem := parseSelector(text)
	if problem != nil {
		return false
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return selector.Matches(labels.Set(pod.Labels))
	})
}

// inNamespace reports whether an object of namespace, which may be left out, is in
// that of the autoscaler.
func (s *Snapshot) inNamespace(namespace string) bool {
	return namespace == "" || namespace == s.Autoscaler.Namespace
}
