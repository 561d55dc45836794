// Package typed reads settings that people wrote, once they are decoded from labels, HCL, YAML or
// JSON, into structs and messages. Every unknown key and every wrong value is a problem of its
// own, with its path and, where a name is close, "did you mean":
//
//	var (
//		query    Query // with json tags
//		problems typed.Problems
//	)
//	problems.Fill("metric.queue", fields, &query)
//	if err := problems.Err(); err != nil { // metric.queue.qurey: there is no such key; did you mean query?
//
// What is read may come from anybody: problems, and the texts that they quote, are bounded.
package typed

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Problem is one problem of settings.
type Problem struct {
	// Field is the path of the field, for example "sources.prom.prometheus.url" or "query".
	// Empty: the whole.
	Field string
	// Message says what is wrong and what to do.
	Message string
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// Error is all problems of settings.
type Error struct {
	// Problems, at least one, and the first 20 only.
	Problems []Problem
}

// Error joins all problems.
func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "; ")
}

// Bounds, because settings may cause any number of problems: how many are listed, and their
// texts in bytes.
const (
	maxProblems = 20
	maxField    = 256
	maxMessage  = 600
	// MaxQuoted bounds a quoted text of others, in bytes.
	MaxQuoted = 200
)

// Problems collects problems.
type Problems []Problem

// Add adds a problem of a field.
func (p *Problems) Add(field, format string, args ...any) {
	if len(*p) < maxProblems {
		*p = append(*p, Problem{Shorten(field, maxField), Shorten(fmt.Sprintf(format, args...), maxMessage)})
	}
}

// Under adds the problems of a part.
func (p *Problems) Under(field string, part Problems) {
	for _, one := range part {
		p.Add(Within(field, one.Field), "%s", one.Message)
	}
}

// Unknown adds the problem of a key that is none of the known ones.
func (p *Problems) Unknown(part, name string, known []string) {
	hint := "the keys are " + strings.Join(known, ", ")
	if close, ok := spelling.Closest(name, known); ok {
		hint = "did you mean " + close + "?"
	}
	p.Add(Within(part, Shorten(name, MaxQuoted)), "there is no such key; %s", hint)
}

// Err returns the problems as an *Error, nil if there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return &Error{p}
}

// Within joins the names of a part and of a field in it.
func Within(part, field string) string {
	if part == "" || field == "" {
		return part + field
	}
	return part + "." + field
}

// Shorten makes another's text fit into a status or a log: one line, valid UTF-8, at most that
// many bytes plus a mark of the omission.
func Shorten(text string, most int) string {
	cut := len(text) > most
	if cut {
		text = text[:most]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		text = strings.TrimRightFunc(text, func(r rune) bool { return r == utf8.RuneError })
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if cut {
		text += "…"
	}
	return text
}
