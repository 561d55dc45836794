package swarm

import (
	"fmt"
	"strings"
)

// Problem is one problem of a label.
type Problem struct {
	// Label is its name.
	Label string
	// Message says what is wrong and what to do.
	Message string
}

// LabelError is all problems of a service's labels.
type LabelError struct {
	// Problems in the order of the labels; at least one.
	Problems []Problem
}

// Error joins all problems.
func (e *LabelError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Label + ": " + p.Message
	}
	return strings.Join(texts, "; ")
}

// mostProblems bounds the listed problems, because labels may cause any number.
const mostProblems = 20

// problems collects problems.
type problems []Problem

func (p *problems) add(label, format string, args ...any) {
	if len(*p) < mostProblems {
		*p = append(*p, Problem{bounded(label, maxLabelName), bounded(fmt.Sprintf(format, args...), maxMessage)})
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &LabelError{p}
}

// Bounds on a problem's texts, bytes: the name of a label may have any length.
const (
	maxLabelName = 128
	maxMessage   = 600
)

// maxQuoted bounds a quoted label, bytes.
const maxQuoted = 64

// quote bounds and quotes a user's text.
func quote(text string) string { return fmt.Sprintf("%q", shorten(text)) }
