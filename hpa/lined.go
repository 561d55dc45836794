//go:build !js

package hpa

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/document"
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

// place matches the beginning of an error of a file, after its name: what it looks like, an object of a list, and the path.
var place = regexp.MustCompile(`^(?:looks like [a-z ]+: )?(?:(items\[\d+\]): )?([a-zA-Z][\w.\[\]/-]*): `)

// linedError is an error with the lines of a file.
type linedError struct {
	error
	text string
}

func (e *linedError) Error() string { return e.text }
func (e *linedError) Unwrap() error { return e.error }

// Lined adds lines to the errors of a file: those that begin with its name and the path of a field, a line each, as
// [Read] and [Autoscaler.Engine] return them. content is the file's. An error of a field that is not there has the
// line of what should hold it. Errors of files with several documents, whose paths are the same, stay as they are.
func Lined(name string, content []byte, err error) error {
	if err == nil || len(content) > MaxLined {
		return err
	}
	parts, wrong := document.Manifests(content)
	if wrong != nil || len(parts) != 1 {
		return err
	}
	before := bytes.Count(content[:cap(content)-cap(parts[0])], []byte("\n")) // a part is a piece of the content
	lines := document.Lines(parts[0])
	if lines == nil {
		return err
	}
	_, wrapped := lines["spec"]
	return WithLines(name, err, func(path string) int {
		if !wrapped {
			path = strings.TrimPrefix(path, "spec.")
		}
		return before + cmp.Or(lines.Of(path), lines[""])
	})
}

// WithLines is Lined with what knows the line of a path, 0: unknown.
func WithLines(name string, err error, lineOf func(path string) int) error {
	var text strings.Builder
	for line := range strings.Lines(err.Error()) {
		if rest, ok := strings.CutPrefix(line, name+": "); ok {
			if found := place.FindStringSubmatch(rest); found != nil {
				path := found[2]
				if found[1] != "" {
					path = found[1] + "." + path
				}
				if at := lineOf(path); at > 0 {
					line = name + ":" + strconv.Itoa(at) + ": " + rest
				}
			}
		}
		text.WriteString(line)
	}
	return &linedError{err, text.String()}
}
