package conversion

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The metrics APIs, as MetricError names them.
const (
	resourceAPI = "metrics.k8s.io"
	customAPI   = "custom.metrics.k8s.io"
	externalAPI = "external.metrics.k8s.io"
)

// wanted is a metric of the spec as readings are matched to it.
type wanted struct {
	spec *recommender.MetricSpec
	api  string
	// namespace is the target's.
	namespace string
	selector  labels.Selector
	// identity is the selector in a form that is the same for all that mean the same.
	identity string
}

// readings joins what was read to the metrics of the spec, by identity.
func (r *reader) readings(in *recommender.Input, req *setpointv1.RecommendRequest) []recommender.Readings {
	out := make([]recommender.Readings, len(in.Spec.Metrics))
	metrics := make([]wanted, len(in.Spec.Metrics))
	for i := range metrics {
		metrics[i] = newWanted(&in.Spec.Metrics[i], in.Namespace, &out[i])
	}
	r.metricErrors(metrics, out, req.GetMetricErrors())
	r.customMetrics(metrics, out, req.GetCustomMetrics())
	r.externalMetrics(metrics, out, req.GetExternalMetrics())
	return out
}

func newWanted(spec *recommender.MetricSpec, namespace string, out *recommender.Readings) wanted {
	w := wanted{spec: spec, namespace: namespace, selector: labels.Everything()}
	switch spec.Type {
	case recommender.ResourceMetric, recommender.ContainerResourceMetric:
		w.api = resourceAPI
		return w
	case recommender.PodsMetric, recommender.ObjectMetric:
		w.api = customAPI
	case recommender.ExternalMetric:
		w.api = externalAPI
	}
	selector, err := metricSelector(spec.Metric.Selector)
	if err != nil {
		out.SelectorError = err.Error()
		w.selector = labels.Nothing()
		return w
	}
	w.selector, w.identity = selector, selectorIdentity(selector)
	return w
}

// metricSelector makes a selector of the spec's; none and an empty one select all.
func metricSelector(s *recommender.LabelSelector) (labels.Selector, error) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return labels.Everything(), nil
	}
	out := &metav1.LabelSelector{}
	for _, l := range s.MatchLabels {
		metav1.AddLabelToSelector(out, l.Key, l.Value)
	}
	for _, e := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	return metav1.LabelSelectorAsSelector(out)
}

// selectorIdentity prints a selector so that selectors that mean the same print
// the same: requirements sorted, and those of one value with an equals sign.
func selectorIdentity(s labels.Selector) string {
	requirements, _ := s.Requirements()
	if len(requirements) == 0 {
		return ""
	}
	parts := make([]string, len(requirements))
	for i, q := range requirements {
		values := q.ValuesUnsorted()
		slices.Sort(values)
		values = slices.Compact(values)
		operator := q.Operator()
		switch {
		case len(values) == 1 && operator == selection.In:
			operator = selection.Equals
		case len(values) == 1 && operator == selection.NotIn:
			operator = selection.NotEquals
		}
		parts[i] = fmt.Sprintf("%s %s %q", q.Key(), operator, values)
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
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
func (r *reader) metricErrors(metrics []wanted, out []recommender.Readings, errors []*setpointv1.MetricError) {
	var identity selectorCache
	described := describe(metrics)
	for i, e := range errors {
		id, err := identity.of(e.GetSelector())
		if err != nil {
			r.refuse(fmt.Sprintf("metricErrors[%d].selector", i), "Invalid value: "+err.Error())
			continue
		}
		named := false
		for m := range metrics {
			w := &metrics[m]
			if !w.isNamed(e.GetMetric()) || e.GetSelector() != nil && w.identity != id ||
				e.GetDescribedObject() != nil && !w.describes(e.GetDescribedObject()) {
				continue
			}
			named = true
			if out[m].Error == "" {
				out[m].Error = e.GetMessage()
			}
		}
		if !named {
			r.refuse(fmt.Sprintf("metricErrors[%d].metric", i), fmt.Sprintf("Invalid value: %q: names no metric of the spec; the spec's are %s",
				e.GetMetric(), described))
		}
	}
}

// name is that of the metric or of the resource.
func (w *wanted) name() string {
	if w.api == resourceAPI {
		return w.spec.Resource
	}
	return w.spec.Metric.Name
}

// isNamed reports whether a MetricError of that metric speaks of this one. It makes
// no strings, for a request may hold many errors and many metrics.
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

// maxDescribed bounds the metrics that an error names.
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

// customMetrics joins values of pods and objects.
func (r *reader) customMetrics(metrics []wanted, out []recommender.Readings, values []*setpointv1.CustomMetric) {
	var identity selectorCache
	for i, v := range values {
		milli := r.milli(v.GetValue(), func() string { return fmt.Sprintf("customMetrics[%d].value", i) })
		taken := r.time(v.GetTimestamp(), func() string { return fmt.Sprintf("customMetrics[%d].timestamp", i) })
		id, err := identity.of(v.GetMetric().GetSelector())
		if err != nil {
			r.refuse(fmt.Sprintf("customMetrics[%d].metric.selector", i), "Invalid value: "+err.Error())
			continue
		}
		matched := false
		for m := range metrics {
			if metrics[m].takesCustom(v, id) {
				out[m].Add(taken, recommender.Value{Pod: v.GetDescribedObject().GetName(), Milli: milli})
				matched = true
			}
		}
		if !matched {
			r.noteUnmatched(i, "customMetrics", v.GetMetric().GetName())
		}
	}
}

func (w *wanted) takesCustom(v *setpointv1.CustomMetric, identity string) bool {
	if w.api != customAPI || w.spec.Metric.Name != v.GetMetric().GetName() || w.identity != identity {
		return false
	}
	object := v.GetDescribedObject()
	if w.spec.Type == recommender.PodsMetric {
		return object.GetKind() == "Pod" && apiGroup(object.GetApiVersion()) == ""
	}
	return w.describes(object)
}

// describes reports whether the object is that of an Object metric.
func (w *wanted) describes(object *setpointv1.CrossVersionObjectReference) bool {
	want := &w.spec.DescribedObject
	if object.GetKind() != want.Kind || apiGroup(object.GetApiVersion()) != apiGroup(want.APIVersion) {
		return false
	}
	// Kubernetes looks a namespace's metric up by the target's own, whatever name
	// the spec gives.
	ownNamespace := want.Kind == "Namespace" && apiGroup(want.APIVersion) == "" && object.GetName() == w.namespace
	return object.GetName() == want.Name || ownNamespace
}

// apiGroup returns the group of an API version: "apps" of "apps/v1", "" of "v1".
func apiGroup(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// externalMetrics joins series.
func (r *reader) externalMetrics(metrics []wanted, out []recommender.Readings, series []*setpointv1.ExternalMetric) {
	var identity selectorCache
	for i, v := range series {
		milli := r.milli(v.GetValue(), func() string { return fmt.Sprintf("externalMetrics[%d].value", i) })
		taken := r.time(v.GetTimestamp(), func() string { return fmt.Sprintf("externalMetrics[%d].timestamp", i) })
		id, err := identity.of(v.GetMetric().GetSelector())
		if err != nil {
			r.refuse(fmt.Sprintf("externalMetrics[%d].metric.selector", i), "Invalid value: "+err.Error())
			continue
		}
		matched := false
		for m := range metrics {
			if metrics[m].takesExternal(v, id) {
				out[m].Add(taken, recommender.Value{Milli: milli})
				matched = true
			}
		}
		if !matched {
			r.noteUnmatched(i, "externalMetrics", v.GetMetric().GetName())
		}
	}
}

// takesExternal compares what the series was asked for with, where that is told,
// and otherwise its labels.
func (w *wanted) takesExternal(v *setpointv1.ExternalMetric, identity string) bool {
	if w.api != externalAPI || w.spec.Metric.Name != v.GetMetric().GetName() {
		return false
	}
	if v.GetMetric().GetSelector() != nil {
		return w.identity == identity
	}
	return w.selector.Matches(labels.Set(v.GetLabels()))
}

func (r *reader) noteUnmatched(index int, list, name string) {
	if !r.noting {
		return
	}
	field := fmt.Sprintf("%s[%d]", list, index)
	r.notes = append(r.notes, fmt.Sprintf("%s: belongs to no metric of the spec and had no effect (metric %q; name, selector and object must agree)", field, name))
}

// selectorCache spares reading the selector of every value again, for they are
// mostly the same.
type selectorCache struct {
	last     *setpointv1.LabelSelector
	identity string
	err      error
}

func (c *selectorCache) of(s *setpointv1.LabelSelector) (string, error) {
	if s == nil {
		return "", nil
	}
	if c.last != nil && proto.Equal(c.last, s) {
		return c.identity, c.err
	}
	selector, err := metricSelector(labelSelector(s))
	c.last, c.err, c.identity = s, err, ""
	if err == nil {
		c.identity = selectorIdentity(selector)
	}
	return c.identity, err
}
