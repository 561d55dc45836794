//go:build !js

package lint

import (
	"bytes"
	"maps"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/document"
)

// place is where an object stands: after so many lines, at a path, with the lines of all in it.
type place struct {
	before int
	path   string
	lines  map[string]int
}

// lines are the places of objects, by file, namespace and name.
type lines map[[3]string]place

// read finds the places of a file's autoscalers, of which found were read. What can't be read
// has none.
func (l *lines) read(name string, content []byte, found []*autoscalingv2.HorizontalPodAutoscaler) {
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
	for _, part := range parts {
		// A part is a piece of the content.
		at := place{before: bytes.Count(content[:cap(content)-cap(part)], []byte("\n")), lines: document.Lines(part)}
		_ = document.Read("", part, func(root document.Value) { l.object(name, root, at) })
	}
	if len(parts) == 1 && len(found) == 1 {
		l.form([3]string{name, found[0].Namespace, found[0].Name}, document.Lines(parts[0]))
	}
}

// form notes the one autoscaler of a file that is not a manifest.
func (l lines) form(of [3]string, at map[string]int) {
	if _, manifest := l[of]; manifest {
		return
	}
	if _, wrapped := at["spec"]; !wrapped {
		for path, line := range maps.Clone(at) {
			at["spec."+path] = line
		}
	}
	l[of] = place{lines: at}
}

// object notes an autoscaler, or those of a list.
func (l *lines) object(file string, v document.Value, at place) {
	var kind, object string
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
			value.ListOrNone(func(_ int, item document.Value) {
				inner := at
				inner.path = item.Path() + "."
				l.object(file, item, inner)
			})
		}
	})
	if (kind == "HorizontalPodAutoscaler" || kind == "Autoscaler") && object != "" {
		(*l)[[3]string{file, namespace, object}] = at
	}
}

// of is the line of a field, or of what holds it; 0: not known.
func (l lines) of(file, namespace, object, field string) int {
	at, known := l[[3]string{file, namespace, object}]
	if !known {
		return 0
	}
	for path := at.path + field; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if line, there := at.lines[path]; there {
			return at.before + line
		}
	}
	return 0
}
