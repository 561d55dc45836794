package samples

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// NamedMetric is a metric that the operator offers under a name, with its query. Users write only
// the name.
type NamedMetric struct {
	// Type is the type of the metrics that it answers: External, Pods or Object. A metric of the
	// same name and another type is a different metric. Default: External.
	Type string `json:"type,omitempty"`
	// Kind is that of the objects which a metric of the type Object describes, such as Ingress.
	// Required for it, and for no other.
	Kind string `json:"kind,omitempty"`
	// Namespaces are the namespaces whose objects may use the metric; ["*"]: all. Required.
	Namespaces []string `json:"namespaces"`
	// Query is its query. In its texts ${namespace} is replaced by the namespace of the using
	// object, and ${object} by the name of the described object of an Object metric.
	// Required.
	Query Query `json:"query"`
}

// The variables in a named metric's query.
const (
	ofNamespace = "${namespace}"
	ofObject    = "${object}"
)

// anyNamespace means all namespaces.
const anyNamespace = "*"

var (
	// namespaceName matches namespaces that may be put into a query: none of its characters has
	// a meaning in PromQL, a path or a key.
	namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// objectName is the same for a name of an object, which may have dots.
	objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	// variable matches a text that may be meant as a variable: in a regular expression of
	// PromQL nothing follows a $ but the end, ) and |.
	variable = regexp.MustCompile(`\$[{(]?\s*[A-Za-z_][A-Za-z0-9_]*\s*[)}]?|\{\{.*?\}\}`)
)

func (m NamedMetric) problems() problems {
	var p problems
	switch m.Type {
	case "", externalType, podsType, objectType:
	default:
		p.add("type", "must be %s, %s or %s, is %q", externalType, podsType, objectType, shorten(m.Type, maxQuoted))
	}
	switch {
	case m.Type == objectType && m.Kind == "":
		p.add("kind", "is required: that of the objects which the metric describes, such as Ingress")
	case m.Type != objectType && m.Kind != "":
		p.add("kind", "is for the type %s only", objectType)
	case len(m.Kind) > maxNameLength:
		p.add("kind", "is longer than %d bytes", maxNameLength)
	}
	switch {
	case len(m.Namespaces) == 0:
		p.add("namespaces", "is required: those whose objects may use the metric, or [\"*\"] for all")
	case len(m.Namespaces) > 1 && slices.Contains(m.Namespaces, anyNamespace):
		p.add("namespaces", "must be %q alone, or names", anyNamespace)
	}
	for _, namespace := range m.Namespaces {
		if namespace != anyNamespace && !namespaceName.MatchString(namespace) {
			p.add("namespaces", "%q is not the name of a namespace", shorten(namespace, maxQuoted))
		}
	}
	p.under("query", m.variables())
	return p
}

// filled are the fields of a query in which variables are replaced, by their keys.
func (q *Query) filled() map[string]*string {
	return map[string]*string{
		"query": &q.Query, "path": &q.Path, "list": &q.List, "sortedSet": &q.SortedSet, "stream": &q.Stream, "group": &q.Group,
	}
}

// unfilled are the other text fields.
func (q *Query) unfilled() map[string]*string {
	return map[string]*string{
		"source": &q.Source, "podLabel": &q.PodLabel, "containerLabel": &q.ContainerLabel, "valuePath": &q.ValuePath, "itemsPath": &q.ItemsPath,
		"podPath": &q.PodPath, "containerPath": &q.ContainerPath, "timestampPath": &q.TimestampPath, "minScore": &q.MinScore, "maxScore": &q.MaxScore,
	}
}

// variables returns the problems of texts that look like variables but are not: such a query
// would select nothing, or the values of all namespaces.
func (m NamedMetric) variables() problems {
	var p problems
	known := []string{ofNamespace}
	if m.Type == objectType {
		known = append(known, ofObject)
	}
	filled, unfilled := m.Query.filled(), m.Query.unfilled()
	ofPods := false
	for _, key := range slices.Sorted(maps.Keys(filled)) {
		for _, found := range variable.FindAllString(*filled[key], -1) {
			if !slices.Contains(known, found) {
				p.add(key, "%q is not a variable: the variables are %s", shorten(found, maxQuoted), strings.Join(known, " and "))
			}
			ofPods = ofPods || found == ofNamespace
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unfilled)) {
		if found := variable.FindString(*unfilled[key]); strings.HasPrefix(found, "${") {
			p.add(key, "%q is not replaced here, only in the text of the query", shorten(found, maxQuoted))
		}
	}
	if oneNamespace := len(m.Namespaces) == 1 && m.Namespaces[0] != anyNamespace; m.Type == podsType && !ofPods && !oneNamespace {
		p.add("", "must contain %s: pods of several namespaces may have one name", ofNamespace)
	}
	return p
}

// typeOf is the type, with its default.
func (m NamedMetric) typeOf() string {
	if m.Type == "" {
		return externalType
	}
	return m.Type
}

// in returns the query for a namespace and an object.
func (q Query) in(namespace, object string) Query {
	for _, text := range q.filled() {
		*text = strings.NewReplacer(ofNamespace, namespace, ofObject, object).Replace(*text)
	}
	return q
}

// namedProblems returns the problems of the queries of named metrics.
func (s *Set) namedProblems() problems {
	var p problems
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		m := s.named[name]
		field := "metrics." + shorten(name, maxQuoted) + ".query"
		before := len(p)
		p.under(field, s.problems(m.Query.in("namespace", "object")))
		if len(p) > before {
			continue
		}
		switch source := s.sources[m.Query.Source]; {
		case m.Query.ofContainers():
			p.add(field, "is for values of containers, which named metrics do not support")
		case m.typeOf() != podsType && m.Query.ofPods():
			p.add(field, "is for values of pods, but the metric's type is %s: set type: %s", m.typeOf(), podsType)
		case m.typeOf() == podsType && source.Redis != nil:
			p.add(field, "queries a Redis, which has no values of pods")
		case m.typeOf() == podsType && !m.Query.ofPods():
			p.add(field+"."+s.podField(m.Query), "is required: a %s metric has a value for each pod", podsType)
		}
	}
	return p
}

// Named returns a metric of a spec with the query for a namespace, if the operator named it; false:
// not named. The error, an *Error, means that the namespace may not use it.
func (s *Set) Named(namespace string, spec *setpointv1.MetricSpec) (Metric, bool, error) {
	t, _ := targetOf(spec) // Read reports the problems of its selector
	m, ok := s.named[t.name]
	if !ok || m.typeOf() != t.kind {
		return Metric{}, false, nil
	}
	refuse := func(format string, args ...any) (Metric, bool, error) {
		return Metric{}, true, &Error{"", Refused, fmt.Sprintf("the metric %q %s", shorten(t.name, maxQuoted), fmt.Sprintf(format, args...))}
	}
	object := t.object.GetName()
	if t.object.GetKind() == "Namespace" {
		object = namespace // the described name is ignored, as by the metrics API
	}
	switch {
	case !namespaceName.MatchString(namespace) || m.Namespaces[0] != anyNamespace && !slices.Contains(m.Namespaces, namespace):
		return refuse("is not for the namespace %q: the operator's sources file lists those that may use it", shorten(namespace, maxQuoted))
	case t.kind == objectType && t.object.GetKind() != m.Kind:
		return refuse("describes objects of the kind %s, not %q", m.Kind, shorten(t.object.GetKind(), maxQuoted))
	case t.kind == objectType && !objectName.MatchString(object):
		return refuse("describes an object whose name can't be put into a query: %q", shorten(object, maxQuoted))
	}
	return Metric{Spec: spec, Query: m.Query.in(namespace, object), Named: t.name, Namespace: namespace}, true, nil
}

// classes word the kinds of failures for users of a named metric, who may not see its query,
// nor the answer of its source.
var classes = map[Outcome]string{
	Timeout:     "its source did not answer in time",
	Busy:        "its source had no time for it",
	Unreachable: "its source can't be reached",
	Refused:     "its source refused the query",
	Unusable:    "its source's answer is unusable",
	Unprepared:  "a credential or certificate for its source can't be read",
	Empty:       "it has no value, or none matches the metric's selector",
	Invalid:     "its value is invalid",
	Cancelled:   "its caller stopped waiting",
}

// badQuery is the class of a query that does not fit the metric.
const badQuery = "the query does not fit the metric as the spec has it"

// namedError is the error in the status of an object.
func namedError(name string, err error) error {
	class := badQuery
	if failure := (*Error)(nil); errors.As(err, &failure) {
		class = classes[failure.Outcome]
	}
	return fmt.Errorf("the metric %q: %s; the log of the agent has details", shorten(name, maxQuoted), class)
}

// maxLoggedFailures bounds the named metrics whose last logged failure is kept.
const maxLoggedFailures = 10_000

// failureLog has the last logged failures of named metrics, by namespace and identity.
type failureLog struct {
	log *zap.Logger

	mu    sync.Mutex
	texts map[[2]string]string // guarded by mu
}

// note logs the outcome of a named metric if it changed.
func (t *failureLog) note(m Metric, identity string, err error) {
	text := ""
	if err != nil {
		text = shorten(err.Error(), maxMessageBytes)
	}
	key := [2]string{m.Namespace, identity}
	t.mu.Lock()
	before := t.texts[key]
	switch {
	case text == "":
		delete(t.texts, key)
	case len(t.texts) >= maxLoggedFailures && before == "":
		clear(t.texts)
		fallthrough
	default:
		t.texts[key] = text
	}
	t.mu.Unlock()
	metric, namespace := zap.String("metric", shorten(m.Named, maxQuoted)), zap.String("namespace", m.Namespace)
	switch {
	case text == before:
	case err != nil:
		t.log.Warn("named metric not read", metric, namespace, zap.String("source", m.Query.Source), zap.String("error", text))
	default:
		t.log.Info("named metric read again", metric, namespace)
	}
}
