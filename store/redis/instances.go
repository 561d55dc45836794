package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

var _ store.Instances = (*Store)(nil)

// Announce implements store.Instances, in one round trip.
func (s *Store) Announce(ctx context.Context, before, now []byte, ttl time.Duration) error {
	if err := s.begin(ctx, "announce"); err != nil {
		return err
	}
	errs := s.perform(ctx, 1, &exchange{
		operation: "announce",
		args: func(_ int, whole bool) []any {
			return announceScript.args(whole, []string{s.instances()}, before, now, strconv.FormatInt(max(1, ttl.Milliseconds()), 10))
		},
		take: func(int, any, bool) error { return nil },
	})
	return joined(errs)
}

// Announced implements store.Instances, in one round trip.
func (s *Store) Announced(ctx context.Context, limit int) (values [][]byte, err error) {
	if err := s.begin(ctx, "list instances"); err != nil {
		return nil, err
	}
	errs := s.perform(ctx, 1, &exchange{
		operation: "list instances",
		args: func(_ int, whole bool) []any {
			return announcedScript.args(whole, []string{s.instances()}, strconv.Itoa(max(1, limit)))
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

// instances is the name of the sorted set of announcements, by expiry. It belongs to no
// bucket.
func (s *Store) instances() string { return s.options.KeyPrefix + "instances" }
