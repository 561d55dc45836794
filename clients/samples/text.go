package samples

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuoted bounds quoted texts of others.
const maxQuoted = 200

// shorten makes another's text fit into a status or a log: one line, valid UTF-8, at most that
// many bytes plus a mark of the omission.
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
