package kubernetes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Reasons why the pods can't be selected.
const (
	selectorRequired  = "SelectorRequired"
	invalidSelector   = "InvalidSelector"
	ambiguousSelector = "AmbiguousSelector"
)

// parseSelector returns the parsed selector, or the problem with it.
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

// ambiguity returns a problem if another autoscaler of the namespace also selects one of pods,
// nil otherwise. The problem lists all autoscalers that share pods, sorted; upstream's order is
// random.
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

// matchesAny reports whether the selector matches one of pods. An autoscaler whose scale was
// never read has no selector and matches none.
func matchesAny(text string, pods []*corev1.Pod) bool {
	selector, problem := parseSelector(text)
	if problem != nil {
		return false
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return selector.Matches(labels.Set(pod.Labels))
	})
}

// inNamespace reports whether an object of namespace, which may be empty, is in the
// autoscaler's.
func (s *Snapshot) inNamespace(namespace string) bool {
	return namespace == "" || namespace == s.Autoscaler.Namespace
}
