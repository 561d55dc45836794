package samples

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// The paths are client-go's: kubectl's form, which people know, kept by Kubernetes, and two
// packages on top of the standard library, of a module that go.mod has for the agent.

// maxPathLength bounds a JSONPath.
const maxPathLength = 256

// checkPath returns what is wrong with a JSONPath. Searches, unions and loops are left out:
// they select a value more than once, and a union in a union doubles what is selected each
// time. Anybody who may label a service writes paths.
func (p *problems) checkPath(field, path string) {
	switch {
	case path == "":
	case len(path) > maxPathLength:
		p.add(field, "is longer than %d bytes", maxPathLength)
	case strings.Contains(path, ".."):
		p.add(field, "must not hold .., which searches the whole document: write the way to the value")
	case strings.Contains(path, ","):
		p.add(field, "must not hold a comma: write one path to one kind of value")
	default:
		if _, err := parsePath(path); err != nil {
			p.add(field, "is no JSONPath such as {.queue.length} or {.pods[*].load}: %s", shorten(err.Error(), maxQuoted))
		}
	}
}

// parsePath reads a JSONPath as kubectl has it; the braces may be left out.
func parsePath(path string) (parsed *jsonpath.JSONPath, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it can't be read")
		}
	}()
	inner := strings.TrimSpace(path)
	if strings.HasPrefix(inner, "{") && strings.HasSuffix(inner, "}") {
		inner = inner[1 : len(inner)-1]
	}
	if strings.ContainsAny(inner, "{}") || !strings.HasPrefix(inner, ".") && !strings.HasPrefix(inner, "$") && !strings.HasPrefix(inner, "[") {
		return nil, errors.New("it must be one path that begins with . or [")
	}
	parsed = jsonpath.New("path").AllowMissingKeys(true)
	if err := parsed.Parse("{" + inner + "}"); err != nil {
		return nil, err
	}
	return parsed, nil
}

// find returns what a path selects in a document: nothing where a key is missing, or its
// value null. A parsed path keeps state, so each use has its own.
func find(document any, path string) (found []any, err error) {
	parsed, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	// The library walks by reflection, and its errors quote the document.
	unfit := fmt.Errorf("%s does not fit the answer: what it leads through is of another type, or an index out of range", path)
	defer func() {
		if recover() != nil {
			found, err = nil, unfit
		}
	}()
	results, err := parsed.FindResults(document)
	if err != nil {
		return nil, unfit
	}
	for _, result := range results {
		for _, v := range result {
			if !v.IsValid() || v.Kind() == reflect.Interface && v.IsNil() {
				continue
			}
			found = append(found, v.Interface())
		}
	}
	return found, nil
}
