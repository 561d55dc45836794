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
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/typed"
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
	// Query is its query: its keys stand beside these. In its texts ${namespace} is replaced by the
	// namespace of the using object, and ${object} by the name of the described object of an Object
	// metric.
	Query
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

func (m NamedMetric) problems() typed.Problems {
	var p typed.Problems
	switch m.Type {
	case "", externalType, podsType, objectType:
	default:
		p.Add("type", "must be %s, %s or %s, is %q", externalType, podsType, objectType, typed.Shorten(m.Type, typed.MaxQuoted))
	}
	switch {
	case m.Type == objectType && m.Kind == "":
		p.Add("kind", "is required: that of the objects which the metric describes, such as Ingress")
	case m.Type != objectType && m.Kind != "":
		p.Add("kind", "is for the type %s only", objectType)
	case len(m.Kind) > source.MaxNameLength:
		p.Add("kind", "is longer than %d bytes", source.MaxNameLength)
	}
	switch {
	case len(m.Namespaces) == 0:
		p.Add("namespaces", "is required: those whose objects may use the metric, or [\"*\"] for all")
	case len(m.Namespaces) > 1 && slices.Contains(m.Namespaces, anyNamespace):
		p.Add("namespaces", "must be %q alone, or names", anyNamespace)
	}
	for _, namespace := range m.Namespaces {
		if namespace != anyNamespace && !namespaceName.MatchString(namespace) {
			p.Add("namespaces", "%q is not the name of a namespace", typed.Shorten(namespace, typed.MaxQuoted))
		}
	}
	p.Under("", m.variables())
	return p
}

// filled are the fields of a query in which variables are replaced, by their keys.
func filled(q *Query) map[string]*string {
	return map[string]*string{
		"query": &q.Query, "path": &q.Path, "list": &q.List, "sortedSet": &q.SortedSet, "stream": &q.Stream, "group": &q.Group,
	}
}

// unfilled are the other text fields.
func unfilled(q *Query) map[string]*string {
	return map[string]*string{
		"source": &q.Source, "podLabel": &q.PodLabel, "containerLabel": &q.ContainerLabel, "valuePath": &q.ValuePath, "itemsPath": &q.ItemsPath,
		"podPath": &q.PodPath, "containerPath": &q.ContainerPath, "timestampPath": &q.TimestampPath, "minScore": &q.MinScore, "maxScore": &q.MaxScore,
	}
}

// variables returns the problems of texts that look like variables but are not: such a query
// would select nothing, or the values of all namespaces.
func (m NamedMetric) variables() typed.Problems {
	var p typed.Problems
	known := []string{ofNamespace}
	if m.Type == objectType {
		known = append(known, ofObject)
	}
	filled, unfilled := filled(&m.Query), unfilled(&m.Query)
	ofPods := false
	for _, key := range slices.Sorted(maps.Keys(filled)) {
		for _, found := range variable.FindAllString(*filled[key], -1) {
			if !slices.Contains(known, found) {
				p.Add(key, "%q is not a variable: the variables are %s", typed.Shorten(found, typed.MaxQuoted), strings.Join(known, " and "))
			}
			ofPods = ofPods || found == ofNamespace
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unfilled)) {
		if found := variable.FindString(*unfilled[key]); strings.HasPrefix(found, "${") {
			p.Add(key, "%q is not replaced here, only in the text of the query", typed.Shorten(found, typed.MaxQuoted))
		}
	}
	if oneNamespace := len(m.Namespaces) == 1 && m.Namespaces[0] != anyNamespace; m.Type == podsType && !ofPods && !oneNamespace {
		p.Add("", "must contain %s: pods of several namespaces may have one name", ofNamespace)
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
func (m NamedMetric) in(namespace, object string) Query {
	q := m.Query
	for _, text := range filled(&q) {
		*text = strings.NewReplacer(ofNamespace, namespace, ofObject, object).Replace(*text)
	}
	return q
}

// namedProblems returns the problems of the queries of named metrics.
func (s *Set) namedProblems() typed.Problems {
	var p typed.Problems
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		m := s.named[name]
		field := "metrics." + typed.Shorten(name, typed.MaxQuoted)
		before := len(p)
		p.Under(field, s.problems(m.in("namespace", "object")))
		if len(p) > before {
			continue
		}
		switch of := s.sources[m.Source]; {
		case m.OfContainers():
			p.Add(field, "is for values of containers, which named metrics do not support")
		case m.typeOf() != podsType && m.OfPods():
			p.Add(field, "is for values of pods, but the metric's type is %s: set type: %s", m.typeOf(), podsType)
		case m.typeOf() == podsType && of.Redis != nil:
			p.Add(field, "queries a Redis, which has no values of pods")
		case m.typeOf() == podsType && !m.OfPods():
			p.Add(field+"."+s.podField(m.Query), "is required: a %s metric has a value for each pod", podsType)
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
		return Metric{}, true, &Error{"", Refused, fmt.Sprintf("the metric %q %s", typed.Shorten(t.name, typed.MaxQuoted), fmt.Sprintf(format, args...))}
	}
	object := t.object.GetName()
	if t.object.GetKind() == "Namespace" {
		object = namespace // the described name is ignored, as by the metrics API
	}
	switch {
	case !namespaceName.MatchString(namespace) || m.Namespaces[0] != anyNamespace && !slices.Contains(m.Namespaces, namespace):
		return refuse("is not for the namespace %q: the operator's sources file lists those that may use it", typed.Shorten(namespace, typed.MaxQuoted))
	case t.kind == objectType && t.object.GetKind() != m.Kind:
		return refuse("describes objects of the kind %s, not %q", m.Kind, typed.Shorten(t.object.GetKind(), typed.MaxQuoted))
	case t.kind == objectType && !objectName.MatchString(object):
		return refuse("describes an object whose name can't be put into a query: %q", typed.Shorten(object, typed.MaxQuoted))
	}
	return Metric{Spec: spec, Query: m.in(namespace, object), Named: t.name, Namespace: namespace}, true, nil
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
	return fmt.Errorf("the metric %q: %s; the log of the agent has details", typed.Shorten(name, typed.MaxQuoted), class)
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
		text = typed.Shorten(err.Error(), maxMessageBytes)
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
	metric, namespace := zap.String("metric", typed.Shorten(m.Named, typed.MaxQuoted)), zap.String("namespace", m.Namespace)
	switch {
	case text == before:
	case err != nil:
		t.log.Warn("named metric not read", metric, namespace, zap.String("source", m.Query.Source), zap.String("error", text))
	default:
		t.log.Info("named metric read again", metric, namespace)
	}
}
