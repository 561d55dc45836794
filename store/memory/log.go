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

// footerBytes is the size of what follows each entry of a log: its position, and its length, by
// which a reader finds the entries from the newest on.
const positionBytes, footerBytes = 8, 12

// push appends an entry at a position to the item's log. When the item is full, push drops the entries
// past the bound, unless they are so few that one of the next pushes would have to move
// all bytes again.
func push(t *table[int], it *item[int], at position, entry []byte, bound int) {
	more := len(entry) + footerBytes
	if len(it.value)+more > cap(it.value) {
		if beyond := before(it.value, bound-1); beyond > len(it.value)/8 {
			it.value = it.value[:copy(it.value, it.value[beyond:])]
		}
	}
	it.value = append(t.room(it.value, more), entry...)
	it.value = binary.LittleEndian.AppendUint64(it.value, uint64(at))
	it.value = binary.LittleEndian.AppendUint32(it.value, uint32(len(entry)))
	it.meta++
}

// before returns where the newest n entries begin.
func before(log []byte, newest int) int {
	e := entries{log, newest}
	for len(e.log) > 0 && e.count > 0 {
		e.take()
	}
	return len(e.log)
}

// entries are the newest entries of a log, so many.
type entries struct {
	log   []byte
	count int
}

// newest returns the position of the newest, positionNone if there is none.
func (e *entries) newest() position {
	if e.count == 0 {
		return positionNone
	}
	return position(binary.LittleEndian.Uint64(e.log[len(e.log)-footerBytes:]))
}

// take removes the newest, and returns it.
func (e *entries) take() []byte {
	end := len(e.log) - footerBytes
	begin := end - int(binary.LittleEndian.Uint32(e.log[end+positionBytes:]))
	entry := e.log[begin:end]
	e.log = e.log[:begin]
	e.count--
	return entry
}
