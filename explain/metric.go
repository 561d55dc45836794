package explain

import (
	"sort"
	"strconv"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// Calculations, in the trace's words.
const (
	utilization            = "Utilization"
	averageValue           = "AverageValue"
	totalValue             = "Value"
	averageValuePerReplica = "AverageValuePerReplica"
)

// Rules of proposals, in the trace's words.
const (
	proportional            = "Proportional"
	saturated               = "Saturated"
	withinTolerance         = "WithinTolerance"
	dampenedWithinTolerance = "DampenedWithinTolerance"
	dampenedReversed        = "DampenedReversed"
	dampenedAgainstCurrent  = "DampenedAgainstCurrent"
)

// metric is one metric of the trace with its name for people.
type metric struct {
	*setpointv1.MetricExplanation
	// label names it briefly: "cpu", "hits of Service web", "queue{tier=a}".
	label     string
	unit      unit
	tolerance tolerance
	habits    habits
	// usage, requests and target are milli-units; the target of a utilization is a percentage.
	// With hasUsage, the sums are those of the first pass. Explanations of live targets have none.
	usage, requests, target int64
	hasUsage                bool
}

// newMetric reads one metric of the trace.
func (c *oneCase) newMetric(index int) *metric {
	e := c.trace.GetMetrics()[index]
	m := &metric{MetricExplanation: e, label: c.label(index), habits: c.habits}
	if e.GetType() == "Resource" || e.GetType() == "ContainerResource" {
		m.unit = unitOf(resourceOf(e.GetName()), c.req.GetSpec().GetScaleTargetRef().GetApiVersion())
	}
	t := e.GetTolerance()
	m.tolerance = tolerance{low: 1 - t.GetScaleDown(), high: 1 + t.GetScaleUp()}
	if c.habits.byDistance {
		m.tolerance.distance = new(t.GetScaleUp())
	}
	m.usage, m.hasUsage = milli(e.GetTotalUsage())
	m.requests, _ = milli(e.GetTotalRequests())
	switch target := e.GetTarget(); e.GetCalculation() {
	case utilization:
		m.target = int64(target.GetAverageUtilization())
	case totalValue:
		m.target, _ = milli(target.GetValue())
	default:
		m.target, _ = milli(target.GetAverageValue())
	}
	return m
}

// label names the metric by the request's spec, else by the answer's status, else
// by the controller's name for it.
func (c *oneCase) label(index int) string {
	e := c.trace.GetMetrics()[index]
	if specs := c.req.GetSpec().GetMetrics(); index < len(specs) && len(specs) <= len(c.trace.GetMetrics()) && !c.habits.reorders { // voters follow
		return specLabel(specs[index], e)
	}
	if s := c.resp.GetStatus().GetCurrentMetrics(); len(s) == len(c.trace.GetMetrics()) && s[index].GetType() != "" {
		return statusLabel(s[index], e)
	}
	return nameLabel(e)
}

func specLabel(s *setpointv1.MetricSpec, e *setpointv1.MetricExplanation) string {
	switch s.GetType() {
	case "ContainerResource":
		return containerLabel(s.GetContainerResource().GetName(), s.GetContainerResource().GetContainer())
	case "Pods":
		return identifierLabel(s.GetPods().GetMetric())
	case "Object":
		return objectLabel(s.GetObject().GetMetric(), s.GetObject().GetDescribedObject())
	case "External":
		return identifierLabel(s.GetExternal().GetMetric())
	}
	return nameLabel(e)
}

func statusLabel(s *setpointv1.MetricStatus, e *setpointv1.MetricExplanation) string {
	switch s.GetType() {
	case "ContainerResource":
		return containerLabel(s.GetContainerResource().GetName(), s.GetContainerResource().GetContainer())
	case "Pods":
		return identifierLabel(s.GetPods().GetMetric())
	case "Object":
		return objectLabel(s.GetObject().GetMetric(), s.GetObject().GetDescribedObject())
	case "External":
		return identifierLabel(s.GetExternal().GetMetric())
	}
	return nameLabel(e)
}

func containerLabel(resource, container string) string {
	return clean(resource) + " of container " + clean(container)
}

func objectLabel(m *setpointv1.MetricIdentifier, object *setpointv1.CrossVersionObjectReference) string {
	return identifierLabel(m) + " of " + clean(object.GetKind()) + " " + clean(object.GetName())
}

func identifierLabel(m *setpointv1.MetricIdentifier) string {
	return clean(m.GetName() + selectorLabel(m.GetSelector()))
}

// selectorLabel prints a selector in kubectl's syntax, in braces; empty if it selects
// everything.
func selectorLabel(s *setpointv1.LabelSelector) string {
	var parts []string
	for key, value := range s.GetMatchLabels() {
		parts = append(parts, key+"="+value)
	}
	sort.Strings(parts)
	for _, r := range s.GetMatchExpressions() {
		values := "(" + strings.Join(r.GetValues(), ",") + ")"
		switch r.GetOperator() {
		case "In":
			parts = append(parts, r.GetKey()+" in "+values)
		case "NotIn":
			parts = append(parts, r.GetKey()+" notin "+values)
		case "DoesNotExist":
			parts = append(parts, "!"+r.GetKey())
		default:
			parts = append(parts, r.GetKey())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// nameLabel shortens the controller's name of a metric.
func nameLabel(e *setpointv1.MetricExplanation) string {
	name := e.GetName()
	switch e.GetType() {
	case "Resource", "ContainerResource":
		return clean(resourceOf(name))
	case "Pods":
		return clean(strings.TrimPrefix(name, "pods metric "))
	}
	if rest, ok := strings.CutPrefix(name, "external metric "); ok {
		rest, _, _ = strings.Cut(rest, "(")
		return clean(rest)
	}
	if kind, rest, ok := strings.Cut(name, " metric "); ok {
		return clean(rest + " of " + kind)
	}
	if name == "" {
		return "a metric of type " + clean(e.GetType())
	}
	return clean(name)
}

// resourceOf returns the resource of "cpu resource utilization (percentage of
// request)" and its like.
func resourceOf(name string) string {
	name = strings.TrimSuffix(name, " utilization (percentage of request)")
	name = strings.TrimSuffix(name, " resource")
	return strings.TrimSuffix(name, " container")
}

// tellApart numbers metrics that would be named alike.
func (c *oneCase) tellApart() {
	seen := make(map[string]int)
	for _, m := range c.metrics {
		seen[m.label]++
	}
	for i, m := range c.metrics {
		if seen[m.label] > 1 {
			m.label += " (metrics[" + strconv.Itoa(i) + "])"
		}
	}
}

func (m *metric) failed() bool   { return m.GetError() != "" }
func (m *metric) dampened() bool { return m.DampenedUsageRatio != nil }

// perPod reports whether the metric is one that each pod has.
func (m *metric) perPod() bool {
	return m.GetCalculation() == utilization || m.GetCalculation() == averageValue
}

// decisive is the ratio that was tested and multiplied.
func (m *metric) decisive() float64 {
	if m.dampened() {
		return m.GetDampenedUsageRatio()
	}
	return m.GetUsageRatio()
}

// reading is "cpu is at 90 % of request, target 60 %".
func (m *metric) reading() string {
	switch m.GetCalculation() {
	case utilization:
		return m.label + " is at " + percent(m.GetCurrent().GetAverageUtilization()) + " of request, target " + percent(int32(m.target))
	case averageValue:
		average, _ := milli(m.GetCurrent().GetAverageValue())
		return m.label + " is at " + m.unit.text(average) + " per pod, target " + m.unit.text(m.target)
	case totalValue:
		return m.label + " is " + m.totalReading() + ", target " + m.unit.text(m.target)
	case averageValuePerReplica:
		if !m.hasUsage {
			return m.label + " is at " + m.averageReading() + " per replica, target " + m.unit.text(m.target)
		}
		return m.label + " is " + m.totalReading() + ", target " + m.unit.text(m.target) + " per replica"
	}
	return m.label
}

func (m *metric) averageReading() string {
	text := m.GetCurrent().GetAverageValue()
	if words := printable.Average(text); words != text {
		return words
	}
	average, _ := milli(text)
	return m.unit.text(average)
}

func (m *metric) totalReading() string {
	switch {
	case !m.capped():
		return "at " + m.unit.text(m.usage)
	case m.GetCalculation() == averageValuePerReplica:
		return "too large for the arithmetic, or negative"
	}
	return "too large for the arithmetic"
}

func percent(n int32) string { return number(n) + nbsp + "%" }
