package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// A log is a list. Its elements are the format byte, the entry's number in seven bytes,
// and the value. A list takes hardly more memory than its elements, whereas a stream
// takes some kilobytes for its first entry.
//
// The numbers of a log are consecutive, so that the first element's number locates any
// element. A log begins with the time in microseconds, which is larger than all numbers
// of a deleted log.
const (
	logFormat = 1
	logHeader = 8
)

// AppendLog implements store.Log. It uses one round trip per shard. It does not send an
// entry again whose reply was lost.
func (s *Store) AppendLog(ctx context.Context, entries []store.LogEntry) error {
	if err := s.begin(ctx, "append log"); err != nil {
		return err
	}
	if s.options.LogLength < 0 {
		return nil
	}
	// One entry is about to be added. A range from -0 would be all.
	length, from, to := strconv.Itoa(s.options.LogLength), strconv.Itoa(1-s.options.LogLength), "-1"
	if s.options.LogLength == 1 {
		from, to = "1", "0"
	}
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	errs := s.perform(ctx, len(entries), &exchange{
		operation: "append log",
		once:      true,
		args: func(i int, whole bool) []any {
			e, first := &entries[i], "0"
			if e.First {
				first = "1"
			}
			return appendScript.args(whole, []string{s.layout.place(e.Key).log()}, e.Value, length, now, first)
		},
		beside: func(i int) (before, after []any) {
			log := s.layout.place(entries[i].Key).log()
			if !entries[i].First {
				before = []any{"ltrim", log, from, to}
			}
			if s.options.TTL > 0 {
				after = []any{"pexpire", log, s.ttl}
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

// ReadLog implements store.Log. A position is the number of the entry that precedes it.
func (s *Store) ReadLog(ctx context.Context, key store.Key, before string, limit int) ([][]byte, string, error) {
	if err := s.begin(ctx, "read log"); err != nil {
		return nil, "", err
	}
	end, ok := parsePosition(before)
	if !ok {
		return nil, "", fmt.Errorf("read log: %w: %q", store.ErrInvalidPosition, before)
	}
	limit = min(limit, maxPage)
	var values [][]byte
	var next string
	errs := s.perform(ctx, 1, &exchange{
		operation: "read log",
		args: func(_ int, whole bool) []any {
			// One extra element shows whether there are more.
			return readScript.args(whole, []string{s.layout.place(key).log()}, before, limit+1)
		},
		take: func(_ int, reply any, _ bool) (err error) {
			values, next, err = logPage(reply, end, limit)
			return err
		},
	})
	return values, next, joined(errs)
}

// maxPage limits the elements of one read.
const maxPage = 1 << 16

// logPage parses the reply of readScript: elements, oldest first, one more than the
// limit if there are more. All must be before end.
func logPage(reply any, end uint64, limit int) (values [][]byte, next string, err error) {
	elements, ok := reply.([]any)
	if !ok {
		return nil, "", errForeignLog
	}
	for i := len(elements) - 1; i >= 0 && len(values) < limit; i-- {
		text, _ := elements[i].(string)
		number, value, ok := decodeLogged(text)
		if !ok || number >= end {
			return nil, "", errForeignLog
		}
		end = number
		values = append(values, []byte(value))
	}
	if len(elements) > limit {
		next = strconv.FormatUint(end, 10)
	}
	return values, next, nil
}

// decodeLogged parses an element of a log; false if it is invalid.
func decodeLogged(element string) (number uint64, value string, ok bool) {
	if len(element) < logHeader || element[0] != logFormat {
		return 0, "", false
	}
	number = binary.BigEndian.Uint64([]byte(element[:logHeader])) & (1<<56 - 1)
	return number, element[logHeader:], true
}

var errForeignLog = fmt.Errorf("%w: not a log of format %d; delete the target, or the log alone", store.ErrUnreadable, logFormat)

// maxPosition is larger than all numbers. Lua calculates exactly up to here.
const maxPosition = 1 << 53

// parsePosition parses a position as ReadLog writes it.
func parsePosition(s string) (end uint64, ok bool) {
	if s == "" {
		return maxPosition, true
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n > 0 && n < maxPosition && strconv.FormatUint(n, 10) == s
}
