// Package document reads small files of settings, YAML or JSON, strictly: unknown
// keys, keys that are there twice, values of the wrong type and missing values are
// problems, and all problems are reported at once, each with its line and path:
//
//	policy.yaml:7: grants[0].verbs[1]: must be one of recommend, read
//
// A file is read by saying what is expected where:
//
//	err := document.Read("hosts.yaml", data, func(root document.Value) {
//		root.Map(document.Required("hosts", func(v document.Value) { hosts = v.Texts() }))
//	})
//
// What a file holds may be a secret in the wrong place, so that problems quote
// values of numbers, times and durations only, and keys only if they look like
// names. Aliases (*name) are refused: they let a file of a few lines expand
// without bounds.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxProblems bounds how many problems an error tells of.
const maxProblems = 100

// reader collects the problems of a file.
type reader struct {
	name     string
	problems []error
	more     int // problems that were too many
}

// Read parses data, which is one document, and lets read go through it. name is the
// file's, for problems. The error joins all problems, a line each.
func Read(name string, data []byte, read func(root Value)) error {
	root, err := parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := &reader{name: name}
	read(Value{node: root, reader: r})
	if r.more > 0 {
		r.problems = append(r.problems, fmt.Errorf("%s: and %d more problems", name, r.more))
	}
	return errors.Join(r.problems...)
}

// parse returns the content of the one document in data.
func parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("is empty")
	case err != nil:
		return nil, syntaxError(err)
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil, errors.New("must hold one document, holds several")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err)
	}
	return document.Content[0], nil
}

// syntaxError is what the parser says, without the one message of it that quotes
// the file.
func syntaxError(err error) error {
	if strings.Contains(err.Error(), "anchor") {
		return errAlias
	}
	return err
}

var errAlias = errors.New("YAML anchors and aliases (&name, *name) are not allowed here")

// refuse notes a problem.
func (r *reader) refuse(line int, path, text string) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	place := fmt.Sprintf("%s:%d", r.name, line)
	if path != "" {
		place += ": " + path
	}
	r.problems = append(r.problems, fmt.Errorf("%s: %s", place, text))
}
