package swarm

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a label.
type Problem struct {
	// Label is its name.
	Label string
	// Message says what is wrong and what to do.
	Message string
}

// LabelError is all that is wrong with the labels of a service.
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

// mostProblems bounds the shown problems, because labels may cause any number.
const mostProblems = 20

// problems collects what is wrong.
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

// What a problem says is bounded, bytes: the name of a label may have any length.
const (
	maxLabelName = 128
	maxMessage   = 600
)

// maxQuoted bounds what a problem quotes of a label, bytes.
const maxQuoted = 64

// quote bounds and quotes a text of a user.
func quote(text string) string { return fmt.Sprintf("%q", shorten(text)) }
