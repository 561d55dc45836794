//go:build !js

package lint

import (
	"bytes"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/document"
)

// place is where an object stands: after so many lines, at a path, with the lines of all in it.
type place struct {
	before int
	path   string
	lines  document.LineNumbers
}

// lines are the places of objects, by file, namespace and name.
type lines map[[3]string]place

// read finds the places of a file's autoscalers, of which found were read and loose has those that are no
// manifests. What can't be read has none.
func (l *lines) read(name string, content []byte, found []*autoscalingv2.HorizontalPodAutoscaler, loose map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.TargetSpec) {
	if len(content) > hpa.MaxLined { // of whole clusters
		return
	}
	parts, err := document.Manifests(content)
	if err != nil {
		return
	}
	if *l == nil {
		*l = make(lines)
	}
	var forms []place // of documents without a kind
	for _, part := range parts {
		// A part is a piece of the content.
		at := place{before: bytes.Count(content[:cap(content)-cap(part)], []byte("\n")), lines: document.Lines(part)}
		_ = document.Read("", part, func(root document.Value) {
			if l.object(name, "", root, at) == "" && len(at.lines) > 0 {
				forms = append(forms, at)
			}
		})
	}
	found = slices.DeleteFunc(slices.Clone(found), func(a *autoscalingv2.HorizontalPodAutoscaler) bool { return loose[a] == nil })
	if len(forms) != len(found) {
		return
	}
	for i, a := range found { // both are in the file's order
		l.form([3]string{name, a.Namespace, a.Name}, forms[i])
	}
}

// form notes an autoscaler that is not a manifest.
func (l lines) form(of [3]string, at place) {
	if _, manifest := l[of]; manifest {
		return
	}
	if _, wrapped := at.lines["spec"]; !wrapped {
		at.lines.Under("spec")
	}
	l[of] = at
}

// object notes an autoscaler, of this kind if it says none, or those of a list, and returns the kind of what it is.
func (l *lines) object(file, kind string, v document.Value, at place) string {
	var object string
	var items []document.Value
	namespace := "default"
	v.Entries(func(key string, _, value document.Value) {
		switch key {
		case "kind":
			kind, _ = value.Raw()
		case "metadata":
			value.Entries(func(key string, _, value document.Value) {
				switch key {
				case "name":
					object, _ = value.Raw()
				case "namespace":
					namespace, _ = value.Raw()
				}
			})
		case "items":
			value.ListOrNone(func(_ int, item document.Value) { items = append(items, item) })
		}
	})
	for _, item := range items {
		inner := at
		inner.path = item.Path() + "."
		l.object(file, strings.TrimSuffix(kind, "List"), item, inner)
	}
	if (kind == "HorizontalPodAutoscaler" || kind == "Autoscaler") && object != "" {
		(*l)[[3]string{file, namespace, object}] = at
	}
	return kind
}

// of is the line of a field, or of what holds it; 0: not known.
func (l lines) of(file, namespace, object, field string) int {
	at := l[[3]string{file, namespace, object}]
	if line := at.lines.Of(at.path + field); line > 0 {
		return at.before + line
	}
	return 0
}
