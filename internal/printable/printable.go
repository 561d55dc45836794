// Package printable makes text of others fit to be shown.
package printable

import (
	"strings"
	"unicode"
)

// Text returns others' text such that it can stand in a line for people: what would move the
// cursor, end the line, colour or turn the text around becomes a mark.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
