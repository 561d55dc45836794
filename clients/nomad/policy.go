package nomad

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/document"
)

// Key is the key in a policy block that contains all settings of Setpoint.
const Key = "setpoint"

// autoscalerKey makes a policy one of the Nomad Autoscaler: it acts on enabled policies with
// checks, and refuses those without.
const autoscalerKey = "check"

// keys are the keys under Key.
var keys = []string{"cpu", "memory", "metrics", "metric", "behavior", "period", "shadow"}

// Bounds of the time between two reconciles.
const (
	minPeriod = time.Second
	maxPeriod = time.Hour
)

// Policy is the settings of a task group.
type Policy struct {
	// Spec is the group's, without a target.
	Spec *setpointv1.HorizontalPodAutoscalerSpec
	// Metrics are the spec's metrics from sources, with their queries.
	Metrics []samples.Metric
	// Options are those of requests. Nil: none.
	Options *setpointv1.RecommendOptions
	// Period is the time between two reconciles. 0: that of the agent.
	Period time.Duration
	// Shadow makes the group a shadow: nothing is applied.
	Shadow bool
	// Ignored are the keys of the policy beside Key, such as those of another autoscaler.
	Ignored []string
}

// ParsePolicy parses the policy of a task group. Both results are nil for a group that Setpoint
// does not scale: it has no block under Key, or its scaling block is disabled, as for a stopped
// job. A Hold says why a group of Setpoint's can't be scaled, with all problems.
func ParsePolicy(scaling *api.ScalingPolicy) (*Policy, *agent.Hold) {
	own, ours := scaling.Policy[Key]
	if !ours || own == nil || scaling.Enabled != nil && !*scaling.Enabled {
		return nil, nil
	}
	if _, theirs := scaling.Policy[autoscalerKey]; theirs {
		return nil, &agent.Hold{
			Reason:  agent.ReasonConflictingAutoscaler,
			Message: "the policy has check blocks as well, on which the Nomad Autoscaler acts: remove those, or the block " + Key,
		}
	}
	var (
		p   problems
		out = &Policy{Spec: &setpointv1.HorizontalPodAutoscalerSpec{}}
	)
	for _, key := range slices.Sorted(maps.Keys(scaling.Policy)) {
		if key != Key {
			out.Ignored = append(out.Ignored, key)
		}
	}
	p.bounds(scaling, out.Spec)
	p.own(keysOf(own, &p), out)
	p.scaleToZero(out)
	if len(p) > 0 {
		return nil, &agent.Hold{Reason: agent.ReasonInvalidObject, Message: strings.Join(p, "; ")}
	}
	return out, nil
}

// keysOf returns the keys of the block. A text, as from a heredoc, is parsed as YAML or JSON.
func keysOf(own any, p *problems) map[string]any {
	if text, ok := own.(string); ok {
		own = nil
		data, err := document.JSON([]byte(text), document.MaxBytes)
		if err == nil {
			err = json.Unmarshal(data, &own)
		}
		if err != nil {
			p.add(Key, "as a text, in YAML or JSON: %v", err)
			return nil
		}
	}
	keys, ok := block(own)
	if !ok {
		p.add(Key, "must be one block with keys")
	}
	return keys
}

// bounds reads min and max of the scaling block: Nomad refuses a count outside of them.
func (p *problems) bounds(scaling *api.ScalingPolicy, spec *setpointv1.HorizontalPodAutoscalerSpec) {
	read := func(key string, value *int64) int32 {
		switch {
		case value == nil:
			p.add("scaling."+key, "is missing")
		case *value < 0 || *value > math.MaxInt32:
			p.add("scaling."+key, "must be between 0 and 2^31-1")
		default:
			return int32(*value)
		}
		return 0
	}
	spec.MinReplicas, spec.MaxReplicas = new(read("min", scaling.Min)), read("max", scaling.Max)
}

// own reads the keys under Key.
func (p *problems) own(own map[string]any, out *Policy) {
	for _, name := range slices.Sorted(maps.Keys(own)) {
		key, value := within(Key, name), own[name]
		if value == nil && slices.Contains(keys, name) {
			continue // treat null as absent
		}
		switch name {
		case "cpu", "memory":
			p.utilization(key, name, value, out.Spec)
		case "behavior":
			out.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{}
			p.fill(key, value, out.Spec.Behavior.ProtoReflect())
		case "metrics", "metric": // below, so that metrics stay in this order
		case "period":
			text, _ := value.(string)
			period, err := time.ParseDuration(text)
			if err != nil || period < minPeriod || period > maxPeriod {
				p.add(key, "must be a duration between %s and %s, such as \"15s\"", minPeriod, maxPeriod)
			}
			out.Period = period
		case "shadow":
			shadow, ok := value.(bool)
			if !ok {
				p.add(key, "must be true or false")
			}
			out.Shadow = shadow
		case "min", "max", "minReplicas", "maxReplicas":
			p.add(key, "belongs to the scaling block: set min and max there")
		default:
			p.unknown(key, name, keys)
		}
	}
	if value := own["metrics"]; value != nil {
		p.metrics(within(Key, "metrics"), value, out.Spec)
	}
	if value := own["metric"]; value != nil {
		p.queries(within(Key, "metric"), value, out)
	}
}

// utilization reads the short form of the most common metric.
func (p *problems) utilization(key, resource string, value any, spec *setpointv1.HorizontalPodAutoscalerSpec) {
	percent, ok := whole(value)
	if !ok || percent < 1 {
		p.add(key, "must be a whole number above 0: percent of what the tasks' resources have")
		return
	}
	spec.Metrics = append(spec.Metrics, &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
		Name: resource, Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &percent},
	}})
}

// metrics reads metrics in the form of autoscaling/v2. Metrics that are not in Nomad's
// statistics need a source, which that form has no place for.
func (p *problems) metrics(key string, value any, spec *setpointv1.HorizontalPodAutoscalerSpec) {
	read := &setpointv1.HorizontalPodAutoscalerSpec{}
	p.fillField(key, value, read.ProtoReflect(), read.ProtoReflect().Descriptor().Fields().ByName("metrics"))
	for i, m := range read.GetMetrics() {
		switch name := m.GetResource().GetName() + m.GetContainerResource().GetName(); {
		case m.GetType() != "Resource" && m.GetType() != "ContainerResource":
			p.add(within(key+"["+strconv.Itoa(i)+"]", "type"), "must be Resource or ContainerResource: for a metric of a source write a block metric \"NAME\" {…}")
		case name != "cpu" && name != "memory":
			p.add(key+"["+strconv.Itoa(i)+"]", "there are statistics of cpu and memory only")
		}
	}
	spec.Metrics = append(spec.Metrics, read.GetMetrics()...)
}

// Keys of a metric's block, beside those of its query.
const (
	valueKey   = "value"
	averageKey = "average"
)

// queries reads the metrics from sources.
func (p *problems) queries(key string, value any, out *Policy) {
	named := labelled(key, value, p)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		at := within(key, name)
		fields, ok := block(named[name])
		if !ok {
			p.add(at, "must be one block with keys")
			continue
		}
		target := &setpointv1.MetricTarget{}
		rest := maps.Clone(fields)
		delete(rest, valueKey)
		delete(rest, averageKey)
		switch total, average := fields[valueKey], fields[averageKey]; {
		case (total == nil) == (average == nil):
			p.add(at, "must have exactly one of %s, a target for the sum, and %s, one for each allocation", valueKey, averageKey)
		case total != nil:
			target.Type, target.Value = "Value", p.quantity(within(at, valueKey), total)
		default:
			target.Type, target.AverageValue = "AverageValue", p.quantity(within(at, averageKey), average)
		}
		query, err := samples.ParseQuery(rest)
		if err != nil {
			p.add(at, "%v", err)
			continue
		}
		spec := sourceMetric(name, target, query)
		if spec.GetType() == "Pods" && target.GetType() == "Value" {
			p.add(within(at, valueKey), "must be %s where the values are of allocations", averageKey)
		}
		out.Spec.Metrics = append(out.Spec.Metrics, spec)
		out.Metrics = append(out.Metrics, samples.Metric{Spec: spec, Query: query})
	}
}

// sourceMetric is a Pods metric if its values name allocations, else an External one.
func sourceMetric(name string, target *setpointv1.MetricTarget, query samples.Query) *setpointv1.MetricSpec {
	metric := &setpointv1.MetricIdentifier{Name: name}
	if query.PodLabel != "" || query.PodPath != "" {
		return &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: metric, Target: target}}
	}
	return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: metric, Target: target}}
}

// quantity reads a text such as "1500m", or a number. The service validates quantities.
func (p *problems) quantity(key string, from any) *string {
	field := (&setpointv1.MetricTarget{}).ProtoReflect().Descriptor().Fields().ByName("value")
	value, ok := p.scalar(key, from, field)
	if !ok {
		return nil
	}
	return new(value.String())
}

// scaleToZero allows a min of 0 if a metric has values without allocations.
func (p *problems) scaleToZero(out *Policy) {
	if out.Spec.GetMinReplicas() != 0 {
		return
	}
	if !slices.ContainsFunc(out.Spec.GetMetrics(), func(m *setpointv1.MetricSpec) bool { return m.GetType() == "External" }) {
		p.add("scaling.min", "is 0, or missing with a count of 0, from which only a block metric \"NAME\" {…} without values of allocations leads up again")
		return
	}
	out.Options = &setpointv1.RecommendOptions{ScaleToZero: new(true)}
}
