package memory

import (
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

// ring keeps the newest entries of a log. It keeps the slices that it is given.
type ring struct {
	origin position // of the first entry that was appended
	count  int      // entries ever appended
	slots  [][]byte // the newest of them, entry i at i modulo the length
}

// push appends an entry; past the bound it replaces the oldest one.
func (r *ring) push(value []byte, bound int) {
	if len(r.slots) < bound {
		r.slots = append(r.slots, value)
	} else {
		r.slots[r.count%len(r.slots)] = value
	}
	r.count++
}

// read returns up to limit entries before the position, newest first, and the
// position to go on from, positionNone if none is left.
func (r *ring) read(before position, limit int) (values [][]byte, next position) {
	end, oldest := r.entriesBefore(before), r.count-len(r.slots)
	for ; end > oldest && len(values) < limit; end-- {
		values = append(values, r.slots[(end-1)%len(r.slots)])
	}
	if end > oldest {
		next = r.origin + position(end)
	}
	return values, next
}

// entriesBefore returns how many of all entries ever appended come before the
// position.
func (r *ring) entriesBefore(p position) int {
	switch {
	case p <= r.origin:
		return 0
	case p-r.origin < position(r.count):
		return int(p - r.origin)
	default:
		return r.count
	}
}
