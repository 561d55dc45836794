package restjson

import (
	"bytes"
	"encoding/json"
)

// cursor steps through a JSON text that is known to be well-formed. Therefore it treats
// separators as white space, and its methods can't fail.
type cursor struct {
	text []byte
	pos  int
}

// peek returns the first byte of the next token, which determines its kind: one of
// {}[]", t, f, n, - and the digits.
func (c *cursor) peek() byte {
	for {
		switch b := c.text[c.pos]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
			c.pos++
		default:
			return b
		}
	}
}

// open steps into the object or list that comes next.
func (c *cursor) open() {
	c.peek()
	c.pos++
}

// more reports whether the object or list has a further member. If not, it steps
// out of it.
func (c *cursor) more() bool {
	if b := c.peek(); b == '}' || b == ']' {
		c.pos++
		return false
	}
	return true
}

// name steps over the name of an object's member and returns it, unescaped.
func (c *cursor) name() string { return unescaped(c.next()) }

// next steps over a value of any kind and returns its text.
func (c *cursor) next() []byte { return c.skip().of(c.text) }

// skip steps over a value of any kind.
func (c *cursor) skip() span {
	c.peek()
	start := c.pos
	for depth := 0; ; {
		switch c.peek() {
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case '"':
			c.skipString()
		default:
			c.skipLiteral()
		}
		if depth == 0 {
			return span{start, c.pos}
		}
	}
}

// skipString steps over the string that starts here.
func (c *cursor) skipString() {
	for c.pos++; c.text[c.pos] != '"'; c.pos++ {
		if c.text[c.pos] == '\\' {
			c.pos++ // An escaped byte does not end the string.
		}
	}
	c.pos++
}

// skipLiteral steps over the number, true, false or null that starts here.
func (c *cursor) skipLiteral() {
	for c.pos < len(c.text) {
		switch c.text[c.pos] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return
		}
		c.pos++
	}
}

// span is a part of a text: text[start:end].
type span struct{ start, end int }

func (s span) of(text []byte) []byte { return text[s.start:s.end] }

// unescaped is the value of a JSON string that is known to be well-formed.
func unescaped(raw []byte) string {
	if isPlain(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// isPlain reports whether a JSON value is a string that says what it looks like.
func isPlain(raw []byte) bool {
	return raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0
}

// isNumber reports whether the token that starts with b is a number.
func isNumber(b byte) bool {
	return b == '-' || '0' <= b && b <= '9'
}
