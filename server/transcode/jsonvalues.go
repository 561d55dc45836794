package transcode

import (
	"encoding/binary"
	"math"
	"strconv"
)

// value writes one value.
func (p *printer) value(f *field, i, end, depth int) int {
	switch f.kind {
	case textKind:
		from, to := p.span(i, end)
		if to == no {
			return no
		}
		var ok bool
		if p.out, ok = appendQuoted(p.out, p.wire[from:to]); !ok {
			return no
		}
		return to
	case messageKind:
		from, to := p.span(i, end)
		if to == no || !p.content(f.message, from, to, depth) {
			return no
		}
		return to
	case doubleKind:
		if end-i < 8 {
			return no
		}
		p.out = appendFloat(p.out, math.Float64frombits(binary.LittleEndian.Uint64(p.wire[i:])))
		return i + 8
	}
	return p.number(f.kind, i, end)
}

// number writes a number that is a varint.
func (p *printer) number(k kind, i, end int) int {
	n, after := p.uvarint(i, end)
	switch {
	case after == no:
	case k == boolKind:
		p.out = strconv.AppendBool(p.out, n != 0)
	case k == int32Kind:
		p.out = strconv.AppendInt(p.out, int64(int32(n)), 10)
	case k == int64Kind:
		p.out = append(p.out, '"')
		p.out = strconv.AppendInt(p.out, int64(n), 10)
		p.out = append(p.out, '"')
	default:
		return no
	}
	return after
}
