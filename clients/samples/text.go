package samples

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuoted bounds what is quoted of others' texts.
const maxQuoted = 200

// shorten returns others' text such that it can stand in a status or a log: one line,
// valid UTF-8, at most that many bytes and the mark of what is left out.
func shorten(text string, most int) string {
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
