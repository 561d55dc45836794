package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

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
		return nil, syntaxError(data, err)
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil, errors.New("must contain one document, not several")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(data, err)
	}
	root := document.Content[0]
	r.structure(root, "", maxDepth)
	return root, nil
}

// syntaxError returns the parser's message without its prefix and with the faulty line, and
// replaces the one message that quotes the file.
func syntaxError(data []byte, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "anchor") {
		return errors.New(noAliases)
	}
	return errors.New("is neither YAML nor JSON: " + located(data, err))
}

// ErrUTF8 is the error of UTF8, without the line.
var ErrUTF8 = errors.New("is not UTF-8: save the file in that encoding")

// UTF8 refuses text with a line in another encoding, such as Latin-1: of that JSON's decoders replace characters.
func UTF8(data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	line, rest := 0, data
	for valid := true; valid; line++ {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		valid = utf8.Valid(text)
	}
	return fmt.Errorf("line %d: %w", line, ErrUTF8)
}

// located is the parser's message with the faulty line.
func located(data []byte, err error) string {
	if other := UTF8(data); other != nil {
		return other.Error()
	}
	return fmt.Sprintf("line %d: %s", faultyLine(data, err), parsersLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), ""))
}

// parsersLine is the line that the parser tells: often that before the fault, or where the map
// around it begins, and none for the first.
var parsersLine = regexp.MustCompile(`^line [0-9]+: `)

// faultyLine is the last line of the shortest beginning of the document that has the same error.
func faultyLine(data []byte, err error) int {
	ends := []int{}
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	return 1 + sort.Search(len(ends), func(i int) bool {
		decoder := yaml.NewDecoder(bytes.NewReader(data[:ends[i]]))
		for {
			var document yaml.Node
			if found := decoder.Decode(&document); found != nil {
				return found.Error() == err.Error()
			}
		}
	})
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
