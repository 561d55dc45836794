package restjson

import (
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxQuoted limits what an error quotes of a value or a name, in bytes.
	maxQuoted = 40
	// maxForeign limits what an error quotes of another package's text, in bytes.
	maxForeign = 240
)

// describe names a JSON value: its type, and its text if it is short.
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
