// Package settings is the vocabulary in which workloads say how they are to be scaled, the same
// on every platform: labels of a Swarm service, a block of a Nomad job, an entry of a webhook's
// list. A platform decodes its form to a tree of keys and values, and keeps what is its own, such
// as where bounds are written; names, values, defaults, problems and their words are here.
//
//	tree := settings.Nested(labels, "setpoint.")
//	got, err := settings.Form{Prefix: "setpoint."}.Read(tree)
//	// setpoint.metric.queue.sourc: there is no such key; did you mean source?
//	err = form.Check(sources, got.Metrics) // what the sources say of its queries
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/quantity"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Workload is what a workload may set. The tags value, default and help make the tables of the
// documentation.
type Workload struct {
	Min              *Replicas         `json:"min" value:"replicas" default:"1" help:"Lower bound."`
	Max              *Replicas         `json:"max" value:"replicas" help:"Upper bound. Required unless there is a spec."`
	CPU              *Percent          `json:"cpu" value:"percent" default:"80 if there is no metric at all" help:"Target of the CPU usage of all replicas, percent of what they reserve, or of their limit where they reserve nothing."`
	Memory           *Percent          `json:"memory" value:"percent" help:"The same for memory."`
	Metrics          any               `json:"metrics" value:"blocks or a list" help:"Metrics of type Resource or ContainerResource, as metrics of autoscaling/v2."`
	Metric           map[string]Metric `json:"metric"`
	Behavior         any               `json:"behavior" value:"keys, or a text in YAML or JSON" default:"that of a HorizontalPodAutoscaler without behavior" help:"Windows and policies, as behavior of autoscaling/v2; {} for its defaults. Without it a count may still grow while the metric falls, as with a HorizontalPodAutoscaler."`
	Spec             any               `json:"spec" value:"keys, or a text in YAML or JSON" help:"A whole spec of autoscaling/v2, in place of min, max, cpu, memory, behavior and targets of metrics. Its metrics come from the metric of their name, or of their type and name, such as External:queue."`
	Stages           any               `json:"stages" value:"keys, or a text in YAML or JSON" default:"none" help:"What HPA lacks, such as schedules and fallbacks of metrics: the message Stages of the API, in its JSON."`
	Fleet            Fleet             `json:"fleet" value:"name" default:"none" help:"The fleet that the workload is a member of, clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET: it decides for all members together, by its own stages and behavior, and this workload gets its share, within its own bounds."`
	Period           *Period           `json:"period" value:"duration, 1s to 1h" default:"that of the agent, 15s" help:"Time between two decisions."`
	Shadow           bool              `json:"shadow" value:"true or false" default:"false" help:"Decide and apply nothing."`
	ScaleUpInUpdates bool              `json:"scaleUpInUpdates" value:"true or false" default:"false" help:"Scale up while an update runs, too. The price: a rollback of that update keeps the new image, and its failures are counted anew after each change."`
}

// Metric is a metric of a source: its target, and the query.
type Metric struct {
	Average *Quantity `json:"average" value:"quantity" help:"Target of the metric NAME: its sum for each replica; with podLabel or podPath, the average of the replicas."`
	Value   *Quantity `json:"value" value:"quantity" help:"In place of average: the sum as it is, however many replicas there are."`
	samples.Query
}

// Settings is what was read.
type Settings struct {
	// Spec of the workload, without a target.
	Spec *setpointv1.HorizontalPodAutoscalerSpec
	// Metrics are the spec's metrics that sources answer, with their queries, in its order.
	Metrics []samples.Metric
	// Stages are those around the decisions. Nil: none.
	Stages *setpointv1.Stages
	// Fleet is the name of the fleet that decides. Empty: the workload is decided alone.
	Fleet string
	// Period is the time between two reconciles. 0: that of the agent.
	Period time.Duration
	// Shadow makes the workload a shadow: nothing is applied.
	Shadow bool
	// ScaleUpInUpdates allows higher counts while an update is in progress.
	ScaleUpInUpdates bool
	// Warnings name settings without effect.
	Warnings []string
}

// Form is how a platform writes settings.
type Form struct {
	// Prefix stands before each key.
	Prefix string
	// Least is the lowest value of min.
	Least int32
	// Own are keys that the platform reads by itself.
	Own []string
	// Without are the keys that the platform does not have, each with what to do instead;
	// empty: it is unknown.
	Without map[string]string
	// Measured reports whether the platform itself has the values of a metric without a query;
	// if not, why says so. Nil: of all.
	Measured func(m *setpointv1.MetricSpec) (why string, ok bool)
}

// Bounds: metrics of a workload, because each reconcile reads all of them; the texts of documents,
// and of names of metrics, in bytes.
const (
	maxMetrics  = 100
	maxDocument = 64 << 10
	maxName     = 253
)

// Replicas is a count of replicas from 0.
type Replicas int32

// UnmarshalText reads a whole number.
func (r *Replicas) UnmarshalText(text []byte) error { return (*count)(r).read(text, "replicas", 0) }

// Percent is a percentage from 1, with or without a sign.
type Percent int32

// UnmarshalText reads a whole number, and a % after it.
func (p *Percent) UnmarshalText(text []byte) error {
	return (*count)(p).read([]byte(strings.TrimSuffix(string(text), "%")), "percent", 1)
}

type count int32

func (c *count) read(text []byte, what string, least int64) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < least || text[0] == '+' {
		return fmt.Errorf("must be a whole number of %s from %d to %d, not %q", what, least, math.MaxInt32, typed.Shorten(string(text), 64))
	}
	*c = count(n)
	return nil
}

// Quantity is a quantity above 0.
type Quantity string

// UnmarshalText reads a quantity.
func (q *Quantity) UnmarshalText(text []byte) error {
	parsed, err := quantity.Parse(string(text))
	if err != nil || parsed.Sign() <= 0 {
		return fmt.Errorf("must be a quantity above 0, such as 20, 500m or 1Gi, not %q", typed.Shorten(string(text), 64))
	}
	*q = Quantity(text)
	return nil
}

// Period is the time between two decisions.
type Period time.Duration

// UnmarshalText reads a duration.
func (p *Period) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < pace.MinPeriod || d > pace.MaxPeriod {
		return fmt.Errorf("must be a duration from %s to %s, such as 15s, not %q%s", pace.MinPeriod, pace.MaxPeriod, typed.Shorten(string(text), 64), document.WithUnit(string(text)))
	}
	*p = Period(d)
	return nil
}

// Fleet is the name of a fleet, or empty.
type Fleet string

// UnmarshalText reads the whole name of a fleet.
func (f *Fleet) UnmarshalText(text []byte) error {
	if err := target.CheckFleet(string(text)); err != nil {
		return err
	}
	*f = Fleet(text)
	return nil
}

// reading is one reading of a workload's settings.
type reading struct {
	typed.Problems
	form Form
	set  Workload
	out  Settings
}

// Read reads the settings of a workload. The error is a *typed.Error, its problems in the order of
// their keys.
func (f Form) Read(tree map[string]any) (*Settings, error) {
	r := &reading{form: f}
	r.keys(tree)
	r.stages()
	r.out.Fleet = string(r.set.Fleet)
	if r.set.Fleet != "" && r.set.Stages != nil {
		r.warn("stages has no effect beside " + r.form.Prefix + "fleet: the fleet's own count")
	}
	r.out.Shadow, r.out.ScaleUpInUpdates = r.set.Shadow, r.set.ScaleUpInUpdates
	if r.set.Period != nil {
		r.out.Period = time.Duration(*r.set.Period)
	}
	if len(r.set.Metric) > maxMetrics {
		r.Add("metric", "there are %d metrics; at most %d are allowed", len(r.set.Metric), maxMetrics)
		return nil, f.err(r.Problems)
	}
	if r.set.Spec != nil {
		r.whole()
	} else {
		r.build()
	}
	if err := f.err(r.Problems); err != nil {
		return nil, err
	}
	slices.Sort(r.out.Warnings)
	return &r.out, nil
}

// err returns the problems with the keys as the platform writes them.
func (f Form) err(problems typed.Problems) error {
	slices.SortStableFunc(problems, func(a, b typed.Problem) int { return cmp.Compare(a.Field, b.Field) })
	var out typed.Problems
	out.Under(strings.TrimSuffix(f.Prefix, "."), problems)
	return out.Err()
}

// Keys are the keys that the platform has, in the order of the tables.
func (f Form) Keys() []string {
	names, _ := typed.Names(reflect.TypeFor[Workload]())
	return slices.DeleteFunc(names, func(name string) bool { _, without := f.Without[name]; return without })
}

// keys fills what the workload sets.
func (r *reading) keys(tree map[string]any) {
	known := r.form.Keys()
	offered := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		switch instead := r.form.Without[key]; {
		case slices.Contains(r.form.Own, key):
		case slices.Contains(known, key):
			offered[key] = tree[key]
		case instead != "":
			r.Add(key, "%s", instead)
		default:
			r.Unknown("", key, slices.Concat(r.form.Own, known))
		}
	}
	offered["metric"] = r.named(offered["metric"])
	r.Fill("", offered, &r.set)
}

// metricName matches names of metrics, and TYPE:NAME.
var metricName = regexp.MustCompile(`^[^\s\pC]([^\pC]*[^\s\pC])?$`)

// named returns the metrics by their names. Blocks of HCL with a name each arrive as a list of
// mappings of one key.
func (r *reading) named(from any) any {
	list, ok := from.([]any)
	if !ok {
		list = []any{from}
	}
	out := map[string]any{}
	for _, one := range list {
		metrics, ok := one.(map[string]any)
		if !ok {
			if one != nil {
				r.Add("metric", "must be metrics with their names, such as %smetric.queue.source", r.form.Prefix)
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(metrics)) {
			_, twice := out[name]
			switch {
			case len(name) > maxName || !metricName.MatchString(name):
				r.Add(typed.Within("metric", name), "the name of a metric has at most %d bytes, no control characters, and no blanks at its ends", maxName)
			case twice:
				r.Add(typed.Within("metric", name), "is set twice")
			default:
				out[name] = metrics[name]
			}
		}
	}
	return out
}

// document returns a document, which may be a text; false: it has problems.
func (r *reading) document(key string, from any) (any, bool) {
	text, ok := from.(string)
	if !ok {
		return from, true
	}
	parsed, err := typed.Document(text, maxDocument)
	if err != nil {
		r.Add(key, "%v", err)
		return nil, false
	}
	return parsed, true
}

// stages reads the stages. What their values mean the service says.
func (r *reading) stages() {
	if r.set.Stages == nil {
		return
	}
	var err error
	r.out.Stages, err = StagesOf(r.set.Stages)
	if wrong, ok := errors.AsType[*typed.Error](err); ok {
		r.Under("stages", wrong.Problems)
	}
}

// StagesOf reads stages from a text in YAML or JSON, or from a decoded document. The error is a
// *typed.Error, with paths below the stages.
func StagesOf(from any) (*setpointv1.Stages, error) {
	var p typed.Problems
	if text, ok := from.(string); ok {
		parsed, err := typed.Document(text, maxDocument)
		if err != nil {
			p.Add("", "%v", err)
			return nil, p.Err()
		}
		from = parsed
	}
	out := &setpointv1.Stages{}
	p.FillMessage("", from, out)
	return out, p.Err()
}

// build makes the spec from single settings.
func (r *reading) build() {
	spec := &setpointv1.HorizontalPodAutoscalerSpec{}
	r.out.Spec = spec
	r.bounds(spec)
	for _, usage := range []struct {
		name string
		of   *Percent
	}{{"cpu", r.set.CPU}, {"memory", r.set.Memory}} {
		if usage.of != nil {
			spec.Metrics = append(spec.Metrics, utilization(usage.name, int32(*usage.of)))
		}
	}
	if r.set.Metrics != nil {
		r.usage(spec)
	}
	for _, name := range slices.Sorted(maps.Keys(r.set.Metric)) {
		m := &setpointv1.MetricSpec{}
		r.metric(name, m)
		spec.Metrics = append(spec.Metrics, m)
		r.out.Metrics = append(r.out.Metrics, samples.Metric{Spec: m, Query: r.set.Metric[name].Query})
	}
	if len(spec.Metrics) == 0 {
		spec.Metrics = []*setpointv1.MetricSpec{utilization("cpu", 80)}
	}
	if r.set.Behavior != nil {
		if from, ok := r.document("behavior", r.set.Behavior); ok {
			spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{}
			r.FillMessage("behavior", from, spec.Behavior)
		}
	}
}
