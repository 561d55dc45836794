package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

var _ store.Announcements = (*Store)(nil)

// Announce implements store.Announcements, in one round trip. A list is a sorted set by expiry, whose
// key belongs to no bucket.
func (s *Store) Announce(ctx context.Context, list string, before, now []byte, ttl time.Duration) error {
	if err := s.begin(ctx, "announce"); err != nil {
		return err
	}
	errs := s.perform(ctx, 1, &exchange{
		operation: "announce",
		args: func(_ int, whole bool) []any {
			return announceScript.args(whole, []string{s.options.KeyPrefix + list}, before, now, strconv.FormatInt(max(1, ttl.Milliseconds()), 10))
		},
		take: func(int, any, bool) error { return nil },
	})
	return joined(errs)
}

// Announced implements store.Announcements, in one round trip.
func (s *Store) Announced(ctx context.Context, list string, limit int) (values [][]byte, err error) {
	if err := s.begin(ctx, "list announcements"); err != nil {
		return nil, err
	}
	errs := s.perform(ctx, 1, &exchange{
		operation: "list announcements",
		args: func(_ int, whole bool) []any {
			return announcedScript.args(whole, []string{s.options.KeyPrefix + list}, strconv.Itoa(max(1, limit)))
		},
		take: func(_ int, reply any, _ bool) error {
			members, _ := reply.([]any)
			values = make([][]byte, 0, len(members))
			for _, member := range members {
				text, _ := member.(string)
				values = append(values, []byte(text))
			}
			return nil
		},
	})
	return values, joined(errs)
}
