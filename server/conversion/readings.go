//go:build !js

package conversion

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The metrics APIs, as MetricError names them.
const (
	resourceAPI = "metrics.k8s.io"
	customAPI   = "custom.metrics.k8s.io"
	externalAPI = "external.metrics.k8s.io"
)

// wanted is a metric of the spec in the form for matching readings.
type wanted struct {
	spec     *recommender.MetricSpec
	api      string
	selector labels.Selector
	// identity is the selector in a form that is the same for selectors with the same
	// meaning.
	identity string
	// terms are the selector's requirements and values.
	terms int
}

// lookEvery is the number of readings between checks whether the caller is still there.
const lookEvery = 1 << 10

// readings assigns the readings to the metrics of the spec, by identity.
func (r *requestReader) readings(in *recommender.Input, req *setpointv1.RecommendRequest) []recommender.Readings {
	out := make([]recommender.Readings, len(in.Spec.Metrics))
	matcher, problems := NewMatcher(&in.Spec, r.budget)
	if matcher == nil {
		r.tooMuch = SelectorTerms
		return out
	}
	for i := range out {
		out[i].SelectorError = problems[i]
	}
	j := joiner{
		requestReader: r, matcher: matcher, out: out, namespace: in.Namespace, selectors: selectorCache{budget: r.budget},
		timed: req.GetStages().GetFreshness() != nil || req.GetFleet() != "",
	}
	j.metricErrors(req.GetMetricErrors())
	j.customMetrics(req.GetCustomMetrics())
	j.externalMetrics(req.GetExternalMetrics())
	return out
}

// joiner assigns readings to metrics.
type joiner struct {
	*requestReader
	matcher   *Matcher
	out       []recommender.Readings
	namespace string
	selectors selectorCache
	// found are the metrics of the current reading.
	found []int
	// described reports whether a note has named the spec's metrics.
	described bool
	// timed reports whether a stage asks when values were measured.
	timed bool
}

// newWanted returns the matching form of a metric, and the error of its selector.
func newWanted(spec *recommender.MetricSpec, selectors *selectorCache) (w wanted, problem string) {
	w = wanted{spec: spec, selector: labels.Everything()}
	switch spec.Type {
	case recommender.ResourceMetric, recommender.ContainerResourceMetric:
		w.api = resourceAPI
		return w, ""
	case recommender.PodsMetric, recommender.ObjectMetric:
		w.api = customAPI
	case recommender.ExternalMetric:
		w.api = externalAPI
	}
	got := selectors.parse(spec.Metric.Selector)
	if got.err != nil {
		w.selector = labels.Nothing()
		return w, got.err.Error()
	}
	w.selector, w.identity, w.terms = got.selector, got.identity, termsOf(spec.Metric.Selector)
	return w, ""
}

// metricSelector converts a selector of the spec; none and an empty one select all.
func metricSelector(s *recommender.LabelSelector) (labels.Selector, error) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return labels.Everything(), nil
	}
	matchLabels := make(map[string]string, len(s.MatchLabels))
	for _, l := range s.MatchLabels {
		matchLabels[l.Key] = l.Value
	}
	expressions := make([]labelselector.Expression, len(s.MatchExpressions))
	for i, e := range s.MatchExpressions {
		expressions[i] = labelselector.Expression{Key: e.Key, Operator: e.Operator, Values: e.Values}
	}
	return labelselector.New(matchLabels, expressions)
}

// parseSelector reports what is wrong with a selector in Kubernetes' string form.
func parseSelector(s string) error {
	if s == "" {
		return nil
	}
	_, err := labels.Parse(s)
	return err
}

// metricErrors gives each metric the first error that names it.
func (j *joiner) metricErrors(errors []*setpointv1.MetricError) {
	described := ""
	for i, e := range errors {
		if j.ended() {
			return
		}
		selector, err := j.selectors.of(e.GetSelector())
		if j.over() {
			return
		}
		if err != nil {
			j.refuse(fmt.Sprintf("metricErrors[%d].selector", i), "Invalid value: "+err.Error())
			continue
		}
		named := false
		for m := range j.matcher.metrics {
			w := &j.matcher.metrics[m]
			if !w.isNamed(e.GetMetric()) || e.GetSelector() != nil && w.identity != selector.identity ||
				e.GetDescribedObject() != nil && !w.describes(e.GetDescribedObject(), j.namespace) {
				continue
			}
			named = true
			if j.out[m].Error == "" {
				j.out[m].Error = e.GetMessage()
			}
		}
		if !named {
			if described == "" {
				described = describe(j.matcher.metrics)
			}
			j.refuse(fmt.Sprintf("metricErrors[%d].metric", i), fmt.Sprintf("Invalid value: %q: names no metric of the spec; the spec's are %s",
				e.GetMetric(), described))
		}
	}
}

// over records that the comparisons exceed the budget.
func (j *joiner) over() bool {
	if j.selectors.spent {
		j.tooMuch = SelectorTerms
	}
	return j.tooMuch != 0
}

// add adds a value to the metrics found for it, possibly many.
func (j *joiner) add(taken time.Time, v recommender.Value) {
	if n := len(j.found) - 1; n > 0 && !j.budget.Copies(n) {
		j.tooMuch = Copies
		return
	}
	for _, m := range j.found {
		if j.out[m].Add(taken, v); j.timed {
			j.out[m].Taken = append(j.out[m].Taken, taken)
		}
	}
}

// name returns the name of the metric or of the resource.
func (w *wanted) name() string {
	if w.api == resourceAPI {
		return w.spec.Resource
	}
	return w.spec.Metric.Name
}

// isNamed reports whether a MetricError of that metric concerns this one. It allocates
// no strings, because a request may have many errors and many metrics.
func (w *wanted) isNamed(metric string) bool {
	name := w.name()
	if metric == name || metric == w.api {
		return true
	}
	if rest, ok := strings.CutPrefix(metric, w.api); ok && len(rest) == len(name)+1 && rest[0] == '/' && rest[1:] == name {
		return true
	}
	rest, ok := strings.CutPrefix(metric, string(w.spec.Type))
	if !ok || rest == "" || rest[0] != ':' {
		return false
	}
	rest, ok = strings.CutPrefix(rest[1:], name)
	return ok && (rest == "" ||
		w.spec.Type == recommender.ContainerResourceMetric && rest[0] == ':' && rest[1:] == w.spec.Container)
}

// maxDescribed limits the metrics that an error names.
const maxDescribed = 10

// describe names the metrics of the spec, the first ones if there are many.
func describe(metrics []wanted) string {
	var names []string
	for i := range metrics[:min(len(metrics), maxDescribed)] {
		names = append(names, string(metrics[i].spec.Type)+":"+metrics[i].name())
	}
	if more := len(metrics) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Unidentified returns the fields of a reading without which it is of no metric: the spec has names of metrics and
// objects. A value of a pod counts without the pod's name, as in Kubernetes. Without an object the reading is a series.
func Unidentified(metric *setpointv1.MetricIdentifier, object *setpointv1.CrossVersionObjectReference) (missing []string) {
	if metric.GetName() == "" {
		missing = append(missing, "metric.name")
	}
	if object == nil {
		return missing
	}
	if object.GetKind() == "" {
		missing = append(missing, "describedObject.kind")
	}
	if object.GetName() == "" && object.GetKind() != "Pod" {
		missing = append(missing, "describedObject.name")
	}
	return missing
}

// identified refuses a reading that is of no metric.
func (r *reader) identified(metric *setpointv1.MetricIdentifier, object *setpointv1.CrossVersionObjectReference, place func() string) {
	for _, field := range Unidentified(metric, object) {
		r.refuse(place()+"."+field, "Required value: without it the value is of no metric")
	}
}

// customMetrics assigns values of pods and objects.
func (j *joiner) customMetrics(values []*setpointv1.CustomMetric) {
	for i, v := range values {
		if i%lookEvery == 0 && j.ended() {
			return
		}
		milli := j.milli(v.GetValue(), func() string { return fmt.Sprintf("customMetrics[%d].value", i) })
		taken := j.time(v.GetTimestamp(), func() string { return fmt.Sprintf("customMetrics[%d].timestamp", i) })
		j.identified(v.GetMetric(), v.GetDescribedObject(), func() string { return fmt.Sprintf("customMetrics[%d]", i) })
		var err error
		if j.found, err = j.matcher.Custom(j.found[:0], v, j.namespace, &j.selectors); err != nil {
			j.refuse(fmt.Sprintf("customMetrics[%d].metric.selector", i), "Invalid value: "+err.Error())
			continue
		}
		if len(j.found) == 0 {
			j.noteUnmatched(i, "customMetrics", v.GetMetric().GetName())
		}
		j.add(taken, recommender.Value{Pod: v.GetDescribedObject().GetName(), Milli: milli})
		if j.over() {
			return
		}
	}
}

func (w *wanted) takesCustom(v *setpointv1.CustomMetric, identity, namespace string) bool {
	if w.identity != identity {
		return false
	}
	object := v.GetDescribedObject()
	if w.spec.Type == recommender.PodsMetric {
		return object.GetKind() == "Pod" && recommender.APIGroup(object.GetApiVersion()) == ""
	}
	return w.describes(object, namespace)
}

// describes reports whether the object is that of an Object metric, for a target in that
// namespace.
func (w *wanted) describes(object *setpointv1.CrossVersionObjectReference, namespace string) bool {
	want := &w.spec.DescribedObject
	if object.GetKind() != want.Kind || recommender.APIGroup(object.GetApiVersion()) != recommender.APIGroup(want.APIVersion) {
		return false
	}
	// Kubernetes looks up a namespace's metric by the target's own namespace, whatever
	// name the spec has.
	ownNamespace := want.Kind == "Namespace" && recommender.APIGroup(want.APIVersion) == "" && object.GetName() == namespace
	return object.GetName() == want.Name || ownNamespace
}

// externalMetrics assigns series.
func (j *joiner) externalMetrics(series []*setpointv1.ExternalMetric) {
	for i, v := range series {
		if i%lookEvery == 0 && j.ended() {
			return
		}
		milli := j.milli(v.GetValue(), func() string { return fmt.Sprintf("externalMetrics[%d].value", i) })
		taken := j.time(v.GetTimestamp(), func() string { return fmt.Sprintf("externalMetrics[%d].timestamp", i) })
		j.identified(v.GetMetric(), nil, func() string { return fmt.Sprintf("externalMetrics[%d]", i) })
		var err error
		if j.found, err = j.matcher.External(j.found[:0], v, &j.selectors); err != nil {
			j.refuse(fmt.Sprintf("externalMetrics[%d].metric.selector", i), "Invalid value: "+err.Error())
			continue
		}
		if j.over() {
			return
		}
		if len(j.found) == 0 {
			j.noteUnmatched(i, "externalMetrics", v.GetMetric().GetName())
		}
		if j.add(taken, recommender.Value{Milli: milli}); j.over() {
			return
		}
	}
}

// takesExternal compares the selector of the query if the series has one, otherwise its
// labels.
func (w *wanted) takesExternal(v *setpointv1.ExternalMetric, identity string) bool {
	if v.GetMetric().GetSelector() != nil {
		return w.identity == identity
	}
	return w.selector.Matches(labels.Set(v.GetLabels()))
}

// noteUnmatched notes a reading of no metric. The first such note names the spec's metrics, which
// may be long.
func (j *joiner) noteUnmatched(index int, list, name string) {
	j.note(func() string {
		wanted := ""
		if !j.described {
			j.described = true
			wanted = "the spec's are " + describe(j.matcher.metrics) + "; "
		}
		return fmt.Sprintf("%s[%d]: belongs to no metric of the spec and had no effect (metric %q; %sname, selector and object must agree)", list, index, clip(name), wanted)
	})
}
