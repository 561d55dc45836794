package transcode

import (
	"encoding/binary"
	"math"
)

// value encodes one value with its tag, or nothing for an implicit zero.
func (e *encoder) value(f *field, i, depth int) int {
	switch f.kind {
	case textKind:
		return e.textOf(f, i)
	case messageKind:
		length := e.begin(f.tag)
		if i = e.content(f.message, i, depth); i != no {
			e.end(length)
		}
		return i
	case int32Kind, int64Kind:
		n, end := e.integer(i)
		if end == no || f.kind == int32Kind && n != int64(int32(n)) {
			return no
		}
		e.varint(f.tag, uint64(n), f.implicit)
		return end
	case boolKind:
		if end := e.literal(i, "true"); end != no {
			e.varint(f.tag, 1, false)
			return end
		}
		if i = e.literal(i, "false"); i != no {
			e.varint(f.tag, 0, f.implicit)
		}
		return i
	case doubleKind:
		n, end := e.float(i)
		if end != no && (!f.implicit || math.Float64bits(n) != 0) {
			e.uvarint(f.tag)
			e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(n))
		}
		return end
	}
	return no
}

// textOf encodes a text, or a number in its place.
func (e *encoder) textOf(f *field, i int) int {
	if f.implicit && e.literal(i, `""`) != no {
		return i + 2
	}
	if f.quantity && isNumber(e.at(i)) {
		end := e.number(i)
		if end != no {
			e.bytes(f.tag, e.cursor.text[i:end])
		}
		return end
	}
	return e.text(f.tag, i)
}

// text encodes a text, even an empty one.
func (e *encoder) text(tag uint64, i int) int {
	if content, end := e.plainString(i); end != no {
		e.bytes(tag, content)
		return end
	}
	length := e.begin(tag)
	if e.out, i = e.unquote(e.out, i); i != no {
		e.end(length)
	}
	return i
}
