package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// metricTypes are the types of a metric, sorted.
var metricTypes = []string{"ContainerResource", "External", "Object", "Pods", "Resource"}

// source is a field of a metric that describes the source of its readings.
type source struct {
	// metricType is the type that requires this source.
	metricType string
	// field is the source's JSON name.
	field string
	// isSet reports whether the metric has this source.
	isSet func(*setpointv1.MetricSpec) bool
	// check checks this source of the metric.
	check func(*checker, *field.Path, *setpointv1.MetricSpec)
}

// sources are in the order in which the API server checks them; it checks the first one
// that is set, whatever the type.
var sources = []source{
	{
		metricType: "Object", field: "object",
		isSet: func(m *setpointv1.MetricSpec) bool { return m.GetObject() != nil },
		check: func(c *checker, p *field.Path, m *setpointv1.MetricSpec) { c.object(p, m.GetObject()) },
	},
	{
		metricType: "External", field: "external",
		isSet: func(m *setpointv1.MetricSpec) bool { return m.GetExternal() != nil },
		check: func(c *checker, p *field.Path, m *setpointv1.MetricSpec) { c.external(p, m.GetExternal()) },
	},
	{
		metricType: "Pods", field: "pods",
		isSet: func(m *setpointv1.MetricSpec) bool { return m.GetPods() != nil },
		check: func(c *checker, p *field.Path, m *setpointv1.MetricSpec) { c.pods(p, m.GetPods()) },
	},
	{
		metricType: "Resource", field: "resource",
		isSet: func(m *setpointv1.MetricSpec) bool { return m.GetResource() != nil },
		check: func(c *checker, p *field.Path, m *setpointv1.MetricSpec) { c.resource(p, m.GetResource()) },
	},
	{
		metricType: "ContainerResource", field: "containerResource",
		isSet: func(m *setpointv1.MetricSpec) bool { return m.GetContainerResource() != nil },
		check: func(c *checker, p *field.Path, m *setpointv1.MetricSpec) {
			c.containerResource(p, m.GetContainerResource())
		},
	},
}

// sourceOf returns the source that a type requires, nil for an unknown type.
func sourceOf(metricType string) *source {
	for i := range sources {
		if sources[i].metricType == metricType {
			return &sources[i]
		}
	}
	return nil
}

// metrics checks each metric, and that one of them can show when a workload without
// replicas is needed again.
func (c *checker) metrics(p *field.Path, metrics []*setpointv1.MetricSpec, minReplicas int32) {
	wakes := false
	for i, metric := range metrics {
		c.metric(p.Index(i), metric)
		// The type counts, even for a refused metric.
		wakes = wakes || metric.GetType() == "Object" || metric.GetType() == "External"
	}
	if minReplicas == 0 && !wakes {
		c.forbidden(p, "must specify at least one Object or External metric to support scaling to zero replicas")
	}
}

func (c *checker) metric(p *field.Path, metric *setpointv1.MetricSpec) {
	named := sourceOf(metric.GetType())
	if metric.GetType() == "" {
		c.required(p.Child("type"), "must specify a metric source type")
	}
	if named == nil {
		c.unsupported(p.Child("type"), enum(metric.GetType()), metricTypes)
	}
	set := c.firstSource(p, metric)
	switch {
	case named == nil:
		// The API server reports it before and after the source.
		c.unsupported(p.Child("type"), enum(metric.GetType()), metricTypes)
	case !named.isSet(metric):
		c.required(p.Child(named.field), "must populate information for the given metric source")
	}
	if set > 1 {
		c.otherSources(p, metric, named)
	}
}

// firstSource checks the first source that is set and returns how many are set.
func (c *checker) firstSource(p *field.Path, metric *setpointv1.MetricSpec) int {
	set := 0
	for i := range sources {
		if !sources[i].isSet(metric) {
			continue
		}
		if set == 0 {
			sources[i].check(c, p.Child(sources[i].field), metric)
		}
		set++
	}
	return set
}

// otherSources reports each source that is set except the named one.
func (c *checker) otherSources(p *field.Path, metric *setpointv1.MetricSpec, named *source) {
	for i := range sources {
		if other := &sources[i]; other != named && other.isSet(metric) {
			c.forbidden(p.Child(other.field), "must populate the given metric source only")
		}
	}
}
