package samples

import "fmt"

// Error is why a query has no values. Its text has no credential, no body of an answer and no
// query of a URL, because others may read the status that shows it.
type Error struct {
	// Source is the queried source; empty: none.
	Source string
	// Outcome is the kind of the failure.
	Outcome Outcome
	// Message says what happened and, if possible, what to do.
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Source == "" {
		return e.Message
	}
	return fmt.Sprintf("source %q: %s", e.Source, e.Message)
}
