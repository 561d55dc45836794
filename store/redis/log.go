package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/store"
)

// logField is the field of a stream's entries that holds the value.
const logField = "v"

// AppendLog implements store.Log. It uses one round trip per shard. An entry whose
// answer was lost is not sent again.
func (s *Store) AppendLog(ctx context.Context, entries []store.LogEntry) error {
	if err := s.begin(ctx, "append log"); err != nil {
		return err
	}
	if s.options.LogLength < 0 || len(entries) == 0 {
		return nil
	}
	type action struct {
		key   string
		value []byte // nil: prolong the log's life
	}
	actions := make([]action, 0, 2*len(entries))
	last := make(map[store.Key]int, len(entries))
	for i, e := range entries {
		last[e.Key] = i
	}
	for i, e := range entries {
		key := s.layout.place(e.Key).log()
		actions = append(actions, action{key, append([]byte{}, e.Value...)})
		if s.ttl != "0" && last[e.Key] == i {
			actions = append(actions, action{key: key})
		}
	}
	errs := s.perform(ctx, len(actions), &exchange{
		operation: "append log",
		once:      true,
		command: func(i int, _ bool) command {
			a := actions[i]
			if a.value == nil {
				return newCommand(ctx, "pexpire", a.key, s.ttl)
			}
			return newCommand(ctx, "xadd", a.key, "maxlen", "=", s.options.LogLength, "*", logField, a.value)
		},
		take: func(int, any, bool) error { return nil },
	})
	if errs == nil {
		return nil
	}
	return store.BatchError(errs)
}

// ReadLog implements store.Log. A position is the stream id of the entry before it.
func (s *Store) ReadLog(ctx context.Context, key store.Key, before string, limit int) ([][]byte, string, error) {
	if err := s.begin(ctx, "read log"); err != nil {
		return nil, "", err
	}
	end := "+"
	if before != "" {
		if !validPosition(before) {
			return nil, "", fmt.Errorf("read log: %w: %q", store.ErrInvalidPosition, before)
		}
		end = "(" + before
	}
	limit = min(limit, maxPage)
	var values [][]byte
	var next string
	errs := s.perform(ctx, 1, &exchange{
		operation: "read log",
		command: func(int, bool) command {
			// One more tells whether there is more.
			return newCommand(ctx, "xrevrange", s.layout.place(key).log(), end, "-", "count", limit+1)
		},
		take: func(_ int, reply any, _ bool) (err error) {
			values, next, err = logPage(reply, limit)
			return err
		},
	})
	return values, next, joined(errs)
}

// maxPage bounds what is asked for at once.
const maxPage = 1 << 16

// logPage reads XREVRANGE's reply: pairs of an id and the fields.
func logPage(reply any, limit int) (values [][]byte, next string, err error) {
	entries, _ := reply.([]any)
	more := len(entries) > limit
	if more {
		entries = entries[:limit]
	}
	var id string
	for _, entry := range entries {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return nil, "", errForeignLog
		}
		fields, _ := pair[1].([]any)
		id, _ = pair[0].(string)
		if len(fields) != 2 || fields[0] != logField {
			return nil, "", errForeignLog
		}
		value, _ := fields[1].(string)
		values = append(values, []byte(value))
	}
	if more {
		next = id
	}
	return values, next, nil
}

var errForeignLog = fmt.Errorf("%w: a log entry without field %q", store.ErrUnreadable, logField)

// validPosition reports whether the string is a stream id, in the form that Redis
// writes, that something can come before.
func validPosition(s string) bool {
	ms, seq, ok := strings.Cut(s, "-")
	if !ok || s == "0-0" {
		return false
	}
	for _, part := range []string{ms, seq} {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != part {
			return false
		}
	}
	return true
}
