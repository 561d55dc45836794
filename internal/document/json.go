package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// MaxBytes limits a document that people write, in bytes.
const MaxBytes = 1 << 20

// JSON returns the one YAML or JSON document in data as JSON, for callers with their own
// schema; null for one without content. It refuses a document of more than most bytes, and
// whatever Read refuses in every document. Values have the meaning they have in kubectl: yes
// is true. The error is one line with all problems, as in
//
//	line 7: spec.metrics: is a duplicate key, first in line 3; line 9: …
func JSON(data []byte, most int) ([]byte, error) {
	if len(data) > most {
		return nil, fmt.Errorf("is longer than %d bytes", most)
	}
	r := &reader{}
	switch _, err := r.parse(data); {
	case errors.Is(err, errEmpty):
		return []byte("null"), nil
	case err != nil:
		return nil, err
	case len(r.problems) > 0:
		return nil, errors.New(strings.ReplaceAll(r.err().Error(), "\n", "; "))
	}
	return Manifest(data)
}

// Manifest returns a YAML document as JSON, as kubectl reads it: it may have aliases, as many
// as the parser accepts, and any length. Duplicate keys are refused, but not keys that override
// those of a merge (<<), in a document of at most MaxBytes.
func Manifest(data []byte) ([]byte, error) {
	converted, err := yaml.YAMLToJSONStrict(data)
	var document yamlv3.Node
	if err != nil && len(data) <= MaxBytes && yamlv3.Unmarshal(data, &document) == nil && writtenOnce(&document) {
		converted, err = yaml.YAMLToJSON(data)
	}
	if err != nil {
		return nil, errors.New(message(data, err))
	}
	return converted, nil
}

// ManifestIn is Manifest of a part of a file that Manifests returned; errors have the file's lines.
func ManifestIn(file, part []byte) ([]byte, error) {
	converted, err := Manifest(part)
	if err == nil {
		return converted, nil
	}
	before := bytes.Count(file[:cap(file)-cap(part)], []byte("\n")) // a part is a piece of the file
	return Manifest(append(bytes.Repeat([]byte("\n"), before), part...))
}

// writtenOnce reports whether no key is written twice in one map.
func writtenOnce(node *yamlv3.Node) bool {
	keys := make(map[string]bool, len(node.Content)/2)
	for i, inner := range node.Content {
		if key := node.Kind == yamlv3.MappingNode && i%2 == 0; key && keys[inner.Value] || !writtenOnce(inner) {
			return false
		} else if key {
			keys[inner.Value] = true
		}
	}
	return true
}

// Manifests splits a file at the lines that begin with ---, as kubectl does.
func Manifests(data []byte) ([][]byte, error) {
	var parts [][]byte
	begin, line := 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		if rest, separates := bytes.CutPrefix(data[at:end], []byte("---")); separates {
			if rest = bytes.TrimSpace(rest); len(rest) > 0 && rest[0] != '#' {
				return nil, fmt.Errorf("line %d: after --- there must be a new line, or a comment", line+1)
			}
			if at > begin {
				parts = append(parts, data[begin:at])
			}
			begin = end
		}
		at = end
	}
	if begin < len(data) {
		parts = append(parts, data[begin:])
	}
	return parts, nil
}

// Parts splits a file into its documents, pieces of it: values of JSON one after another, or else as Manifests does.
func Parts(data []byte) ([][]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		var parts [][]byte
		decoder, at := json.NewDecoder(bytes.NewReader(data)), 0
		for {
			switch err := decoder.Decode(new(json.RawMessage)); {
			case errors.Is(err, io.EOF):
				return parts, nil
			case err != nil:
				return Manifests(data) // YAML may begin so
			}
			end := int(decoder.InputOffset())
			parts, at = append(parts, data[at:end]), end
		}
	}
	return Manifests(data)
}

// message is the parser's message without its prefix, and with the faulty line of what people write.
func message(data []byte, err error) string {
	if len(data) <= MaxBytes {
		var document yamlv3.Node
		if found := yamlv3.NewDecoder(bytes.NewReader(data)).Decode(&document); found != nil && !errors.Is(found, io.EOF) {
			return located(data, found)
		}
		if unsupported := (*json.UnsupportedValueError)(nil); errors.As(err, &unsupported) {
			if node := infinite(&document); node != nil {
				return fmt.Sprintf("line %d: %s must be a finite number", node.Line, node.Value)
			}
		}
	}
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	return strings.ReplaceAll(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n  ", "; ")
}

// infinite is the first value that YAML has as a number and JSON has not: .nan, .inf.
func infinite(node *yamlv3.Node) *yamlv3.Node {
	var f float64
	if node.ShortTag() == "!!float" && node.Decode(&f) == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return node
	}
	for _, inner := range node.Content {
		if found := infinite(inner); found != nil {
			return found
		}
	}
	return nil
}
