package samples

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Metric is a metric of a spec and the query that answers it.
type Metric struct {
	// Spec is the metric as the spec has it. Required.
	Spec *setpointv1.MetricSpec
	// Query is its query.
	Query Query
	// Named is the operator's name of the metric, and Namespace the using object's. Errors then
	// show only their kind, and the log the rest. Empty: the user wrote the query.
	Named, Namespace string
}

// Readings are the read metrics in the form of a RecommendRequest.
type Readings struct {
	PodMetrics      []*setpointv1.PodMetrics
	CustomMetrics   []*setpointv1.CustomMetric
	ExternalMetrics []*setpointv1.ExternalMetric
	// MetricErrors are the errors of the metrics that are in none of the others.
	MetricErrors []*setpointv1.MetricError
}

// Types of metrics, as autoscaling/v2 spells them.
const (
	resourceType          = "Resource"
	containerResourceType = "ContainerResource"
	podsType              = "Pods"
	objectType            = "Object"
	externalType          = "External"
)

// cpu is the resource whose samples the controller compares with when a pod became ready.
const cpu = "cpu"

// target is the metric of a spec, parsed.
type target struct {
	kind, name string
	// container is the one of a ContainerResource.
	container string
	selector  *setpointv1.LabelSelector
	// matches is the selector.
	matches labels.Selector
	object  *setpointv1.CrossVersionObjectReference
}

// targetOf parses the metric of a spec.
func targetOf(spec *setpointv1.MetricSpec) (t target, problem string) {
	t = target{kind: spec.GetType()}
	var metric *setpointv1.MetricIdentifier
	switch t.kind {
	case resourceType:
		t.name = spec.GetResource().GetName()
	case containerResourceType:
		t.name, t.container = spec.GetContainerResource().GetName(), spec.GetContainerResource().GetContainer()
	case podsType:
		metric = spec.GetPods().GetMetric()
	case objectType:
		metric, t.object = spec.GetObject().GetMetric(), spec.GetObject().GetDescribedObject()
	case externalType:
		metric = spec.GetExternal().GetMetric()
	default:
		return t, fmt.Sprintf("there is no type of metric %q", typed.Shorten(t.kind, typed.MaxQuoted))
	}
	if metric != nil {
		t.name, t.selector = metric.GetName(), metric.GetSelector()
	}
	switch {
	case t.name == "":
		return t, "the metric has no name"
	case t.kind == objectType && (t.object.GetKind() == "" || t.object.GetName() == ""):
		return t, "the metric describes no object"
	}
	var err error
	if t.matches, err = selectorOf(t.selector); err != nil {
		return t, "the metric's selector: " + typed.Shorten(err.Error(), typed.MaxQuoted)
	}
	return t, ""
}

// selectorOf converts a selector; nil and an empty one select all.
func selectorOf(s *setpointv1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	expressions := make([]labelselector.Expression, len(s.GetMatchExpressions()))
	for i, e := range s.GetMatchExpressions() {
		expressions[i] = labelselector.Expression{Key: e.GetKey(), Operator: e.GetOperator(), Values: e.GetValues()}
	}
	return labelselector.New(s.GetMatchLabels(), expressions)
}

// perPod reports whether the metric has a value per pod.
func (t target) perPod() bool { return t.kind != objectType && t.kind != externalType }

// ofUsage reports whether the metric is resource usage.
func (t target) ofUsage() bool { return t.kind == resourceType || t.kind == containerResourceType }

// identity is equal for metrics to which the service assigns the same values.
func (t target) identity() string {
	identity := t.subject() + "\n" + t.matches.String()
	if t.kind == objectType {
		identity += "\n" + t.object.GetApiVersion() + "\n" + t.object.GetKind() + "\n" + t.object.GetName()
	}
	return identity
}

// subject is the metric's name in errors, as in MetricError.metric.
func (t target) subject() string {
	subject := t.kind + ":" + t.name
	if t.kind == containerResourceType {
		subject += ":" + t.container
	}
	return subject
}

// Subject is the name of a spec's metric in errors, as in MetricError.metric: "External:queue".
func Subject(spec *setpointv1.MetricSpec) string {
	t, _ := targetOf(spec)
	return t.subject()
}

// Takes reports whether the service gives a value of a custom or external metric to that of a spec: by its object, nil for an
// external one, and by its selector, or without one by its labels.
func Takes(spec *setpointv1.MetricSpec, metric *setpointv1.MetricIdentifier, object *setpointv1.CrossVersionObjectReference, of map[string]string) bool {
	t, problem := targetOf(spec)
	selector, err := selectorOf(metric.GetSelector())
	if problem != "" || err != nil || t.ofUsage() || t.name != metric.GetName() || (t.kind == externalType) != (object == nil) {
		return false
	}
	if object == nil && metric.GetSelector() == nil {
		return t.matches.Matches(labels.Set(of))
	}
	if labelselector.Identity(selector) != labelselector.Identity(t.matches) {
		return false
	}
	named := object.GetName() == t.object.GetName() || object.GetKind() == "Namespace" // of which the service knows the own one
	return object == nil || t.kind == podsType && object.GetKind() == "Pod" || object.GetKind() == t.object.GetKind() && named
}

// Failed is the error of a spec's metric.
func Failed(spec *setpointv1.MetricSpec, err error) *setpointv1.MetricError {
	t, _ := targetOf(spec)
	return t.failed(err)
}

// Check returns the problems of the queries of a spec's metrics, as a *typed.Error whose fields
// begin with the metric, such as "External:queue.query". It sends no request.
func (s *Set) Check(metrics []Metric) error {
	var all typed.Problems
	for i, p := range s.check(metrics) {
		t, _ := targetOf(metrics[i].Spec)
		all.Under(t.subject(), p)
	}
	return all.Err()
}

// check returns the problems of each metric.
func (s *Set) check(metrics []Metric) []typed.Problems {
	out := make([]typed.Problems, len(metrics))
	usage := map[string]Query{} // of resources, by name
	shape := -1                 // the first metric of usage
	before := map[string]Query{}
	for i, m := range metrics {
		p := &out[i]
		t, problem := targetOf(m.Spec)
		if problem != "" {
			p.Add("", "%s", problem)
			continue
		}
		if *p = s.problems(m.Query); len(*p) > 0 {
			continue
		}
		switch q := m.Query; {
		case t.perPod() && s.sources[q.Source].Redis != nil:
			p.Add("source", "is a Redis, which has no values of pods: use it for External and Object metrics")
		case t.perPod() && !q.OfPods():
			p.Add(s.podField(q), "is required: a %s metric has a value for each pod", t.kind)
		case !t.perPod() && q.OfPods():
			p.Add(s.podField(q), "does not apply here: %s metrics have no values of pods", t.kind)
		case t.kind == podsType && q.OfContainers():
			p.Add("", "a Pods metric has one value for each pod, not for each container")
		case t.kind == containerResourceType && !q.OfContainers():
			p.Add(s.containerField(q), "is required: the metric is one of a container")
		case t.ofUsage() && t.name == cpu && q.Window == 0:
			p.Add("window", "is required for cpu: the range of the query's rate, such as 1m")
		}
		if len(*p) > 0 {
			continue
		}
		if !t.ofUsage() {
			if other, ok := before[t.identity()]; ok && other != m.Query {
				p.Add("", "is in the spec before with another query: give both the same")
			}
			before[t.identity()] = m.Query
			continue
		}
		// The service sums a pod's containers, so that a value for the whole pod beside those
		// of its containers would count twice.
		if other, ok := usage[t.name]; ok && other != m.Query {
			p.Add("", "reads %s with another query than the metric before it: give both the same", t.name)
		} else if shape >= 0 && metrics[shape].Query.OfContainers() != m.Query.OfContainers() {
			p.Add(s.containerField(m.Query), "must be set for all resources, or for none")
		}
		usage[t.name] = m.Query
		if shape < 0 {
			shape = i
		}
	}
	return out
}

// podField and containerField are the names of the query's fields that name pods and
// containers.
func (s *Set) podField(q Query) string {
	if s.sources[q.Source].HTTP != nil {
		return "podPath"
	}
	return "podLabel"
}

func (s *Set) containerField(q Query) string {
	if s.sources[q.Source].HTTP != nil {
		return "containerPath"
	}
	return "containerLabel"
}

// Read reads the metrics of one workload concurrently, and returns samples or an error for
// each. pods are the names of the workload's pods; it drops values of other pods, unless pods
// is nil. It returns when all sources have answered, at most after the longest of their
// timeouts, or when ctx ends.
func (s *Set) Read(ctx context.Context, metrics []Metric, pods []string) Readings {
	keep := everyPod
	if pods != nil {
		known := make(map[string]bool, len(pods))
		for _, pod := range pods {
			known[pod] = true
		}
		keep = func(pod string) bool { return known[pod] }
	}
	checked := s.check(metrics)
	results := make([][]Sample, len(metrics))
	errs := make([]error, len(metrics))
	// Metrics with the same query share one answer, however soon it comes: values of two instants would
	// not fit together.
	sharing := map[Query][]int{}
	for i, m := range metrics {
		if errs[i] = checked[i].Err(); errs[i] == nil {
			sharing[m.Query] = append(sharing[m.Query], i)
		}
	}
	var wg sync.WaitGroup
	for query, at := range sharing {
		wg.Go(func() {
			samples, err := s.samples(ctx, query, keep)
			for _, i := range at {
				results[i], errs[i] = samples, err
			}
		})
	}
	wg.Wait()
	var (
		out   Readings
		usage usage
		added = map[string]bool{}
	)
	for i, m := range metrics {
		t, _ := targetOf(m.Spec)
		err := errs[i]
		// A spec may have a metric twice, with two targets: values sent twice would count
		// twice.
		if err == nil && !added[t.identity()] {
			err = out.add(&usage, t, m.Query, results[i])
			added[t.identity()] = err == nil
		}
		if m.Named != "" {
			s.failures.note(m, t.identity(), err)
			if err != nil {
				err = namedError(m.Named, err)
			}
		}
		if err != nil {
			out.MetricErrors = append(out.MetricErrors, t.failed(err))
		}
	}
	out.PodMetrics = usage.metrics()
	return out
}

// maxMessageBytes bounds the message of a metric's error, which goes into a status.
const maxMessageBytes = 1024

// failed is the error of the metric.
func (t target) failed(err error) *setpointv1.MetricError {
	out := &setpointv1.MetricError{Metric: typed.Shorten(t.subject(), maxMessageBytes), Message: typed.Shorten(err.Error(), maxMessageBytes)}
	if !t.ofUsage() {
		out.Selector, out.DescribedObject = t.spelled(), t.object
	}
	return out
}

// spelled is the spec's selector, empty for none, so that the error does not apply to a metric
// of the same name with another selector.
func (t target) spelled() *setpointv1.LabelSelector {
	if t.selector == nil {
		return &setpointv1.LabelSelector{}
	}
	return t.selector
}

// add adds the samples of a metric.
func (r *Readings) add(usage *usage, t target, q Query, samples []Sample) error {
	if !t.matches.Empty() {
		selected := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return !s.Stands && !t.matches.Matches(labels.Set(s.Labels)) })
		switch {
		case len(selected) > 0:
		case q.EmptyIsZero && slices.ContainsFunc(samples, t.couldMatch):
			// Nothing matches, and not because the query lost the labels.
			selected = []Sample{nothing(q)}
		default:
			return &Error{q.Source, Empty, fmt.Sprintf("none of %d values has labels that match the metric's selector: let the query keep those labels, or remove the selector", len(samples))}
		}
		samples = selected
	}
	if t.kind == objectType && len(samples) != 1 {
		return &Error{q.Source, Invalid, fmt.Sprintf("it has %d values, but an Object metric needs exactly one: aggregate them, as with sum()", len(samples))}
	}
	for _, s := range samples {
		switch t.kind {
		case externalType:
			r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{
				Metric: t.identifier(), Labels: s.Labels, Timestamp: timestamppb.New(s.Timestamp), Value: s.Value.String(),
			})
		case podsType, objectType:
			value := &setpointv1.CustomMetric{
				Metric: t.identifier(), DescribedObject: t.object, Timestamp: timestamppb.New(s.Timestamp), Value: s.Value.String(),
			}
			if t.kind == podsType {
				value.DescribedObject = &setpointv1.CrossVersionObjectReference{ApiVersion: "v1", Kind: "Pod", Name: s.Pod}
			}
			if s.Window > 0 {
				seconds := s.Window.Seconds()
				value.WindowSeconds = &seconds
			}
			r.CustomMetrics = append(r.CustomMetrics, value)
		default:
			usage.add(t.name, s)
		}
	}
	return nil
}

// couldMatch reports whether a sample has all labels that the selector uses.
func (t target) couldMatch(s Sample) bool {
	requirements, _ := t.matches.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return !labels.Set(s.Labels).Has(r.Key()) })
}

// identifier is the metric of the spec that values belong to. An empty selector instead of none
// keeps an external series from another metric of that name.
func (t target) identifier() *setpointv1.MetricIdentifier {
	return &setpointv1.MetricIdentifier{Name: t.name, Selector: t.spelled()}
}

// usage collects resource usage: the service accepts one list of containers per pod.
type usage struct {
	pods map[string]*podUsage
}

// podUsage is the usage of one pod.
type podUsage struct {
	taken  time.Time
	window time.Duration
	// ofCPU reports whether taken and window are those of its cpu.
	ofCPU      bool
	containers map[string]map[string]string // quantities by container and resource
}

func (u *usage) add(resource string, s Sample) {
	if u.pods == nil {
		u.pods = map[string]*podUsage{}
	}
	pod := u.pods[s.Pod]
	if pod == nil {
		pod = &podUsage{taken: s.Timestamp, window: s.Window, containers: map[string]map[string]string{}}
		u.pods[s.Pod] = pod
	}
	if resource == cpu && !pod.ofCPU {
		// Only cpu's time and window matter.
		pod.taken, pod.window, pod.ofCPU = s.Timestamp, s.Window, true
	}
	if pod.containers[s.Container] == nil {
		pod.containers[s.Container] = map[string]string{}
	}
	pod.containers[s.Container][resource] = s.Value.String()
}

// metrics returns the usage by pod and container, sorted by name.
func (u *usage) metrics() []*setpointv1.PodMetrics {
	out := make([]*setpointv1.PodMetrics, 0, len(u.pods))
	for name, pod := range u.pods {
		m := &setpointv1.PodMetrics{Pod: name, Timestamp: timestamppb.New(pod.taken), WindowSeconds: pod.window.Seconds()}
		for container, usage := range pod.containers {
			m.Containers = append(m.Containers, &setpointv1.ContainerMetrics{Name: container, Usage: usage})
		}
		slices.SortFunc(m.Containers, func(a, b *setpointv1.ContainerMetrics) int { return cmp.Compare(a.GetName(), b.GetName()) })
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *setpointv1.PodMetrics) int { return cmp.Compare(a.GetPod(), b.GetPod()) })
	return out
}
