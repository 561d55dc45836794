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

// causeOf is the cause of a decision's error, without the controller's words before it.
func causeOf(d *agent.Decision) string {
	text := d.Answer.GetError()
	var causes []string
	for _, e := range d.Request.GetMetricErrors() {
		if strings.HasSuffix(text, e.GetMessage()) || len(causes) > 0 {
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
