package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth limits the nesting of maps and lists. A spec has nine levels.
const maxDepth = 64

// errEmpty is the error for data without a document.
var errEmpty = errors.New("is empty")

// parse returns the content of the one document in data, and records what no document may
// have: anchors and aliases, duplicate keys, and excessive nesting.
func (r *reader) parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errEmpty
	case err != nil:
		return nil, syntaxError(err)
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil, errors.New("must contain one document, not several")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err)
	}
	root := document.Content[0]
	r.structure(root, "", maxDepth)
	return root, nil
}

// syntaxError returns the parser's message without its prefix, and replaces the one
// message that quotes the file.
func syntaxError(err error) error {
	if strings.Contains(err.Error(), "anchor") {
		return errors.New(noAliases)
	}
	return errors.New("is neither YAML nor JSON: " + strings.TrimPrefix(err.Error(), "yaml: "))
}

// noAliases is why they are refused: a few bytes of them can expand to gigabytes, and readers
// would have to look in two places.
const noAliases = "YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for"

// structure records structural problems below a node, whatever is expected there.
func (r *reader) structure(node *yaml.Node, path string, depth int) {
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		r.refuse(node.Line, path, noAliases)
		return
	case depth == 0:
		r.refuse(node.Line, "", fmt.Sprintf("is nested deeper than %d levels", maxDepth))
		return
	case node.Kind == yaml.SequenceNode:
		for i, element := range node.Content {
			r.structure(element, fmt.Sprintf("%s[%d]", path, i), depth-1)
		}
		return
	case node.Kind != yaml.MappingNode:
		return
	}
	lines := make(map[string]int, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			r.refuse(key.Line, path, "a key must be a name, is "+describe(key))
			continue
		}
		if key.ShortTag() == mergeTag || key.Anchor != "" {
			r.refuse(key.Line, path, noAliases)
			continue
		}
		inner := within(path, quotable(key.Value))
		if first, twice := lines[key.Value]; twice {
			r.refuse(key.Line, inner, fmt.Sprintf("is a duplicate key, first in line %d", first))
			continue
		}
		lines[key.Value] = key.Line
		r.structure(value, inner, depth-1)
	}
}

// quotable returns a key in a form that a problem may quote: a key that does not look like a
// name may be a secret in the wrong place.
func quotable(key string) string {
	if nameLike.MatchString(key) {
		return key
	}
	return "…"
}

// within returns the path of a key of the map at path.
func within(path, key string) string {
	return strings.TrimPrefix(path+"."+key, ".")
}
