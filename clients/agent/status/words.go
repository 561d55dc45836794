package status

import (
	"regexp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/agent"
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
