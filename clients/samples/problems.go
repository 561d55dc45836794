package samples

import (
	"fmt"
	"strings"
)

// Problem is one problem of a configuration or a query.
type Problem struct {
	// Field is the path of the field, for example "sources.prom.prometheus.url" or "query".
	// Empty: the whole.
	Field string
	// Message says what is wrong and what to do.
	Message string
}

// ConfigError is all problems of a configuration or a query.
type ConfigError struct {
	// Problems in the order of the fields; at least one, and the first 20 only.
	Problems []Problem
}

// Error joins all problems.
func (e *ConfigError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Message
		if p.Field != "" {
			texts[i] = p.Field + ": " + p.Message
		}
	}
	return strings.Join(texts, "; ")
}

// mostProblems bounds the listed problems, because a query may cause any number.
const mostProblems = 20

// problems collects problems.
type problems []Problem

func (p *problems) add(field, format string, args ...any) {
	if len(*p) < mostProblems {
		*p = append(*p, Problem{field, fmt.Sprintf(format, args...)})
	}
}

// under adds the problems of a part.
func (p *problems) under(field string, part problems) {
	for _, one := range part {
		p.add(within(field, one.Field), "%s", one.Message)
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &ConfigError{p}
}

// within joins the names of a part and of a field in it.
func within(part, field string) string {
	if part == "" || field == "" {
		return part + field
	}
	return part + "." + field
}
