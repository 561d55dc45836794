package transcode

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags within timestamps and durations, and of the keys of maps.
const (
	secondsTag = 1<<3 | uint64(protowire.VarintType)
	nanosTag   = 2<<3 | uint64(protowire.VarintType)
	keyTag     = 1<<3 | uint64(protowire.BytesType)
)

// skipTag steps over a tag if it is the given one.
func (p *printer) skipTag(tag uint64, i, end int) int {
	if got, after := p.uvarint(i, end); got == tag {
		return after
	}
	return no
}

// instant parses a timestamp or a duration that takes up everything from i to end.
func (p *printer) instant(i, end int) (seconds int64, nanos int32, ok bool) {
	if at := p.skipTag(secondsTag, i, end); at != no {
		n, after := p.uvarint(at, end)
		if after == no {
			return 0, 0, false
		}
		seconds, i = int64(n), after
	}
	if at := p.skipTag(nanosTag, i, end); at != no {
		n, after := p.uvarint(at, end)
		if after == no {
			return 0, 0, false
		}
		nanos, i = int32(n), after
	}
	return seconds, nanos, i == end
}

// span parses a length and returns where the bytes that it counts begin and end.
func (p *printer) span(i, end int) (from, to int) {
	n, from := p.uvarint(i, end)
	if from == no || n > uint64(end-from) {
		return no, no
	}
	return from, from + int(n)
}

// uvarint parses a number of up to 64 bits.
func (p *printer) uvarint(i, end int) (n uint64, after int) {
	if i < end && p.wire[i] < 0x80 {
		return uint64(p.wire[i]), i + 1
	}
	n, size := binary.Uvarint(p.wire[i:end])
	if size <= 0 {
		return 0, no
	}
	return n, i + size
}
