// Package printable makes untrusted text safe to print.
package printable

import (
	"strings"
	"unicode"
)

// Text returns text that is safe in a line for people: characters that move the cursor, end
// the line, or change colors or the direction of writing are replaced.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Lines returns text that is safe in several lines for people: control characters other than
// newline, carriage return and tab are replaced.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
