package document

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// MaxBytes bounds a document that people write, in bytes.
const MaxBytes = 1 << 20

// JSON returns the one YAML or JSON document in data as JSON, for readers that know what its
// keys mean; of one without content, null. A document of more than most bytes is refused, and
// what Read refuses in any document. Values mean what they mean to kubectl: yes is true. The
// error is one line with all problems, as in
//
//	line 7: spec.metrics: is there twice, first in line 3; line 9: …
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
// as the parser takes, and be of any length. Keys that are there twice are refused.
func Manifest(data []byte) ([]byte, error) {
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, errors.New(message(err))
	}
	return converted, nil
}

// message drops what the parser's messages begin with.
func message(err error) string {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	return strings.ReplaceAll(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n  ", "; ")
}
