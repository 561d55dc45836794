//go:build !js

package lint

import (
	"bytes"
	"cmp"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/document"
)

// place is where an object stands: after so many lines, at a path, with the lines of all in its document.
type place struct {
	before int
	path   string
	lines  document.LineNumbers
}

// lines are the places of autoscalers.
type lines map[*autoscalingv2.HorizontalPodAutoscaler]place

// read notes the places of a file's autoscalers, of which found were read. What can't be read has none.
func (l *lines) read(content []byte, dump *manifest.Dump, found []*autoscalingv2.HorizontalPodAutoscaler) {
	if len(content) > document.MaxLined { // of whole clusters
		return
	}
	parts, err := document.Parts(content)
	if err != nil {
		return
	}
	if *l == nil {
		*l = make(lines)
	}
	known, counted, before := make(map[int]place), 0, 0
	for _, a := range found {
		n, path := dump.Place(a)
		at, read := known[n]
		if !read {
			begin := cap(content) - cap(parts[n]) // a part is a piece of the content; they come in its order
			before, counted = before+bytes.Count(content[counted:begin], []byte("\n")), begin
			at = place{before: before, lines: document.Lines(parts[n])}
			known[n] = at
		}
		if path != "" {
			at.path = path + "."
		}
		(*l)[a] = at
	}
}

// of is the line of a field, or of what holds it; 0: not known.
func (l lines) of(a *autoscalingv2.HorizontalPodAutoscaler, field string) int {
	at := l[a]
	if _, wrapped := at.lines[at.path+"spec"]; !wrapped { // it is the spec itself
		field = strings.TrimPrefix(field, "spec.")
	}
	if line := cmp.Or(at.lines.Of(at.path+field), at.lines[strings.TrimSuffix(at.path, ".")]); line > 0 {
		return at.before + line
	}
	return 0
}
