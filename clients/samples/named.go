package samples

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// NamedMetric is a metric that the operator offers under a name, with its query: who uses it
// writes the name only.
type NamedMetric struct {
	// Namespaces are those whose objects may use the metric; ["*"]: all. Required.
	Namespaces []string `json:"namespaces"`
	// Query answers it. In its texts ${namespace} stands for the namespace of the object
	// that asks. Required.
	Query Query `json:"query"`
}

// ofNamespace is what stands for the namespace in a named metric's query.
const ofNamespace = "${namespace}"

// anyNamespace stands for all.
const anyNamespace = "*"

// namespaceName is what a namespace must be to be put into a query: nothing in it has a
// meaning in PromQL, a path or a key.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (m NamedMetric) problems() problems {
	var p problems
	switch {
	case len(m.Namespaces) == 0:
		p.add("namespaces", "is required: those whose objects may use the metric, or [\"*\"] for all")
	case len(m.Namespaces) > 1 && slices.Contains(m.Namespaces, anyNamespace):
		p.add("namespaces", "must be %q alone, or names", anyNamespace)
	}
	for _, namespace := range m.Namespaces {
		if namespace != anyNamespace && !namespaceName.MatchString(namespace) {
			p.add("namespaces", "%q is no name of a namespace", shorten(namespace, maxQuoted))
		}
	}
	return p
}

// in returns the query as it is in a namespace.
func (q Query) in(namespace string) Query {
	for _, text := range []*string{&q.Query, &q.Path, &q.List, &q.SortedSet, &q.Stream, &q.Group} {
		*text = strings.ReplaceAll(*text, ofNamespace, namespace)
	}
	return q
}

// namedProblems returns what is wrong with the queries of named metrics.
func (s *Set) namedProblems() problems {
	var p problems
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		query := s.named[name].Query.in("namespace")
		field := "metrics." + shorten(name, maxQuoted) + ".query"
		p.under(field, s.problems(query))
		if query.ofPods() {
			p.add(field, "is of pods, and named metrics are External ones")
		}
	}
	return p
}

// Named returns the query of a named metric in a namespace; false: there is none of that
// name. The error, an *Error, says that the namespace may not use it.
func (s *Set) Named(namespace, name string) (Query, bool, error) {
	m, ok := s.named[name]
	switch {
	case !ok:
		return Query{}, false, nil
	case !namespaceName.MatchString(namespace) || m.Namespaces[0] != anyNamespace && !slices.Contains(m.Namespaces, namespace):
		return Query{}, true, &Error{m.Query.Source, Refused, fmt.Sprintf("the metric %q is not for the namespace %q: the operator's sources file lists those that may use it", shorten(name, maxQuoted), shorten(namespace, maxQuoted))}
	}
	return m.Query.in(namespace), true, nil
}
