package swarm

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/quantity"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Kind is the kind of all objects. Swarm has no groups of kinds; the service requires one.
const (
	Kind       = "Service"
	apiVersion = "docker.com/v1"
)

// Labels of a service.
const (
	prefix       = "setpoint."
	EnableLabel  = prefix + "enable"
	minLabel     = prefix + "min"
	maxLabel     = prefix + "max"
	cpuLabel     = prefix + "cpu"
	memoryLabel  = prefix + "memory"
	metricPrefix = prefix + "metric."
	behavior     = prefix + "behavior"
	specLabel    = prefix + "spec"
	periodLabel  = prefix + "period"
	shadowLabel  = prefix + "shadow"
	updatesLabel = prefix + "scaleUpInUpdates"
)

// Keys of setpoint.metric.NAME that are not part of a query.
const (
	targetKey      = "target"
	targetValueKey = "targetValue"
)

// Label is a label that a service may have.
type Label struct {
	// Name, with NAME and KEY for what the user chooses.
	Name string
	// Value describes the values.
	Value string
	// Default applies without the label; empty: there is none.
	Default string
	// Meaning is a sentence.
	Meaning string
}

// Labels returns all labels that a service may have.
func Labels() []Label {
	return []Label{
		{EnableLabel, "`true` or `false`", "`false`", "Opts the service in. Without it nothing else counts."},
		{minLabel, "replicas, from 1", "`1`", "Lower bound."},
		{maxLabel, "replicas, from 1", "", "Upper bound. Required unless there is `setpoint.spec`."},
		{cpuLabel, "percent", "`80` if there is no metric at all", "Target of the cpu usage of all tasks, percent of their reservation, or of their limit where there is none."},
		{memoryLabel, "percent", "", "The same for memory."},
		{metricPrefix + "NAME." + targetKey, "quantity", "", "Target of the metric NAME: its sum for each replica; with `podLabel` or `podPath`, the average of the tasks."},
		{metricPrefix + "NAME." + targetValueKey, "quantity", "", "In place of `target`: the sum as it is, however many replicas there are."},
		{metricPrefix + "NAME.KEY", "text", "", "Where the metric comes from: `source`, the name of a source of the agent, and what is asked there, such as `query` for a Prometheus. NAME has lower-case letters, digits, `-` and `_`."},
		{behavior, "YAML or JSON", "that of the HorizontalPodAutoscaler", "Windows and policies, as `behavior` of `autoscaling/v2`."},
		{specLabel, "YAML or JSON", "", "A whole spec of `autoscaling/v2`. It wins over `min`, `max`, `cpu`, `memory`, `behavior` and targets; its other metrics come from `setpoint.metric.NAME.KEY`."},
		{periodLabel, "duration, `1s` to `1h`", "that of the agent, `15s`", "Time between two decisions."},
		{shadowLabel, "`true` or `false`", "`false`", "Decide and apply nothing."},
		{updatesLabel, "`true` or `false`", "`false`", "Scale up while an update runs, too. The price: a rollback of that update keeps the new image, and its failures are counted anew after each change."},
	}
}

// Wants is the settings in a service's labels.
type Wants struct {
	// Spec is the spec of its replicas. Its target is the service.
	Spec *setpointv1.HorizontalPodAutoscalerSpec
	// Queries of its metrics except those of type Resource, by name.
	Queries map[string]samples.Query
	// Period is the time between two reconciles, 0: that of the agent.
	Period time.Duration
	// Shadow makes the service a shadow: nothing is applied.
	Shadow bool
	// UpInUpdates allows higher counts while an update is in progress.
	UpInUpdates bool
	// Warnings name labels without effect.
	Warnings []string
}

// Enabled reports whether a service with these labels has opted in. An invalid value counts as
// opting in, so that it is reported.
func Enabled(labels map[string]string) bool {
	value, there := labels[EnableLabel]
	return there && value != "false"
}

// ParseLabels parses the settings of the service of that name. The error is a *LabelError.
func ParseLabels(service string, labels map[string]string) (*Wants, error) {
	p := &parser{labels: labels, wants: &Wants{Queries: map[string]samples.Query{}}, metrics: map[string]map[string]any{}}
	p.sort()
	p.bool(EnableLabel)
	p.wants.Shadow = p.bool(shadowLabel)
	p.wants.UpInUpdates = p.bool(updatesLabel)
	p.wants.Period = p.period()
	p.queries()
	if _, there := labels[specLabel]; there {
		p.whole()
	} else {
		p.build()
	}
	if p.wants.Spec != nil {
		p.wants.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{ApiVersion: apiVersion, Kind: Kind, Name: service}
		p.reconcile()
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return p.wants, nil
}

// maxMetrics bounds the metrics of a service, because each reconcile reads all of them.
const maxMetrics = 100

// parser reads the labels of one service.
type parser struct {
	problems
	labels map[string]string
	wants  *Wants
	// metrics are the values of setpoint.metric.NAME.KEY by name and key.
	metrics map[string]map[string]any
}

func (p *parser) err() error {
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return cmp.Compare(a.Label, b.Label) })
	return p.problems.err()
}

// known are the labels without parts that users choose.
var known = []string{EnableLabel, minLabel, maxLabel, cpuLabel, memoryLabel, behavior, specLabel, periodLabel, shadowLabel, updatesLabel}

// metricName matches names of metrics, which are parts of labels.
var metricName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$`)

// maxValue bounds a label's value, bytes: a spec is a few thousand at most.
const maxValue = 64 << 10

// sort finds the labels of metrics, and unknown ones.
func (p *parser) sort() {
	for _, label := range slices.Sorted(maps.Keys(p.labels)) {
		if !strings.HasPrefix(label, prefix) {
			if len(label) > len(prefix) && strings.EqualFold(label[:len(prefix)], prefix) {
				p.add(label, "begins with %s in another case: write it in lower case", prefix)
			}
			continue
		}
		if len(p.labels[label]) > maxValue {
			p.add(label, "is longer than %d bytes", maxValue)
		}
		rest, ofMetric := strings.CutPrefix(label, metricPrefix)
		if !ofMetric {
			p.unknown(label)
			continue
		}
		name, key, ok := strings.Cut(rest, ".")
		switch {
		case !ok || key == "":
			p.add(label, "must be %sNAME.KEY, such as %s%s.source", metricPrefix, metricPrefix, cmp.Or(name, "queue"))
		case !metricName.MatchString(name):
			p.add(label, "the name of a metric has lower-case letters, digits, - and _, at most 63; a - or _ is between others")
		default:
			if p.metrics[name] == nil {
				p.metrics[name] = map[string]any{}
			}
			p.metrics[name][key] = p.labels[label]
		}
	}
}

func (p *parser) unknown(label string) {
	if slices.Contains(known, label) {
		return
	}
	hint := "the labels are " + strings.Join(known, ", ") + " and " + metricPrefix + "NAME.KEY"
	if close, ok := spelling.Closest(label, known); ok {
		hint = "did you mean " + close + "?"
	}
	p.add(label, "there is no such label; %s", hint)
}

func (p *parser) bool(label string) bool {
	switch value, there := p.labels[label]; {
	case !there, value == "false":
		return false
	case value != "true":
		p.add(label, "must be true or false, not %s", quote(value))
	}
	return true
}

func (p *parser) period() time.Duration {
	value, there := p.labels[periodLabel]
	if !there {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < pace.MinPeriod || d > pace.MaxPeriod {
		p.add(periodLabel, "must be a duration from %s to %s, such as 15s, not %s", pace.MinPeriod, pace.MaxPeriod, quote(value))
	}
	return d
}

// number parses a whole number from 1; 0 if it is absent or invalid.
func (p *parser) number(label, what string) int32 {
	value, there := p.labels[label]
	if !there {
		return 0
	}
	text := value
	if what == percent {
		text = strings.TrimSuffix(text, "%")
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || text[0] == '+' {
		p.add(label, "must be a whole number of %s from 1 to %d, not %s", what, math.MaxInt32, quote(value))
		return 0
	}
	return int32(n)
}

// The units of numbers.
const (
	replicas = "replicas"
	percent  = "percent"
)

// queries parses the queries of metrics, but does not check their sources.
func (p *parser) queries() {
	if len(p.metrics) > maxMetrics {
		p.add(metricPrefix+"…", "there are %d metrics; at most %d are allowed", len(p.metrics), maxMetrics)
		clear(p.metrics)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.metrics)) {
		fields := maps.Clone(p.metrics[name])
		delete(fields, targetKey)
		delete(fields, targetValueKey)
		query, err := samples.ParseQuery(fields)
		p.addQuery(name, err)
		if _, there := fields["source"]; !there {
			p.add(metricPrefix+name+".source", "is required: the name of a source in the agent's --sources-file")
		}
		p.wants.Queries[name] = query
	}
}

// addQuery adds the problems of a metric's query.
func (p *problems) addQuery(name string, err error) {
	var wrong *samples.ConfigError
	switch {
	case errors.As(err, &wrong):
		for _, one := range wrong.Problems {
			label := metricPrefix + name
			if one.Field != "" {
				label += "." + one.Field
			}
			p.add(label, "%s", one.Message)
		}
	case err != nil:
		p.add(metricPrefix+name, "%v", err)
	}
}

// build makes the spec from the single labels.
func (p *parser) build() {
	spec := &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(1)), MaxReplicas: p.number(maxLabel, replicas)}
	if _, there := p.labels[maxLabel]; !there {
		p.add(maxLabel, "is required: the maximum number of replicas")
	}
	if least := p.number(minLabel, replicas); least > 0 {
		spec.MinReplicas = &least
		if spec.MaxReplicas > 0 && least > spec.MaxReplicas {
			p.add(minLabel, "%d is above %s, which is %d", least, maxLabel, spec.MaxReplicas)
		}
	}
	for _, usage := range []struct{ label, name string }{{cpuLabel, "cpu"}, {memoryLabel, "memory"}} {
		if n := p.number(usage.label, percent); n > 0 {
			spec.Metrics = append(spec.Metrics, utilization(usage.name, n))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.metrics)) {
		spec.Metrics = append(spec.Metrics, p.metric(name))
	}
	if len(spec.Metrics) == 0 {
		spec.Metrics = []*setpointv1.MetricSpec{utilization("cpu", 80)}
	}
	if text, there := p.labels[behavior]; there {
		spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{}
		p.document(behavior, text, spec.Behavior)
	}
	p.wants.Spec = spec
}

func utilization(name string, percent int32) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: resourceType, Resource: &setpointv1.ResourceMetricSource{
		Name: name, Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &percent},
	}}
}

// Types of metrics, as autoscaling/v2 spells them.
const (
	resourceType          = "Resource"
	containerResourceType = "ContainerResource"
	podsType              = "Pods"
	objectType            = "Object"
	externalType          = "External"
)

// metric makes the metric of setpoint.metric.NAME.
func (p *parser) metric(name string) *setpointv1.MetricSpec {
	label := metricPrefix + name + "."
	average, averages := p.metrics[name][targetKey].(string)
	value, values := p.metrics[name][targetValueKey].(string)
	ofTasks := p.metrics[name]["podLabel"] != nil || p.metrics[name]["podPath"] != nil
	target := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: &average}
	switch {
	case averages && values:
		p.add(label+targetValueKey, "can't be set beside %s: one is for each replica, the other for all", targetKey)
	case values && ofTasks:
		p.add(label+targetValueKey, "has no meaning for values of tasks: use %s, their average", targetKey)
	case values:
		p.quantity(label+targetValueKey, value)
		target = &setpointv1.MetricTarget{Type: "Value", Value: &value}
	case averages:
		p.quantity(label+targetKey, average)
	default:
		p.add(label+targetKey, "is required: the value of the metric per replica to aim for")
	}
	id := &setpointv1.MetricIdentifier{Name: name}
	if ofTasks {
		return &setpointv1.MetricSpec{Type: podsType, Pods: &setpointv1.PodsMetricSource{Metric: id, Target: target}}
	}
	return &setpointv1.MetricSpec{Type: externalType, External: &setpointv1.ExternalMetricSource{Metric: id, Target: target}}
}

// quantity checks a quantity.
func (p *parser) quantity(label, text string) {
	if !positive(text) {
		p.add(label, "must be a quantity above 0, such as 20, 500m or 1Gi, not %s", quote(text))
	}
}

// positive reports whether a text is a quantity above 0.
func positive(text string) bool {
	q, err := quantity.Parse(text)
	return err == nil && q.Sign() > 0
}

// whole reads the spec of setpoint.spec.
func (p *parser) whole() {
	spec := &setpointv1.HorizontalPodAutoscalerSpec{}
	if !p.document(specLabel, p.labels[specLabel], spec) {
		return
	}
	p.wants.Spec = spec
	if spec.ScaleTargetRef != nil {
		p.warn("%s: scaleTargetRef has no effect: the service itself is scaled", specLabel)
	}
	for _, label := range []string{minLabel, maxLabel, cpuLabel, memoryLabel, behavior} {
		if _, there := p.labels[label]; there {
			p.warn("%s has no effect beside %s", label, specLabel)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.metrics)) {
		for _, key := range []string{targetKey, targetValueKey} {
			if p.metrics[name][key] != nil {
				p.warn("%s%s.%s has no effect beside %s", metricPrefix, name, key, specLabel)
			}
		}
	}
}

// reconcile checks that each metric of the spec has a query, and each query a metric.
func (p *parser) reconcile() {
	asked := map[string]bool{}
	for i, m := range p.wants.Spec.GetMetrics() {
		name, ofUsage := nameOf(m)
		switch {
		case m.GetType() == containerResourceType:
			p.add(specLabel, "metrics[%d]: a task has one container: use the type %s", i, resourceType)
		case ofUsage && name != "cpu" && name != "memory":
			p.add(specLabel, "metrics[%d]: usage of %s is not available, only of cpu and memory", i, quote(name))
		case ofUsage, name == "": // the service reports a missing name
		case p.metrics[name] == nil:
			p.add(specLabel, "metrics[%d]: %s has no source: set the label %s%s.source", i, quote(name), metricPrefix, name)
		default:
			asked[name] = true
		}
	}
	for name := range p.metrics {
		if !asked[name] {
			p.warn("%s%s has no effect: %s has no such metric", metricPrefix, name, specLabel)
		}
	}
}

func (p *parser) warn(format string, args ...any) {
	var one problems
	one.add("", format, args...)
	p.wants.Warnings = append(p.wants.Warnings, one[0].Message)
	slices.Sort(p.wants.Warnings)
}

// nameOf returns the name of a metric, and whether it is resource usage.
func nameOf(m *setpointv1.MetricSpec) (name string, ofUsage bool) {
	switch m.GetType() {
	case resourceType:
		return m.GetResource().GetName(), true
	case podsType:
		return m.GetPods().GetMetric().GetName(), false
	case objectType:
		return m.GetObject().GetMetric().GetName(), false
	case externalType:
		return m.GetExternal().GetMetric().GetName(), false
	}
	return "", false
}
