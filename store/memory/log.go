package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/setpoint-dev/setpoint/store"
)

// position identifies an entry of a log. Positions count all entries ever appended in
// the shard, so that none is used again when a log is deleted and created anew. A read
// returns the entries before a position.
type position uint64

const (
	positionNone   position = 0 // no entry precedes it
	positionNewest position = math.MaxUint64
)

func parsePosition(s string) (position, error) {
	if s == "" {
		return positionNewest, nil
	}
	p, err := strconv.ParseUint(s, 36, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", store.ErrInvalidPosition, s)
	}
	return position(p), nil
}

// String returns what parsePosition reads, and the empty string for
// positionNone.
func (p position) String() string {
	if p == positionNone {
		return ""
	}
	return strconv.FormatUint(uint64(p), 36)
}

// history is the state of a log except for its newest entries, which are the value of its
// item.
type history struct {
	origin position // position of the first entry ever appended
	count  int      // entries ever appended
}

// lengthBytes is the size of the length that follows each entry, by which a reader finds
// the entries from the newest on.
const lengthBytes = 4

// push appends an entry to the item's log. When the item is full, push drops the entries
// past the bound, unless they are so few that one of the next pushes would have to move
// all bytes again.
func push(t *table[history], n number, entry []byte, bound int) {
	value := t.value(n)
	kept, more := len(value), len(entry)+lengthBytes
	if !t.fits(n, kept+more) {
		if beyond := before(value, bound-1); beyond > len(value)/8 {
			kept = copy(value, value[beyond:])
		}
	}
	value = t.resize(n, kept+more)
	copy(value[kept:], entry)
	binary.LittleEndian.PutUint32(value[kept+len(entry):], uint32(len(entry)))
	t.items[n].meta.count++
}

// before returns where the newest n entries begin.
func before(entries []byte, newest int) int {
	end := len(entries)
	for ; newest > 0 && end > 0; newest-- {
		end = begin(entries[:end])
	}
	return end
}

// begin returns where the last entry begins.
func begin(entries []byte) int {
	length := len(entries) - lengthBytes
	return length - int(binary.LittleEndian.Uint32(entries[length:]))
}

// read returns up to limit entries before the position, newest first, and the position to
// continue from, positionNone if no entry is left.
func (h *history) read(entries []byte, p position, limit, bound int) (values [][]byte, next position) {
	end, oldest := h.entriesBefore(p), h.count-min(h.count, bound)
	if end <= oldest {
		return nil, positionNone
	}
	entries = entries[:before(entries, h.count-end)]
	for ; end > oldest && len(values) < limit; end-- {
		at := begin(entries)
		values = append(values, entries[at:len(entries)-lengthBytes])
		entries = entries[:at]
	}
	if end > oldest {
		next = h.origin + position(end)
	}
	return values, next
}

// entriesBefore returns how many of all entries ever appended precede the position.
func (h *history) entriesBefore(p position) int {
	switch {
	case p <= h.origin:
		return 0
	case p-h.origin < position(h.count):
		return int(p - h.origin)
	default:
		return h.count
	}
}
