package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

var _ store.Announcements = (*Store)(nil)

// announcements are lists of values that end. The zero value has none.
type announcements struct {
	mu sync.Mutex
	// lists has the end of each value of each list. Guarded by mu.
	lists map[string]map[string]time.Time
	// swept is when ended values were last removed from all lists. Guarded by mu.
	swept time.Time
}

// sweepAnnouncementsEvery is the time between two removals of all ended announcements.
const sweepAnnouncementsEvery = time.Minute

// Announce implements store.Announcements.
func (s *Store) Announce(ctx context.Context, list string, before, now []byte, ttl time.Duration) error {
	if _, err := s.begin(ctx, 1); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	a, at := &s.announcements, time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if at.Sub(a.swept) >= sweepAnnouncementsEvery {
		a.sweep(at)
	}
	delete(a.lists[list], string(before))
	if len(now) == 0 {
		return nil // an empty list is swept
	}
	if a.lists == nil {
		a.lists = map[string]map[string]time.Time{}
	}
	if a.lists[list] == nil {
		a.lists[list] = map[string]time.Time{}
	}
	a.lists[list][string(now)] = at.Add(max(ttl, time.Millisecond))
	return nil
}

// sweep removes what has ended. The lock is held.
func (a *announcements) sweep(now time.Time) {
	a.swept = now
	for list, values := range a.lists {
		for value, end := range values {
			if !now.Before(end) {
				delete(values, value)
			}
		}
		if len(values) == 0 {
			delete(a.lists, list)
		}
	}
}

// Announced implements store.Announcements.
func (s *Store) Announced(ctx context.Context, list string, limit int) (values [][]byte, err error) {
	if _, err := s.begin(ctx, 1); err != nil {
		return nil, fmt.Errorf("list announcements: %w", err)
	}
	a, now := &s.announcements, time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for value, end := range a.lists[list] {
		if len(values) >= limit {
			break
		}
		if now.Before(end) {
			values = append(values, []byte(value))
		}
	}
	return values, nil
}
