package restjson

import (
	"fmt"
	"strings"
)

const (
	// maxViolations limits the errors reported for one body.
	maxViolations = 100
	// maxInSummary is how many violations Error spells out.
	maxInSummary = 3
)

// Violation is one problem of a JSON text.
type Violation struct {
	// Field is the place, for example spec.metrics[0].resource.target or
	// pods[2].containers[0].requests[cpu]: JSON names, list indexes from 0, map
	// keys in brackets. Empty: the text as a whole.
	Field string
	// Description says what is wrong and what is expected, a phrase without a
	// full stop. It quotes at most a few dozen characters of the text.
	Description string
}

// String is "field: description".
func (v Violation) String() string {
	if v.Field == "" {
		return v.Description
	}
	return v.Field + ": " + v.Description
}

// Error says why a JSON text was refused.
type Error struct {
	// Violations are the problems in the order of the text: at least one, at
	// most 100.
	Violations []Violation
	// Truncated reports whether there may be more: the text was not read to its end.
	Truncated bool
}

// Error is one line that spells out the first few problems.
func (e *Error) Error() string {
	shown := e.Violations[:min(len(e.Violations), maxInSummary)]
	texts := make([]string, len(shown))
	for i, v := range shown {
		texts[i] = v.String()
	}
	summary := "invalid request: " + strings.Join(texts, "; ")
	if hidden := len(e.Violations) - len(shown); hidden > 0 {
		atLeast := ""
		if e.Truncated {
			atLeast = "at least "
		}
		summary += fmt.Sprintf("; and %s%d more", atLeast, hidden)
	}
	return summary
}

// wholeText is the error of a text that is invalid as a whole.
func wholeText(format string, args ...any) *Error {
	return &Error{Violations: []Violation{{Description: fmt.Sprintf(format, args...)}}}
}
