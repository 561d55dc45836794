//go:build !js

package document

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// MaxLined bounds what is looked at for lines, in bytes of a file: what people write. Errors in dumps of
// whole clusters have none.
const MaxLined = 4 << 20

// Head keeps the beginning of what is written to it, for [Lined].
type Head struct{ bytes.Buffer }

// Write implements io.Writer.
func (h *Head) Write(data []byte) (int, error) {
	h.Buffer.Write(data[:min(len(data), max(0, MaxLined+1-h.Len()))])
	return len(data), nil
}

// place matches the beginning of an error of a file, after its name: the document of several, an object of a list, what it
// looks like, and the path.
var place = regexp.MustCompile(`^(?:document (\d+): )?(?:((?:items|targetSpecs)\[\d+\]): )?(?:looks like [a-z ]+: )?(?:([a-zA-Z][\w.\[\]/-]*): |(?:unknown|duplicate) field "([^"]+)")`)

// linedError is an error with the lines of a file.
type linedError struct {
	error
	text string
}

func (e *linedError) Error() string { return e.text }
func (e *linedError) Unwrap() error { return e.error }

// Lined adds lines to the errors of a file: those that begin with its name and the path of a field, a line each, as
// package hpa has them. content is the file's. An error of a field that is not there has the
// line of what should hold it. Errors that don't tell which of several documents they are about stay as they are.
func Lined(name string, content []byte, err error) error {
	if err == nil || len(content) > MaxLined {
		return err
	}
	parts, wrong := Parts(content)
	if wrong != nil {
		return err
	}
	known := make(map[int]LineNumbers)
	return withLines(name, err, func(n int, path string) int {
		if n == 0 && len(parts) == 1 {
			n = 1
		}
		if n == 0 || n > len(parts) {
			return 0
		}
		part := parts[n-1]
		lines, read := known[n]
		if !read {
			lines = Lines(part)
			known[n] = lines
		}
		if lines == nil {
			return 0
		}
		if _, wrapped := lines["spec"]; !wrapped {
			path = strings.TrimPrefix(path, "spec.")
		}
		return bytes.Count(content[:cap(content)-cap(part)], []byte("\n")) + cmp.Or(lines.Of(path), lines[""]) // a part is a piece of the content
	})
}

func withLines(name string, err error, lineOf func(document int, path string) int) error {
	var text strings.Builder
	for line := range strings.Lines(err.Error()) {
		if rest, ok := strings.CutPrefix(line, name+": "); ok {
			if found := place.FindStringSubmatch(rest); found != nil {
				path := found[3] + found[4]
				if found[2] != "" {
					path = found[2] + "." + path
				}
				document, _ := strconv.Atoi(found[1])
				if at := lineOf(document, path); at > 0 {
					line = name + ":" + strconv.Itoa(at) + ": " + rest
				}
			}
		}
		text.WriteString(line)
	}
	return &linedError{err, text.String()}
}
