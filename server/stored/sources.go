package stored

import (
	"context"
	"errors"
	"slices"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Sources fetch metrics that stored specs name. They are safe for concurrent use.
type Sources interface {
	// Check returns what is wrong with the queries of a target's spec, by fields such as
	// "queries[0].source". It sends no request.
	Check(key store.Key, spec *setpointv1.TargetSpec) []validation.Violation
	// Fetch fetches the metrics that the spec has queries for. Pods are the names of the
	// target's pods; values of others are dropped. Failures are among the MetricErrors; an
	// error means that nothing was tried: ErrBusy, or the context's. Concurrent callers
	// share the result, which must not be changed.
	Fetch(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, pods []string) (*Fetched, error)
}

// ErrBusy means that too many metrics are being fetched, for the target's namespace or for all.
var ErrBusy = errors.New("too many metrics are being fetched")

// Fetched is the result of sources.
type Fetched struct {
	PodMetrics      []*setpointv1.PodMetrics
	CustomMetrics   []*setpointv1.CustomMetric
	ExternalMetrics []*setpointv1.ExternalMetric
	MetricErrors    []*setpointv1.MetricError
}

// QueriedMetric returns the index of the spec's metric of a query, or what is wrong with the query.
func QueriedMetric(spec *setpointv1.TargetSpec, query *setpointv1.MetricQuery) (index int, problem string) {
	index = -1
	for i, m := range spec.GetSpec().GetMetrics() {
		if subject(m) != query.GetMetric() {
			continue
		}
		if index >= 0 {
			return -1, "several metrics of the spec are called so"
		}
		index = i
	}
	if index < 0 {
		return -1, "no metric of the spec is called so: it is type:name, such as External:queue"
	}
	return index, ""
}

// subject names a metric as MetricError.metric does.
func subject(m *setpointv1.MetricSpec) string {
	switch m.GetType() {
	case "Resource":
		return "Resource:" + m.GetResource().GetName()
	case "ContainerResource":
		return "ContainerResource:" + m.GetContainerResource().GetName() + ":" + m.GetContainerResource().GetContainer()
	case "Pods":
		return "Pods:" + m.GetPods().GetMetric().GetName()
	case "Object":
		return "Object:" + m.GetObject().GetMetric().GetName()
	case "External":
		return "External:" + m.GetExternal().GetMetric().GetName()
	}
	return ""
}

// ofUsage reports whether a metric uses the pods' resource usage.
func ofUsage(m *setpointv1.MetricSpec) bool {
	return m.GetType() == "Resource" || m.GetType() == "ContainerResource"
}

// QueryViolations returns the violations of a spec's queries that don't depend on the sources.
func QueryViolations(spec *setpointv1.TargetSpec) (violations []validation.Violation) {
	queried := queriedMetrics(spec)
	if len(queried) < len(spec.GetQueries()) {
		return []validation.Violation{{Field: "queries", Description: "Invalid value: two are for one metric, or one is for none"}}
	}
	usage := slices.ContainsFunc(queried, func(i int) bool { return ofUsage(spec.GetSpec().GetMetrics()[i]) })
	for i, m := range spec.GetSpec().GetMetrics() {
		// The usage of pods is one list: it would mix reported and fetched values.
		if usage && ofUsage(m) && !slices.Contains(queried, i) {
			return []validation.Violation{{Field: "queries", Description: "Required value: " + subject(m) + " has no query, and another resource has one: give all of them one, or none"}}
		}
	}
	return nil
}

// queriedMetrics are the indexes of the spec's metrics that have queries, each once.
func queriedMetrics(spec *setpointv1.TargetSpec) (indexes []int) {
	for _, query := range spec.GetQueries() {
		if i, problem := QueriedMetric(spec, query); problem == "" && !slices.Contains(indexes, i) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// fetch fetches the metrics that a spec has queries for; nil: it has none.
func (t *Targets) fetch(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, pods []string) (*Fetched, error) {
	switch {
	case len(spec.GetQueries()) == 0:
		return nil, nil
	case t.options.Sources == nil:
		fetched := &Fetched{}
		for _, query := range spec.GetQueries() {
			fetched.MetricErrors = append(fetched.MetricErrors, Unfetched(spec, query, "this server fetches no metrics: its operator allows no sources")...)
		}
		return fetched, nil
	}
	return t.options.Sources.Fetch(ctx, key, spec, pods)
}

// Unfetched is the error of the metric that a query is for; nil if it is for none.
func Unfetched(spec *setpointv1.TargetSpec, query *setpointv1.MetricQuery, message string) []*setpointv1.MetricError {
	i, problem := QueriedMetric(spec, query)
	if problem != "" {
		return nil
	}
	m := spec.GetSpec().GetMetrics()[i]
	failed := &setpointv1.MetricError{Metric: subject(m)}
	switch m.GetType() {
	case "Pods":
		failed = metricError("Pods", m.GetPods().GetMetric())
	case "Object":
		failed = metricError("Object", m.GetObject().GetMetric())
		failed.DescribedObject = m.GetObject().GetDescribedObject()
	case "External":
		failed = metricError("External", m.GetExternal().GetMetric())
	}
	failed.Message = message
	return []*setpointv1.MetricError{failed}
}

// podNames returns the names of the reported pods, if a query concerns pods.
func podNames(spec *setpointv1.TargetSpec, record store.Record, now time.Time) ([]string, error) {
	perPod := func(i int) bool {
		m := spec.GetSpec().GetMetrics()[i]
		return ofUsage(m) || m.GetType() == "Pods"
	}
	if !slices.ContainsFunc(queriedMetrics(spec), perPod) {
		return []string{}, nil
	}
	names, at, err := podsOf(record)
	if err != nil || !(ages{now, maxAge(spec)}).fresh(at) {
		return []string{}, err
	}
	return names, nil
}

// addFetched adds fetched values, which replace reported ones of the same metrics.
func (s *sampler) addFetched(spec *setpointv1.TargetSpec, fetched *Fetched) {
	if fetched == nil {
		return
	}
	for _, i := range queriedMetrics(spec) {
		switch m := spec.GetSpec().GetMetrics()[i]; m.GetType() {
		case "Pods":
			s.taken[s.names.pods(m.GetPods().GetMetric())] = true
		case "Object":
			s.taken[s.names.object(m.GetObject().GetDescribedObject(), m.GetObject().GetMetric())] = true
		case "External":
			s.taken[s.names.external(m.GetExternal().GetMetric())] = true
		default:
			s.request.PodMetrics = fetched.PodMetrics
		}
	}
	s.request.CustomMetrics = append(s.request.CustomMetrics, fetched.CustomMetrics...)
	s.request.ExternalMetrics = append(s.request.ExternalMetrics, fetched.ExternalMetrics...)
	s.request.MetricErrors = append(s.request.MetricErrors, fetched.MetricErrors...)
}
