package agent

import (
	"cmp"
	"fmt"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/quantity"
)

// Figures say for people why a count is what it is.
type Figures struct {
	// Metrics are the values that were computed, such as "cpu 48% (target 60%)".
	Metrics []string
	// Limits say what else has decided the count: a bound, a policy, a window.
	Limits []string
	// Adjusted says what a stage or an override changed. Empty: nothing.
	Adjusted string
	// Fleet says what share of a fleet the count is. Empty: the object is decided alone.
	Fleet string
}

// FiguresOf are those of an answer and the request that it is to.
func FiguresOf(answer *setpointv1.RecommendResponse, request *setpointv1.RecommendRequest) Figures {
	status, spec := answer.GetStatus(), request.GetSpec()
	return Figures{metricsOf(status, spec), boundsOf(status, spec, decisive(answer) != nil), AdjustedBy(answer), FleetOf(answer, request.GetFleet())}
}

// AdjustedBy says what stages and overrides changed, for people: the override, which has the last
// word, or else the first of them, and how many others there are. Empty: they changed nothing.
func AdjustedBy(answer *setpointv1.RecommendResponse) string {
	one := decisive(answer)
	if one == nil {
		return ""
	}
	text := cmp.Or(one.GetMessage(), strings.TrimSpace(one.GetStage()+" "+one.GetRule()))
	switch others := len(adjusted.Acting(answer.GetAdjustments())) - 1; {
	case others == 1:
		text += " (and 1 other adjustment)"
	case others > 1:
		text += fmt.Sprintf(" (and %d other adjustments)", others)
	}
	return text
}

// decisive is the adjustment to tell first; nil: there is none that acts.
func decisive(answer *setpointv1.RecommendResponse) *setpointv1.Adjustment {
	all := adjusted.Acting(answer.GetAdjustments())
	switch {
	case len(all) == 0:
		return nil
	case all[len(all)-1].GetStage() == "OVERRIDE":
		return all[len(all)-1]
	}
	return all[0]
}

// With is one line of the figures and the reason of a decision.
func (f Figures) With(reason string) string {
	var parts []string
	if len(f.Metrics) > 0 {
		parts = append(parts, strings.Join(f.Metrics, ", "))
	}
	parts = append(parts, f.Limits...)
	if f.Adjusted != "" {
		parts = append(parts, f.Adjusted)
	}
	if f.Fleet != "" {
		parts = append(parts, f.Fleet)
	}
	if reason != "" && reason != f.Adjusted {
		parts = append(parts, reason)
	}
	return Plain(strings.Join(parts, "; "))
}

// Plain rewords what only Kubernetes has.
func Plain(text string) string { return plain.Replace(text) }

// boundsOf says what besides the metrics has decided a count. A bound of the spec that an adjusted count is not at is
// not it.
func boundsOf(s *setpointv1.HorizontalPodAutoscalerStatus, spec *setpointv1.HorizontalPodAutoscalerSpec, adjusted bool) []string {
	var out []string
	bound := func(name string, n int32) {
		switch {
		case spec == nil: // a fleet's, which may not be read
			out = append(out, "at its "+name)
		case !adjusted || s.GetDesiredReplicas() == n:
			out = append(out, fmt.Sprintf("at its %s of %d", name, n))
		}
	}
	for _, c := range s.GetConditions() {
		switch c.GetReason() {
		case "TooManyReplicas":
			bound("maximum", spec.GetMaxReplicas())
		case "TooFewReplicas":
			least := int32(1)
			if spec != nil && spec.MinReplicas != nil {
				least = spec.GetMinReplicas()
			}
			bound("minimum", least)
		case "ScaleUpLimit", "ScaleDownLimit":
			out = append(out, "limited by a policy")
		case "ScaleUpStabilized", "ScaleDownStabilized":
			out = append(out, "held by the stabilization window")
		}
	}
	return out
}

// metricsOf are the values of a status' metrics for people, with their targets.
func metricsOf(s *setpointv1.HorizontalPodAutoscalerStatus, spec *setpointv1.HorizontalPodAutoscalerSpec) []string {
	var out []string
	for i, m := range s.GetCurrentMetrics() {
		name, v := current(m)
		if name == "" || v == nil {
			continue
		}
		text := name + " " + amount(v.AverageUtilization, v.GetAverageValue(), v.GetValue())
		if i < len(spec.GetMetrics()) {
			if of, t := goal(spec.GetMetrics()[i]); of == name && t != nil {
				text += " (target " + amount(t.AverageUtilization, t.GetAverageValue(), t.GetValue()) + ")"
			}
		}
		out = append(out, Shorten(text))
	}
	return out
}

// current is the name and the value of a metric.
func current(m *setpointv1.MetricStatus) (name string, v *setpointv1.MetricValueStatus) {
	switch {
	case m.GetResource() != nil:
		return m.GetResource().GetName(), m.GetResource().GetCurrent()
	case m.GetContainerResource() != nil:
		return m.GetContainerResource().GetName(), m.GetContainerResource().GetCurrent()
	case m.GetPods() != nil:
		return m.GetPods().GetMetric().GetName(), m.GetPods().GetCurrent()
	case m.GetObject() != nil:
		return m.GetObject().GetMetric().GetName(), m.GetObject().GetCurrent()
	case m.GetExternal() != nil:
		return m.GetExternal().GetMetric().GetName(), m.GetExternal().GetCurrent()
	}
	return "", nil
}

// goal is the name and the target of a metric.
func goal(m *setpointv1.MetricSpec) (name string, t *setpointv1.MetricTarget) {
	switch {
	case m.GetResource() != nil:
		return m.GetResource().GetName(), m.GetResource().GetTarget()
	case m.GetContainerResource() != nil:
		return m.GetContainerResource().GetName(), m.GetContainerResource().GetTarget()
	case m.GetPods() != nil:
		return m.GetPods().GetMetric().GetName(), m.GetPods().GetTarget()
	case m.GetObject() != nil:
		return m.GetObject().GetMetric().GetName(), m.GetObject().GetTarget()
	}
	return m.GetExternal().GetMetric().GetName(), m.GetExternal().GetTarget()
}

// amount is a value: a percentage, else an average, else the value itself.
func amount(percent *int32, average, value string) string {
	if percent != nil {
		return fmt.Sprintf("%d%%", *percent)
	}
	if average != "" {
		value = average
	}
	if value == printable.NoAverage {
		return "without replicas to divide it by"
	}
	if q, err := quantity.Parse(value); err == nil && strings.HasSuffix(value, "m") {
		return strings.TrimRight(strings.TrimRight(q.AsDec().String(), "0"), ".") // no float64: 10.527 has none
	}
	return value
}

var plain = strings.NewReplacer("(nil)", "", "container task of Pod ", "task ")
