//go:build !js

package lint

import (
	"bytes"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// place is where an object stands: after so many lines, at a path, with the lines of all in it.
type place struct {
	before int
	path   string
	lines  document.LineNumbers
}

// lines are the places of autoscalers.
type lines map[*autoscalingv2.HorizontalPodAutoscaler]place

// manifests are the places of a file's manifests in their order, by kind, namespace and name.
type manifests map[[3]string][]place

// read finds the places of a file's autoscalers, of which found were read; kind is empty for those that are no
// manifests. What can't be read has none.
func (l *lines) read(content []byte, found []*autoscalingv2.HorizontalPodAutoscaler, kind func(*autoscalingv2.HorizontalPodAutoscaler) string) {
	if len(content) > document.MaxLined { // of whole clusters
		return
	}
	parts, err := document.Manifests(content)
	if err != nil {
		return
	}
	if *l == nil {
		*l = make(lines)
	}
	named := make(manifests)
	var forms []place // of documents without a kind
	for _, part := range parts {
		// A part is a piece of the content.
		at := place{before: bytes.Count(content[:cap(content)-cap(part)], []byte("\n")), lines: document.Lines(part)}
		_ = document.Read("", part, func(root document.Value) {
			if named.object("", root, at) == "" && len(at.lines) > 0 {
				forms = append(forms, at)
			}
		})
	}
	var loose []*autoscalingv2.HorizontalPodAutoscaler
	for _, a := range found { // in the file's order
		of := [3]string{kind(a), a.Namespace, a.Name}
		if of[0] == "" {
			loose = append(loose, a)
		} else if all := named[of]; len(all) > 0 {
			(*l)[a], named[of] = all[0], all[1:]
		}
	}
	if len(forms) != len(loose) {
		return
	}
	for i, a := range loose {
		if _, wrapped := forms[i].lines["spec"]; !wrapped {
			forms[i].lines.Under("spec")
		}
		(*l)[a] = forms[i]
	}
}

// object notes an autoscaler, of this kind if it says none, or those of a list, and returns the kind of what it is.
func (m manifests) object(kind string, v document.Value, at place) string {
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
		m.object(strings.TrimSuffix(kind, "List"), item, inner)
	}
	if (kind == "HorizontalPodAutoscaler" || kind == "Autoscaler") && object != "" {
		of := [3]string{kind, namespace, object}
		m[of] = append(m[of], at)
	}
	return kind
}

// of is the line of a field, or of what holds it; 0: not known.
func (l lines) of(a *autoscalingv2.HorizontalPodAutoscaler, field string) int {
	at := l[a]
	if line := at.lines.Of(at.path + field); line > 0 {
		return at.before + line
	}
	return 0
}
