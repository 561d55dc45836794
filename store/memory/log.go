package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/setpoint-dev/setpoint/store"
)

// position tells the entries of a log apart: each has one, counted over all that
// were appended in its shard before, so that they do not come back when a log is
// deleted and begun again. A log is read from the entry before a position on.
type position uint64

const (
	positionNone   position = 0 // before which nothing is
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

// history is the state of a log beside its entries, the newest of which are the value of its
// item.
type history struct {
	origin position // of the first entry that was appended
	count  int      // entries ever appended
}

// lengthBytes is what stands behind each entry: its length, by which entries are read from
// the newest on.
const lengthBytes = 4

// push appends an entry to the item's log. When there is no room for it, those that are
// beyond the bound make some, unless they are so few that all would be moved again soon.
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

// before returns where the newest so many of the entries begin.
func before(entries []byte, newest int) int {
	end := len(entries)
	for ; newest > 0 && end > 0; newest-- {
		end = begin(entries[:end])
	}
	return end
}

// begin returns where the last one of the entries begins.
func begin(entries []byte) int {
	length := len(entries) - lengthBytes
	return length - int(binary.LittleEndian.Uint32(entries[length:]))
}

// read returns up to limit of the log's entries before the position, newest first, and the
// position to go on from, positionNone if none is left.
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

// entriesBefore returns how many of all entries ever appended come before the
// position.
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
