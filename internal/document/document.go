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
// names. Anchors and aliases (&name, *name) are refused: they let a file of a few
// lines expand without bounds.
//
// Readers that have a schema of their own, such as that of a message, take the
// document as JSON, under the same rules; see JSON.
package document

import (
	"errors"
	"fmt"

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
	r := &reader{name: name}
	root, err := r.parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(r.problems) == 0 { // else what is read may not be what is there
		read(Value{node: root, reader: r})
	}
	return r.err()
}

// ReadOrNone is Read for files that may say nothing, for instance ones of comments only: read
// is not called then.
func ReadOrNone(name string, data []byte, read func(root Value)) error {
	err := Read(name, data, func(root Value) {
		if !root.empty() {
			read(root)
		}
	})
	if errors.Is(err, errEmpty) {
		return nil
	}
	return err
}

// count is how many problems there are.
func (r *reader) count() int { return len(r.problems) + r.more }

// err joins the problems.
func (r *reader) err() error {
	problems := r.problems
	if r.more > 0 {
		problems = append(problems, errors.New(r.at(0, "")+fmt.Sprintf("and %d more problems", r.more)))
	}
	return errors.Join(problems...)
}

// refuse notes a problem.
func (r *reader) refuse(line int, path, text string) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, &Problem{Line: line, Path: path, Text: text, place: r.at(line, path)})
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Line is where, from 1; 0: in the file as a whole.
	Line int
	// Path is the value's place, empty: the document.
	Path string
	// Text describes the problem, without its place.
	Text string
	// place is what the message begins with.
	place string
}

func (p *Problem) Error() string { return p.place + p.Text }

// Lines returns the line of each value in a document, by its path; nil if the document can't
// be read. The path of the whole is empty.
func Lines(data []byte) map[string]int {
	lines := make(map[string]int)
	if Read("", data, func(root Value) { root.lines(lines) }) != nil {
		return nil
	}
	return lines
}

// lines notes the lines of a value and of all in it. That of a map's entry is its key's.
func (v Value) lines(into map[string]int) {
	if _, known := into[v.path]; !known {
		into[v.path] = v.node.Line
	}
	switch v.node.Kind {
	case yaml.MappingNode:
		v.Entries(func(key string, at, value Value) {
			into[value.path] = at.node.Line
			value.lines(into)
		})
	case yaml.SequenceNode:
		for i, node := range v.node.Content {
			Value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i), reader: v.reader}.lines(into)
		}
	}
}

// at is the place of a problem, with what parts it from the problem; line 0: the whole.
func (r *reader) at(line int, path string) string {
	place := r.name
	switch {
	case line > 0 && r.name == "":
		place = fmt.Sprintf("line %d", line)
	case line > 0:
		place = fmt.Sprintf("%s:%d", r.name, line)
	}
	if place != "" {
		place += ": "
	}
	if path != "" {
		place += path + ": "
	}
	return place
}
