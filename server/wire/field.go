package wire

import (
	"math/bits"
	"unicode/utf8"
)

// Wire types of protobuf, the lower bits of a tag; the other types do not occur in the
// fields that are read here.
const (
	isVarint  = 0
	isFixed64 = 1
	isBytes   = 2 // texts, messages, map entries: everything with a length
)

// next reads the field that begins at i, in a message that ends at end: its tag, and
// where its value begins and ends, without tag and length. to is 0 if there is no such
// field: the message is truncated or invalid, or the field's number is above 15 or its
// type none of those above.
func next(b []byte, i, end int) (tag byte, from, to int) {
	if end-i < 2 {
		return 0, 0, 0
	}
	tag = b[i]
	switch tag & (7 | 0x80) {
	case isBytes:
		n := int(b[i+1])
		if n >= 0x80 {
			from, to = span(b, i+1, end)
			return tag, from, to
		}
		if from = i + 2; n <= end-from {
			to = from + n
		}
	case isVarint:
		from = i + 1
		to = endOfNumber(b, from, end)
	case isFixed64:
		if from = i + 1; end-from >= 8 {
			to = from + 8
		}
	}
	return tag, from, to
}

// span reads a length at i and returns where the bytes that it counts begin and end; to
// is 0 if they do not end by end.
func span(b []byte, i, end int) (from, to int) {
	if i >= end {
		return 0, 0
	}
	n := int(b[i])
	i++
	if n >= 0x80 {
		// Up to four bytes: enough for any message that is received.
		n &= 0x7f
		for shift := 7; ; shift += 7 {
			if i >= end || shift > 21 {
				return 0, 0
			}
			c := int(b[i])
			i++
			n |= c & 0x7f << shift
			if c < 0x80 {
				break
			}
		}
	}
	if n > end-i {
		return 0, 0
	}
	return i, i + n
}

// endOfNumber returns the end of the varint at i, 0 if it does not end by end or
// has more than 64 bits.
func endOfNumber(b []byte, i, end int) int {
	for n := 1; i < end; n++ {
		c := b[i]
		i++
		if c < 0x80 {
			if n == 10 && c > 1 {
				return 0
			}
			return i
		}
		if n == 10 {
			return 0
		}
	}
	return 0
}

// number returns the varint that next has found.
func number(b []byte, from, to int) uint64 {
	n := uint64(b[from])
	if n < 0x80 {
		return n
	}
	n &= 0x7f
	for shift := 7; ; shift += 7 {
		from++
		c := uint64(b[from])
		n |= c & 0x7f << shift
		if from+1 >= to {
			return n
		}
	}
}

// isText reports whether the bytes are valid in a string field.
func isText(b []byte) bool { return utf8.Valid(b) }

// entry reads an entry of a map of texts as encoders write it: key, then value, both
// short, and nothing else. The value begins at value and ends with the entry.
func entry(b []byte, from, to int) (keyFrom, keyTo, value int, ok bool) {
	if to-from < 4 || b[from] != 1<<3|isBytes || b[from+1] >= 0x80 {
		return 0, 0, 0, false
	}
	keyFrom = from + 2
	keyTo = keyFrom + int(b[from+1])
	value = keyTo + 2
	if value > to || b[keyTo] != 2<<3|isBytes || int(b[keyTo+1]) != to-value || to-value >= 0x80 {
		return 0, 0, 0, false
	}
	return keyFrom, keyTo, value, true
}

// appendField appends a length-delimited field.
func appendField(b []byte, field int, value []byte) []byte {
	b = appendHead(b, field, len(value))
	return append(b, value...)
}

// appendHead appends tag and length of a field.
func appendHead(b []byte, field, n int) []byte {
	b = appendNumber(b, uint64(field)<<3|isBytes)
	return appendNumber(b, uint64(n))
}

func appendNumber(b []byte, n uint64) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// headSize is how many bytes appendHead appends for a value of n bytes.
func headSize(n int) int { return 1 + (bits.Len(uint(n)|1)+6)/7 }
