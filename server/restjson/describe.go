package restjson

import (
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxQuoted is how many bytes of a value or a name an error quotes.
	maxQuoted = 40
	// maxForeign is how many bytes an error takes of another package's text.
	maxForeign = 240
)

// describe names a JSON value: its type, and if it is short its text.
func describe(raw []byte) string {
	switch b := raw[0]; {
	case b == '{':
		return "an object"
	case b == '[':
		return "a list"
	case b == 'n':
		return "null"
	case b == 't' || b == 'f':
		return "a boolean (" + string(raw) + ")"
	case isNumber(b):
		return "a number (" + clip(string(raw), maxQuoted) + ")"
	default:
		return "a string (" + quote(unescaped(raw)) + ")"
	}
}

// quote is s, clipped, in quotes.
func quote(s string) string { return strconv.Quote(clip(s, maxQuoted)) }

// nameText is s as it stands in a path: in quotes where it would be unclear
// otherwise.
func nameText(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./@$", r)
	})
	if !plain {
		return quote(s)
	}
	return clip(s, maxQuoted)
}

// clip shortens s to limit bytes.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	// The cut may have split a character.
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
