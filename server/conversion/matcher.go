//go:build !js

package conversion

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// Matcher finds the metrics of a spec that a reading belongs to. It compares only those
// of the same name. It is immutable and safe for concurrent use.
type Matcher struct {
	metrics []wanted
	// custom and external are the indices of metrics by the name of the metric.
	custom, external map[string][]int
	// steps is the cost of comparing a series with all metrics of a name.
	steps map[string]int
}

// NewMatcher returns the matcher of a spec, and for each metric the error of its
// selector, empty for none. Nil: the selectors have more terms than the budget allows.
func NewMatcher(spec *recommender.Spec, budget *cost.Budget) (*Matcher, []string) {
	m := &Matcher{
		metrics: make([]wanted, len(spec.Metrics)),
		custom:  map[string][]int{}, external: map[string][]int{}, steps: map[string]int{},
	}
	problems := make([]string, len(spec.Metrics))
	selectors := selectorCache{budget: budget}
	for i := range m.metrics {
		w := &m.metrics[i]
		if *w, problems[i] = newWanted(&spec.Metrics[i], &selectors); selectors.spent {
			return nil, nil
		}
		name := w.spec.Metric.Name
		switch w.api {
		case customAPI:
			m.custom[name] = append(m.custom[name], i)
		case externalAPI:
			m.external[name] = append(m.external[name], i)
			m.steps[name] += 1 + w.terms
		}
	}
	return m, problems
}

// Custom appends the metrics of a value, for a target in that namespace. The error is
// the selector's.
func (m *Matcher) Custom(to []int, v *setpointv1.CustomMetric, namespace string, selectors *Selectors) ([]int, error) {
	selector, err := selectors.of(v.GetMetric().GetSelector())
	if err != nil {
		return to, err
	}
	for _, i := range m.custom[v.GetMetric().GetName()] {
		if m.metrics[i].takesCustom(v, selector.identity, namespace) {
			to = append(to, i)
		}
	}
	return to, nil
}

// External appends the metrics of a series. The error is the selector's.
func (m *Matcher) External(to []int, v *setpointv1.ExternalMetric, selectors *Selectors) ([]int, error) {
	selector, err := selectors.of(v.GetMetric().GetSelector())
	if err != nil {
		return to, err
	}
	name := v.GetMetric().GetName()
	if v.GetMetric().GetSelector() == nil && !selectors.budget.Steps(m.steps[name]) {
		selectors.spent = true
		return to, nil
	}
	for _, i := range m.external[name] {
		if m.metrics[i].takesExternal(v, selector.identity) {
			to = append(to, i)
		}
	}
	return to, nil
}

// Selectors parses the selectors of readings, equal ones once: most are equal.
type Selectors = selectorCache

// NewSelectors returns one that spends from the budget.
func NewSelectors(budget *cost.Budget) *Selectors { return &Selectors{budget: budget} }

// Spent reports whether the budget was too small.
func (c *selectorCache) Spent() bool { return c.spent }

// selectorCache avoids parsing the selector of every value.
type selectorCache struct {
	budget *cost.Budget
	spent  bool
	last   *setpointv1.LabelSelector
	latest parsedSelector
	known  map[string]parsedSelector
	key    []byte
}

// parsedSelector is a parsed selector. Selectors with the same meaning have the same identity.
type parsedSelector struct {
	selector labels.Selector
	identity string
	err      error
}

// of parses a selector, or returns the cached result.
func (c *selectorCache) of(s *setpointv1.LabelSelector) (parsedSelector, error) {
	if s == nil {
		return parsedSelector{selector: labels.Everything()}, nil
	}
	if c.last != nil && proto.Equal(c.last, s) {
		return c.latest, c.latest.err
	}
	// The key of a selector that can't be encoded would equal that of an empty one; but
	// decoded messages can be encoded.
	c.key, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(c.key[:0], s)
	got, ok := c.known[string(c.key)]
	if !ok {
		out := labelSelector(s)
		if got = c.parse(out); c.spent {
			return parsedSelector{selector: labels.Nothing()}, nil
		}
		if c.known == nil {
			c.known = make(map[string]parsedSelector)
		}
		c.known[string(c.key)] = got
	}
	c.last, c.latest = s, got
	return got, got.err
}

// parse parses a selector of the spec or of a reading.
func (c *selectorCache) parse(s *recommender.LabelSelector) (got parsedSelector) {
	if !c.budget.Terms(termsOf(s)) {
		c.spent = true
		return parsedSelector{selector: labels.Nothing()}
	}
	if got.selector, got.err = metricSelector(s); got.err == nil {
		got.identity = labelselector.Identity(got.selector)
	}
	return got
}

// termsOf counts the requirements and values of a selector.
func termsOf(s *recommender.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := len(s.MatchLabels)
	for i := range s.MatchExpressions {
		n += 1 + len(s.MatchExpressions[i].Values)
	}
	return n
}
