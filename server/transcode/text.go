package transcode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// plain counts the leading bytes of b that are unescaped ASCII in a JSON string.
func plain(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		// Eight bytes at a time: the lowest set high bit marks the first byte that is a
		// control character, a quote, a backslash or not ASCII.
		v := binary.LittleEndian.Uint64(b[i:])
		quotes, slashes := v^everyByte*'"', v^everyByte*'\\'
		odd := (v - everyByte*' ') &^ v
		odd |= (quotes - everyByte) &^ quotes
		odd |= (slashes - everyByte) &^ slashes
		if odd = (odd | v) & highBits; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for ; i < len(b) && isPlain(b[i]); i++ {
	}
	return i
}

func isPlain(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' }

func (c *cursor) plainString(i int) (content []byte, after int) {
	if c.at(i) != '"' {
		return nil, no
	}
	content = c.text[i+1:]
	content = content[:plain(content)]
	if after = i + 1 + len(content); c.at(after) != '"' {
		return nil, no
	}
	return content, after + 1
}

// unquote appends the unescaped string at i.
func (c *cursor) unquote(out []byte, i int) ([]byte, int) {
	if c.at(i) != '"' {
		return out, no
	}
	for i++; ; {
		n := plain(c.text[i:])
		out = append(out, c.text[i:i+n]...)
		i += n
		switch c.at(i) {
		case '"':
			return out, i + 1
		case '\\':
			if out, i = c.escape(out, i+1); i == no {
				return out, no
			}
		default:
			size := runeSize(c.text[i:])
			if size == 0 {
				return out, no
			}
			out = append(out, c.text[i:i+size]...)
			i += size
		}
	}
}

// runeSize is the size of the leading character of b, 0 if it is invalid or ASCII.
func runeSize(b []byte) int {
	if _, size := utf8.DecodeRune(b); size > 1 {
		return size
	}
	return 0
}

// escape appends the character of an escape whose backslash is before i.
func (c *cursor) escape(out []byte, i int) ([]byte, int) {
	switch b := c.at(i); b {
	case '"', '\\', '/':
		return append(out, b), i + 1
	case 'b':
		return append(out, '\b'), i + 1
	case 'f':
		return append(out, '\f'), i + 1
	case 'n':
		return append(out, '\n'), i + 1
	case 'r':
		return append(out, '\r'), i + 1
	case 't':
		return append(out, '\t'), i + 1
	case 'u':
		r := rune(0)
		for range 4 {
			i++
			digit, ok := hexDigit(c.at(i))
			if !ok {
				return out, no
			}
			r = r<<4 | rune(digit)
		}
		if utf16.IsSurrogate(r) {
			return out, no
		}
		return utf8.AppendRune(out, r), i + 1
	}
	return out, no
}

func hexDigit(b byte) (digit byte, ok bool) {
	if isDigit(b) {
		return b - '0', true
	}
	b |= 0x20
	return b - 'a' + 10, b >= 'a' && b <= 'f'
}

// appendQuoted appends a text as a JSON string. ok is false if it is not UTF-8.
func appendQuoted(out, text []byte) (quoted []byte, ok bool) {
	out = append(out, '"')
	for {
		n := plain(text)
		out = append(out, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			return append(out, '"'), true
		}
		if text[0] < utf8.RuneSelf {
			out = appendEscape(out, text[0])
			text = text[1:]
			continue
		}
		size := runeSize(text)
		if size == 0 {
			return out, false
		}
		out = append(out, text[:size]...)
		text = text[size:]
	}
}

func appendEscape(out []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch b {
	case '"', '\\':
		return append(out, '\\', b)
	case '\b':
		return append(out, '\\', 'b')
	case '\f':
		return append(out, '\\', 'f')
	case '\n':
		return append(out, '\\', 'n')
	case '\r':
		return append(out, '\\', 'r')
	case '\t':
		return append(out, '\\', 't')
	}
	return append(out, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
}
