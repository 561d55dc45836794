package status

import (
	"regexp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// chain matches the words that the controller puts before a cause.
var chain = regexp.MustCompile(`^(?:(?:failed to|unable to|invalid metrics) [^:]*: )+`)

// problemOf is what failed of a decision; empty: nothing did. A fleet's answer has its error only if the call made the
// decision: else its condition tells, and what the member could not read itself is in its request.
func problemOf(d *agent.Decision) string {
	text := d.Answer.GetError()
	if text != "" || d.Answer.GetFleet() == nil {
		return text
	}
	for _, c := range d.Answer.GetStatus().GetConditions() {
		if c.GetType() == "ScalingActive" && c.GetStatus() == "False" && c.GetReason() != "ScalingDisabled" {
			return c.GetMessage()
		}
	}
	if own := d.Request.GetMetricErrors(); len(own) > 0 && !young(d.Request, d.At) {
		return own[0].GetMessage()
	}
	return ""
}

// causeOf is the cause of a decision's problem, without the controller's words before it.
func causeOf(d *agent.Decision, text string) string {
	if text == "" {
		return ""
	}
	var causes []string
	for _, e := range d.Request.GetMetricErrors() {
		if strings.HasSuffix(text, e.GetMessage()) || len(causes) > 0 || d.Answer.GetFleet() != nil {
			what := e.GetMetric() // of a metrics API, all or one
			if kind, name, typed := strings.Cut(what, ":"); typed && !strings.Contains(kind, "/") {
				what = "metric " + name
			}
			causes = append(causes, what+": "+e.GetMessage())
		}
	}
	if len(causes) > 0 {
		return strings.Join(slices.Compact(causes), "; ")
	}
	return chain.ReplaceAllString(text, "")
}

// wrapped breaks a text into indented lines of the width of a terminal.
func wrapped(text string) string {
	const indent, width = "    ", 80
	if text == "" {
		return ""
	}
	return printable.Wrap(text, indent, indent, width)
}
