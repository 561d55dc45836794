package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// A log is two lists: of the entries that are kept longer, and of the others. Their elements are the
// format byte, the entry's number in seven bytes, and the value; an entry that is kept longer has
// between these the number of the other that it comes after, in seven bytes. A list takes hardly more
// memory than its elements, whereas a stream takes some kilobytes for its first entry.
//
// The numbers of a list are consecutive, so that the first element's number locates any
// element. A list begins with the time in microseconds, which is larger than all numbers
// of a deleted log.
const (
	logFormat, keptFormat = 1, 2
	logHeader, keptHeader = 8, 15
)

// keeps reports whether an entry is in the list of those that are kept longer.
func (s *Store) keeps(e *store.LogEntry) bool { return e.Kept && s.options.KeptLength > 0 }

// listOf is the list of an entry, and how many it keeps.
func (s *Store) listOf(e *store.LogEntry) (name string, length int) {
	p := s.layout.place(e.Key)
	if s.keeps(e) {
		return p.kept(), s.options.KeptLength
	}
	return p.log(), s.options.LogLength
}

// trim returns the arguments of an LTRIM that makes room for so many entries.
func trim(list string, length, more int) []any {
	if more >= length {
		return []any{"ltrim", list, "1", "0"} // a range from -0 would be all
	}
	return []any{"ltrim", list, strconv.Itoa(more - length), "-1"}
}

// AppendLog implements store.Log. It uses one round trip per shard. It does not send an
// entry again whose reply was lost.
func (s *Store) AppendLog(ctx context.Context, entries []store.LogEntry) error {
	if err := s.begin(ctx, "append log"); err != nil {
		return err
	}
	if s.options.LogLength < 0 {
		return nil
	}
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	more := make(map[string]int)        // entries by list
	leads := make([]bool, len(entries)) // the first of their lists
	for i := range entries {
		list, _ := s.listOf(&entries[i])
		n, known := more[list]
		if leads[i] = !known; !entries[i].First {
			n++
		}
		more[list] = n
	}
	errs := s.perform(ctx, len(entries), &exchange{
		operation: "append log",
		once:      true,
		args: func(i int, whole bool) []any {
			e, first := &entries[i], "0"
			if e.First {
				first = "1"
			}
			p := s.layout.place(e.Key)
			if s.keeps(e) {
				return keepScript.args(whole, []string{p.kept(), p.log()}, e.Value, s.options.KeptLength, now, first)
			}
			return appendScript.args(whole, []string{p.log(), p.kept()}, e.Value, s.options.LogLength, now, first)
		},
		beside: func(i int) (before, after []any) {
			if !leads[i] {
				return nil, nil
			}
			list, length := s.listOf(&entries[i])
			if more[list] > 0 {
				before = trim(list, length, more[list])
			}
			if s.options.TTL > 0 {
				after = []any{"pexpire", list, s.ttl}
			}
			return before, after
		},
		take: func(_ int, reply any, _ bool) error {
			if reply != "OK" {
				return errForeignLog
			}
			return nil
		},
	})
	if errs == nil {
		return nil
	}
	return store.BatchError(errs)
}

// ReadLog implements store.Log.
func (s *Store) ReadLog(ctx context.Context, key store.Key, before string, limit int) ([][]byte, string, error) {
	if err := s.begin(ctx, "read log"); err != nil {
		return nil, "", err
	}
	position, ok := parsePosition(before)
	if !ok {
		return nil, "", fmt.Errorf("read log: %w: %q", store.ErrInvalidPosition, before)
	}
	var values [][]byte
	var next string
	errs := s.perform(ctx, 1, &exchange{
		operation: "read log",
		args: func(_ int, whole bool) []any {
			p := s.layout.place(key)
			return readScript.args(whole, []string{p.log(), p.kept()}, position.log, position.kept, min(limit, maxPage))
		},
		take: func(_ int, reply any, _ bool) (err error) {
			values, next, err = position.page(reply)
			return err
		},
	})
	return values, next, joined(errs)
}

// maxPage limits the elements of one read.
const maxPage = 1 << 16

// position is that of a page: the numbers of the entries that precede it, of each list. Empty: all
// entries are of the page.
type position struct{ log, kept string }

// maxPosition is larger than all numbers. Lua calculates exactly up to here.
const maxPosition = 1 << 53

// parsePosition parses a position as ReadLog writes it.
func parsePosition(s string) (p position, ok bool) {
	if s == "" {
		return position{}, true
	}
	log, kept, _ := strings.Cut(s, "-")
	return position{log, kept}, end(log) < maxPosition && end(kept) < maxPosition
}

// end returns the number, maxPosition for what is none.
func end(number string) uint64 {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n > maxPosition || strconv.FormatUint(n, 10) != number {
		return maxPosition
	}
	return n
}

// page parses the reply of readScript. All elements must be before the position, and newest first.
func (p position) page(reply any) (values [][]byte, next string, err error) {
	const counts = 3
	elements, _ := reply.([]any)
	if len(elements) < counts {
		return nil, "", errForeignLog
	}
	ends := map[byte]uint64{logFormat: end(p.log), keptFormat: end(p.kept)}
	for _, element := range elements[counts:] {
		text, _ := element.(string)
		number, value, ok := decodeLogged(text)
		if !ok || number >= ends[text[0]] {
			return nil, "", errForeignLog
		}
		ends[text[0]] = number
		values = append(values, []byte(value))
	}
	if elements[2] != int64(0) {
		next = fmt.Sprintf("%d-%d", elements[0], elements[1])
	}
	return values, next, nil
}

// decodeLogged parses an element of a log; false if it is invalid.
func decodeLogged(element string) (number uint64, value string, ok bool) {
	header := logHeader
	if strings.HasPrefix(element, string(rune(keptFormat))) {
		header = keptHeader
	}
	if len(element) < header || element[0] != logFormat && element[0] != keptFormat {
		return 0, "", false
	}
	number = binary.BigEndian.Uint64([]byte(element[:logHeader])) & (1<<56 - 1)
	return number, element[header:], true
}

var errForeignLog = fmt.Errorf("%w: not a log of formats %d and %d; delete the target, or the log alone", store.ErrUnreadable, logFormat, keptFormat)
