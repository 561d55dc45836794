package httpjson

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/setpoint-dev/setpoint/internal/typed"
)

// The implementation is client-go's: kubectl's syntax, which users know, maintained by
// Kubernetes, and two packages on top of the standard library, of a module that the agent needs
// anyway.

// maxPathLength bounds a JSONPath.
const maxPathLength = 256

// checkPath returns the problems of a JSONPath. It refuses searches, unions and loops: they
// select a value more than once, and nested unions multiply the selection. Any user who may
// label a service writes paths.
func checkPath(p *typed.Problems, field, path string) {
	switch {
	case path == "":
	case len(path) > maxPathLength:
		p.Add(field, "is longer than %d bytes", maxPathLength)
	case strings.Contains(path, ".."):
		p.Add(field, "must not contain .., which searches the whole document: write the path to the value")
	case strings.Contains(path, ","):
		p.Add(field, "must not contain a comma: write one path to one kind of value")
	default:
		if _, err := parsePath(path); err != nil {
			p.Add(field, "must be a JSONPath such as {.queue.length} or {.pods[*].load}: %s", typed.Shorten(err.Error(), typed.MaxQuoted))
		}
	}
}

// step is one step of a path, such as .length, [0] or [*].
type step struct {
	path *jsonpath.JSONPath
	// many reports whether it may lead to any number of values; otherwise to one.
	many bool
}

// errNoPath describes a valid path.
var errNoPath = errors.New("it must be one path that begins with . or [")

// parsePath parses a JSONPath in kubectl's syntax; the braces are optional.
func parsePath(path string) (steps []step, err error) {
	defer func() {
		if recover() != nil {
			steps, err = nil, errors.New("it can't be read")
		}
	}()
	rest := strings.TrimSpace(path)
	if strings.HasPrefix(rest, "{") && strings.HasSuffix(rest, "}") {
		rest = rest[1 : len(rest)-1]
	}
	if strings.ContainsAny(rest, "{}") || !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "$") && !strings.HasPrefix(rest, "[") {
		return nil, errNoPath
	}
	for rest = strings.TrimLeft(rest, "$@ "); rest != ""; rest = strings.TrimLeft(rest, "$@ ") {
		end := stepEnd(rest)
		if end <= 0 {
			return nil, errNoPath
		}
		one := step{path: jsonpath.New("path").AllowMissingKeys(true), many: isMany(rest[:end])}
		if err := one.path.Parse("{" + rest[:end] + "}"); err != nil {
			return nil, err
		}
		steps, rest = append(steps, one), rest[end:]
	}
	return steps, nil
}

// stepEnd returns the end of the first step of a path, as the library parses it; 0: there is
// none.
func stepEnd(path string) int {
	switch {
	case strings.HasPrefix(path, "[?("):
		var quote byte
		for i := 3; i < len(path); i++ {
			switch c := path[i]; {
			case quote != 0:
				if c == quote && path[i-1] != '\\' {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			case c == ')':
				return i + 1 + strings.IndexByte(path[i+1:], ']') + 1
			}
		}
	case path[0] == '[':
		return strings.IndexByte(path, ']') + 1
	case path[0] == '.':
		for i := 1; i < len(path); i++ {
			switch {
			case path[i] == '\\':
				i++
			case strings.IndexByte(" \t\r\n.,[]$@{}", path[i]) >= 0:
				return i
			}
		}
		return len(path)
	}
	return 0
}

// isMany distinguishes wildcards, filters and slices from names and indexes.
func isMany(step string) bool {
	return step == ".*" || step == "[*]" || strings.HasPrefix(step, "[?(") || step[0] == '[' && !strings.HasPrefix(step, "['") && strings.Contains(step, ":")
}

// find returns the values that a path selects in a document: none where a key is missing or its
// value null. If the path leads to several places, lost counts those without a value: a sum
// must not count them as zeros.
func find(document any, path string) (found []any, lost int, err error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, 0, err
	}
	// The library uses reflection, and its errors quote the document.
	unfit := fmt.Errorf("%s does not fit the answer: a value on the path has another type, or an index is out of range", path)
	defer func() {
		if recover() != nil {
			found, lost, err = nil, 0, unfit
		}
	}()
	found, several := []any{document}, false
	for _, s := range steps {
		var next []any
		for _, from := range found {
			values, missing, err := s.take(from)
			if err != nil {
				return nil, 0, unfit
			}
			next, lost = append(next, values...), lost+missing
		}
		found, several = next, several || s.many
	}
	found = slices.DeleteFunc(found, func(v any) bool { return v == nil })
	if !several {
		lost = 0
	}
	return found, lost, nil
}

// take applies the step to a value.
func (s step) take(from any) (values []any, missing int, err error) {
	results, err := s.path.FindResults(from)
	if err != nil {
		return nil, 0, err
	}
	for _, result := range results {
		for _, v := range result {
			if !v.IsValid() || v.Kind() == reflect.Interface && v.IsNil() {
				missing++
				continue
			}
			values = append(values, v.Interface())
		}
	}
	if len(values) == 0 && missing == 0 && !s.many {
		missing = 1
	}
	return values, missing, nil
}
