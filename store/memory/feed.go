package memory

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// DefaultFeedLength is how many entries the feed keeps unless the options say otherwise.
const DefaultFeedLength = 20_000

// feed is the newest entries of all keys, in one part. It need not expire: it is bounded,
// and only this process reads it.
type feed struct {
	length int
	clock  func() time.Time

	mu    sync.Mutex
	items []store.FeedItem // guarded by mu; a ring once it is full
	first int              // index of the oldest; guarded by mu
	last  store.FeedPosition
}

// at returns the i-th oldest entry.
func (f *feed) at(i int) *store.FeedItem { return &f.items[(f.first+i)%len(f.items)] }

// FeedParts implements store.Feed.
func (s *Store) FeedParts() int {
	if s.feed.length < 0 {
		return 0
	}
	return 1
}

// AppendFeed implements store.Feed.
func (s *Store) AppendFeed(ctx context.Context, entries []store.FeedEntry) error {
	if _, err := s.begin(ctx, len(entries)); err != nil {
		return fmt.Errorf("append to feed: %w", err)
	}
	f := &s.feed
	if f.length < 0 {
		return nil
	}
	now := uint64(max(1, f.clock().UnixMilli()))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries {
		f.last = store.FeedPosition{Millis: max(now, f.last.Millis), Number: f.last.Number + 1}
		item := store.FeedItem{Position: f.last, Key: e.Key, Value: slices.Clone(e.Value), First: f.last.Number == 1}
		if len(f.items) < f.length {
			f.items = append(f.items, item)
			continue
		}
		f.items[f.first] = item
		f.first = (f.first + 1) % len(f.items)
	}
	return nil
}

// ReadFeed implements store.Feed.
func (s *Store) ReadFeed(ctx context.Context, after []store.FeedPosition, limit int) ([]store.FeedPage, error) {
	if _, err := s.begin(ctx, limit); err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	if len(after) != s.FeedParts() {
		return nil, fmt.Errorf("read feed: %d positions of %d parts", len(after), s.FeedParts())
	}
	f := &s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	pages := make([]store.FeedPage, len(after))
	for i := range pages {
		pages[i] = f.page(after[i], limit)
	}
	return pages, nil
}

// page reads a page. f.mu is held.
func (f *feed) page(after store.FeedPosition, limit int) store.FeedPage {
	page := store.FeedPage{Newest: f.last}
	bytes := 0
	from := sort.Search(len(f.items), func(i int) bool { return after.Before(f.at(i).Position) })
	for i := from; i < len(f.items) && len(page.Items) < limit && bytes < store.MaxFeedPageBytes; i++ {
		item := *f.at(i)
		item.Value = slices.Clone(item.Value)
		bytes += len(item.Value)
		page.Items = append(page.Items, item)
	}
	return page
}
