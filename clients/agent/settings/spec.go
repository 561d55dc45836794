package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Types of metrics, as autoscaling/v2 spells them.
const (
	resourceType          = "Resource"
	containerResourceType = "ContainerResource"
	podsType              = "Pods"
	objectType            = "Object"
	externalType          = "External"
)

func utilization(name string, percent int32) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: resourceType, Resource: &setpointv1.ResourceMetricSource{
		Name: name, Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &percent},
	}}
}

// bounds reads min and max, unless the platform has them elsewhere.
func (r *reading) bounds(spec *setpointv1.HorizontalPodAutoscalerSpec) {
	if _, elsewhere := r.form.Without["max"]; elsewhere {
		return
	}
	spec.MinReplicas = new(int32(1))
	if r.set.Min != nil {
		spec.MinReplicas = new(int32(*r.set.Min))
		if *spec.MinReplicas < r.form.Least && !r.wrong("min") {
			r.Add("min", "must be a whole number of replicas from %d%s", r.form.Least, r.form.zero(": "))
		}
	}
	switch {
	case r.wrong("max"):
	case r.set.Max != nil:
		spec.MaxReplicas = int32(*r.set.Max)
		if spec.GetMinReplicas() > spec.MaxReplicas {
			r.Add("min", "%d is above %smax, which is %d", spec.GetMinReplicas(), r.form.Prefix, spec.MaxReplicas)
		}
	default:
		r.Add("max", "is required: the maximum number of replicas")
	}
}

// wrong reports whether a key has a problem already.
func (r *reading) wrong(key string) bool {
	return slices.ContainsFunc(r.Problems, func(p typed.Problem) bool { return p.Field == key || strings.HasPrefix(p.Field, key+".") })
}

// usage reads metrics of resources in the form of autoscaling/v2, which has no place for a source.
func (r *reading) usage(spec *setpointv1.HorizontalPodAutoscalerSpec) {
	from, ok := r.document("metrics", r.set.Metrics)
	if !ok {
		return
	}
	read := &setpointv1.HorizontalPodAutoscalerSpec{}
	r.FillMessage("", map[string]any{"metrics": from}, read)
	for i, m := range read.GetMetrics() {
		at := fmt.Sprintf("metrics[%d]", i)
		if m.GetType() != resourceType && m.GetType() != containerResourceType {
			r.Add(typed.Within(at, "type"), "must be %s or %s: write a metric of a source as %smetric.NAME", resourceType, containerResourceType, r.form.Prefix)
		} else if why, ok := r.measured(m); !ok {
			r.Add(at, "%s", why)
		}
	}
	spec.Metrics = append(spec.Metrics, read.GetMetrics()...)
}

func (r *reading) measured(m *setpointv1.MetricSpec) (why string, ok bool) {
	if r.form.Measured == nil {
		return "", true
	}
	return r.form.Measured(m)
}

// Usage is a Form's Measured of platforms that measure the cpu and memory of replicas, and of
// their containers where they have several.
func Usage(containers bool) func(m *setpointv1.MetricSpec) (why string, ok bool) {
	return func(m *setpointv1.MetricSpec) (string, bool) {
		name := m.GetResource().GetName() + m.GetContainerResource().GetName()
		switch {
		case m.GetType() == containerResourceType && !containers:
			return "a replica has one container: use the type " + resourceType, false
		case m.GetType() != resourceType && m.GetType() != containerResourceType:
			return "", false
		case name != "cpu" && name != "memory":
			return fmt.Sprintf("usage of %q is not available, only of cpu and memory", typed.Shorten(name, 64)), false
		}
		return "", true
	}
}

// metric makes the metric of that name: a Pods metric if its values name replicas, else an
// External one.
func (r *reading) metric(name string, to *setpointv1.MetricSpec) {
	set, at := r.set.Metric[name], typed.Within("metric", name)
	if kind, plain, ok := strings.Cut(name, ":"); ok && slices.Contains([]string{resourceType, containerResourceType, podsType, objectType, externalType}, kind) {
		r.Add(at, "has a type in its name, as only metrics of a spec have: write %smetric.%s", r.form.Prefix, typed.Shorten(plain, 64))
	}
	ofReplicas := set.PodLabel != "" || set.PodPath != ""
	target := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: (*string)(set.Average)}
	switch {
	case set.Average != nil && set.Value != nil:
		r.Add(typed.Within(at, "value"), "can't be set beside average: one is for each replica, the other for all")
	case set.Value != nil && ofReplicas:
		r.Add(typed.Within(at, "value"), "has no meaning for values of replicas: use average")
	case set.Value != nil:
		target = &setpointv1.MetricTarget{Type: "Value", Value: (*string)(set.Value)}
	case set.Average == nil && !r.wrong(typed.Within(at, "average")) && !r.wrong(typed.Within(at, "value")):
		r.Add(typed.Within(at, "average"), "is required: the value of the metric per replica to aim for; or value, that of all")
	}
	id := &setpointv1.MetricIdentifier{Name: name}
	if ofReplicas {
		to.Type, to.Pods = podsType, &setpointv1.PodsMetricSource{Metric: id, Target: target}
		return
	}
	to.Type, to.External = externalType, &setpointv1.ExternalMetricSource{Metric: id, Target: target}
}

// whole reads a whole spec, and finds the source of each of its metrics.
func (r *reading) whole() {
	r.out.Spec = &setpointv1.HorizontalPodAutoscalerSpec{}
	from, ok := r.document("spec", r.set.Spec)
	if !ok {
		return
	}
	before := len(r.Problems)
	r.FillMessage("spec", from, r.out.Spec)
	if len(r.Problems) > before {
		return
	}
	if r.out.Spec.ScaleTargetRef != nil {
		r.out.Spec.ScaleTargetRef = nil
		r.warn("spec.scaleTargetRef has no effect: the workload itself is scaled")
	}
	for key, set := range map[string]bool{
		"min": r.set.Min != nil, "max": r.set.Max != nil, "cpu": r.set.CPU != nil, "memory": r.set.Memory != nil, "metrics": r.set.Metrics != nil, "behavior": r.set.Behavior != nil,
	} {
		if set {
			r.warn(key + " has no effect beside " + r.form.Prefix + "spec")
		}
	}
	for name, set := range r.set.Metric {
		if set.Average != nil || set.Value != nil {
			r.warn(fmt.Sprintf("metric.%s: average and value have no effect beside %sspec", typed.Shorten(name, 64), r.form.Prefix))
		}
	}
	r.sources()
}

func (r *reading) warn(text string) { r.out.Warnings = append(r.out.Warnings, r.form.Prefix+text) }

// sources finds the query of each metric of a whole spec.
func (r *reading) sources() {
	used := map[string]bool{}
	for i, m := range r.out.Spec.GetMetrics() {
		name, ok := r.sourceOf(m)
		if ok {
			used[name] = true
			r.out.Metrics = append(r.out.Metrics, samples.Metric{Spec: m, Query: r.set.Metric[name].Query})
			continue
		}
		if why, measured := r.measured(m); !measured {
			plain, _ := nameOf(m)
			if why == "" && plain == "" {
				continue // the service reports a missing name
			}
			if why == "" {
				why = fmt.Sprintf("%q has no source: set %smetric.%s.source", typed.Shorten(plain, 64), r.form.Prefix, typed.Shorten(plain, 64))
			}
			r.Add(fmt.Sprintf("spec.metrics[%d]", i), "%s", why)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.set.Metric)) {
		if !used[name] {
			r.Add(typed.Within("metric", name), "the spec has no such metric; metrics are named by NAME or TYPE:NAME, such as queue or External:queue")
		}
	}
}

// sourceOf returns the name in Metric of the metric that answers m: its type and name, or, unless
// it is usage, its name. Usage that the platform measures has no source.
func (r *reading) sourceOf(m *setpointv1.MetricSpec) (string, bool) {
	plain, ofUsage := nameOf(m)
	subject := samples.Subject(m)
	if _, ok := r.set.Metric[subject]; ok && (!ofUsage || r.form.Measured == nil) {
		return subject, true
	}
	_, ok := r.set.Metric[plain]
	return plain, ok && !ofUsage && plain != ""
}

// nameOf returns the name of a metric, and whether it is resource usage.
func nameOf(m *setpointv1.MetricSpec) (name string, ofUsage bool) {
	switch m.GetType() {
	case resourceType:
		return m.GetResource().GetName(), true
	case containerResourceType:
		return m.GetContainerResource().GetName(), true
	case podsType:
		return m.GetPods().GetMetric().GetName(), false
	case objectType:
		return m.GetObject().GetMetric().GetName(), false
	case externalType:
		return m.GetExternal().GetMetric().GetName(), false
	}
	return "", false
}

// Sources check queries, as package samples' Set does.
type Sources interface {
	// Check returns the problems of the queries of a spec's metrics, as a *typed.Error whose
	// fields begin with the metric, such as "External:queue.query".
	Check(metrics []samples.Metric) error
}

// Check returns what the sources say of the metrics' queries, as a *typed.Error with the keys of
// the platform.
func (f Form) Check(sources Sources, metrics []samples.Metric) error {
	var wrong *typed.Error
	err := sources.Check(metrics)
	if !errors.As(err, &wrong) {
		return err
	}
	var out typed.Problems
	for _, one := range wrong.Problems {
		out.Add(f.fieldOf(one.Field, metrics), "%s", one.Message)
	}
	return f.err(out)
}

// fieldOf returns the key of a problem of a source: "metric.queue.query" for
// "External:queue.query".
func (f Form) fieldOf(field string, metrics []samples.Metric) string {
	for _, m := range metrics {
		name, ofUsage := nameOf(m.Spec)
		subject := samples.Subject(m.Spec)
		if rest, ok := strings.CutPrefix(field, subject); ok && (rest == "" || rest[0] == '.') {
			if ofUsage {
				name = subject
			}
			return "metric." + name + rest
		}
	}
	return "metric"
}

// Nested returns texts by dotted keys, such as labels, as a tree: of those that begin with the
// prefix, without it. The names of metrics have no dots.
func Nested(labels map[string]string, prefix string) map[string]any {
	tree, metrics := map[string]any{}, map[string]any{}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		rest, ok := strings.CutPrefix(label, prefix)
		if !ok {
			continue
		}
		name, ofMetric := strings.CutPrefix(rest, "metric.")
		if !ofMetric {
			tree[rest] = labels[label]
			continue
		}
		name, key, _ := strings.Cut(name, ".") // without a key it is unknown
		fields, _ := metrics[name].(map[string]any)
		if fields == nil {
			fields = map[string]any{}
			metrics[name] = fields
		}
		fields[key] = labels[label]
	}
	if len(metrics) > 0 {
		tree["metric"] = []any{tree["metric"], metrics} // a label metric alone is wrong, and stays
	}
	return tree
}
