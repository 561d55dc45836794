// Package document parses small configuration files, YAML or JSON, strictly: unknown keys,
// duplicate keys, values of the wrong type and missing values are problems, and all
// problems are reported at once, each with its line and path:
//
//	policy.yaml:7: grants[0].verbs[1]: must be one of recommend, read
//
// Callers describe what they expect where:
//
//	err := document.Read("hosts.yaml", data, func(root document.Value) {
//		root.Map(document.Required("hosts", func(v document.Value) { hosts = v.Texts() }))
//	})
//
// A file may contain a secret in the wrong place, so problems quote only values of numbers,
// times and durations, and only keys that look like names. Anchors and aliases (&name,
// *name) are refused: they let a file of a few lines expand without bounds.
//
// Callers with their own schema, such as that of a message, get the document as JSON, under
// the same rules; see JSON.
package document

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxProblems limits how many problems an error lists.
const maxProblems = 100

// reader collects the problems of a file.
type reader struct {
	name     string
	problems []error
	more     int // problems beyond maxProblems
}

// Read parses data, which is one document, and calls read on its root. name is the
// file's, for problems. The error joins all problems, one per line.
func Read(name string, data []byte, read func(root Value)) error {
	r := &reader{name: name}
	root, err := r.parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(r.problems) == 0 { // otherwise values may not be what they seem
		read(Value{node: root, reader: r})
	}
	return r.err()
}

// ReadOrNone is Read for files that may be empty or have only comments: read is not called
// then.
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

// count returns the number of problems.
func (r *reader) count() int { return len(r.problems) + r.more }

// err joins the problems.
func (r *reader) err() error {
	problems := r.problems
	if r.more > 0 {
		problems = append(problems, errors.New(r.at(0, "")+fmt.Sprintf("and %d more problems", r.more)))
	}
	return errors.Join(problems...)
}

// refuse records a problem.
func (r *reader) refuse(line int, path, text string) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, &Problem{Line: line, Path: path, Text: text, place: r.at(line, path)})
}

// Problem is one error in a file.
type Problem struct {
	// Line counts from 1; 0: the file as a whole.
	Line int
	// Path is the path of the value, empty for the document.
	Path string
	// Text describes the problem, without its place.
	Text string
	// place is the beginning of the message.
	place string
}

func (p *Problem) Error() string { return p.place + p.Text }

// LineNumbers are the lines of a document's values by their paths.
type LineNumbers map[string]int

// Of is the line of a value, or of what it would be in; 0: of nothing but the document.
func (l LineNumbers) Of(path string) int {
	for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if line, there := l[path]; there {
			return line
		}
	}
	return 0
}

// Under has the values by paths below a key as well, that of an object which the document is a part of.
func (l LineNumbers) Under(key string) {
	for path, line := range maps.Clone(l) {
		l[key+"."+path] = line
	}
}

// Lines returns the line of each value in a document by its path, which is empty for the
// root; nil if the document can't be parsed. Aliases have lines, what they stand for has none.
func Lines(data []byte) LineNumbers {
	r, lines := &reader{}, make(LineNumbers)
	root, err := r.parse(data)
	if err != nil {
		return nil
	}
	Value{node: root, reader: r}.lines(lines, maxDepth)
	return lines
}

// lines records the lines of a value and of what is in it, so many levels deep. The line of a map entry is
// its key's.
func (v Value) lines(into LineNumbers, depth int) {
	if _, known := into[v.path]; !known {
		into[v.path] = v.node.Line
	}
	switch {
	case depth == 0:
	case v.node.Kind == yaml.MappingNode:
		v.Entries(func(key string, at, value Value) {
			into[value.path] = at.node.Line
			value.lines(into, depth-1)
		})
	case v.node.Kind == yaml.SequenceNode:
		for i, node := range v.node.Content {
			Value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i), reader: v.reader}.lines(into, depth-1)
		}
	}
}

// at returns the place of a problem with a separator; line 0: the whole file.
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
