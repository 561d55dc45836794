package agentcmd

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/quantity"
)

// chain matches the words that the controller puts before a cause.
var chain = regexp.MustCompile(`^(?:(?:failed to|unable to|invalid metrics) [^:]*: )+`)

// causeOf is the cause of a decision's error, without the controller's words before it.
func causeOf(d *agent.Decision) string {
	text := d.Answer.GetError()
	var causes []string
	for _, e := range d.Request.GetMetricErrors() {
		if strings.HasSuffix(text, e.GetMessage()) || len(causes) > 0 {
			_, name, _ := strings.Cut(e.GetMetric(), ":")
			causes = append(causes, "metric "+name+": "+e.GetMessage())
		}
	}
	if len(causes) > 0 {
		return strings.Join(slices.Compact(causes), "; ")
	}
	return chain.ReplaceAllString(text, "")
}

// limitsOf says what besides the metrics has decided a count.
func limitsOf(s *setpointv1.HorizontalPodAutoscalerStatus, spec *setpointv1.HorizontalPodAutoscalerSpec) []string {
	var out []string
	for _, c := range s.GetConditions() {
		switch c.GetReason() {
		case "TooManyReplicas":
			out = append(out, fmt.Sprintf("at its maximum of %d", spec.GetMaxReplicas()))
		case "TooFewReplicas":
			least := int32(1)
			if spec.MinReplicas != nil {
				least = spec.GetMinReplicas()
			}
			out = append(out, fmt.Sprintf("at its minimum of %d", least))
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
		name, v := reading(m)
		if name == "" {
			continue
		}
		text := name + " " + valueText(v.AverageUtilization, v.GetAverageValue(), v.GetValue())
		if i < len(spec.GetMetrics()) {
			if of, t := goal(spec.GetMetrics()[i]); of == name {
				text += " (target " + valueText(t.AverageUtilization, t.GetAverageValue(), t.GetValue()) + ")"
			}
		}
		out = append(out, cut(text))
	}
	return out
}

func reading(m *setpointv1.MetricStatus) (name string, v *setpointv1.MetricValueStatus) {
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

// overNone is the average over no replicas, as Kubernetes' controller has it: the largest number.
var overNone = strconv.FormatInt(math.MaxInt64, 10) + "m"

// valueText is a value: a percentage, else an average, else the value itself.
func valueText(percent *int32, average, value string) string {
	if percent != nil {
		return fmt.Sprintf("%d%%", *percent)
	}
	if average != "" {
		value = average
	}
	if value == overNone {
		return "without replicas to divide it by"
	}
	if q, err := quantity.Parse(value); err == nil && strings.HasSuffix(value, "m") {
		return strconv.FormatFloat(q.AsApproximateFloat64(), 'g', -1, 64)
	}
	return value
}

// plain rewords what only Kubernetes has.
var plain = strings.NewReplacer("(nil)", "", "container task of Pod ", "task ")

// width is that of a terminal.
const width = 80

// wrapped breaks a text into indented lines of the width of a terminal, where words allow it.
func wrapped(text string) string {
	const indent = "    "
	var out strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) && len([]rune(line))+1+len([]rune(word)) > width {
			out.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	if len(line) > len(indent) {
		out.WriteString(line + "\n")
	}
	return out.String()
}
