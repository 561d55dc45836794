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

	mu sync.Mutex
	// items are the entries in their order, and places of dropped ones, up to as many as there
	// may be entries; guarded by mu, as all that follows.
	items []feedPlace
	held  int // entries in items
	last  store.FeedPosition
	// namespaces and clusters have their entries.
	namespaces map[tenant]*tenantEntries
	clusters   map[string]*tenantEntries
}

// feedPlace is the place of an entry, which may have been dropped.
type feedPlace struct {
	store.FeedItem
	dropped bool
}

type tenant struct{ cluster, namespace string }

// tenantEntries are the numbers of a tenant's entries, in order. Between them may be those of
// dropped ones; the first is held.
type tenantEntries struct {
	numbers []uint64
	held    int
}

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
	if err := store.CheckFeed(entries); err != nil {
		return err
	}
	now := uint64(max(1, f.clock().UnixMilli()))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries {
		f.last = store.FeedPosition{Millis: max(now, f.last.Millis), Number: f.last.Number + 1}
		f.add(feedPlace{FeedItem: store.FeedItem{Position: f.last, Key: e.Key, Value: slices.Clone(e.Value), First: f.last.Number == 1}})
		if f.held > f.length {
			f.drop(f.victim(e.Key))
		}
	}
	return nil
}

// entriesOf returns a key's namespace's and cluster's entries.
func (f *feed) entriesOf(k store.Key) (namespace, cluster *tenantEntries) {
	return f.namespaces[tenant{k.Cluster, k.Namespace}], f.clusters[k.Cluster]
}

// add adds an entry, the newest one.
func (f *feed) add(p feedPlace) {
	namespace, cluster := f.entriesOf(p.Key)
	if cluster == nil {
		if f.namespaces == nil {
			f.namespaces, f.clusters = make(map[tenant]*tenantEntries), make(map[string]*tenantEntries)
		}
		cluster = new(tenantEntries)
		f.clusters[p.Key.Cluster] = cluster
	}
	if namespace == nil {
		namespace = new(tenantEntries)
		f.namespaces[tenant{p.Key.Cluster, p.Key.Namespace}] = namespace
	}
	f.items = append(f.items, p)
	f.held++
	for _, t := range [...]*tenantEntries{namespace, cluster} {
		t.numbers = append(t.numbers, p.Position.Number)
		t.held++
	}
}

// victim returns the index of the entry that goes for the newest one, of that key; see store.Feed.
func (f *feed) victim(newest store.Key) int {
	namespace, cluster := f.entriesOf(newest)
	for f.items[0].dropped {
		f.items = f.items[1:]
	}
	switch {
	case namespace.held > max(1, f.length/store.FeedNamespaceShare):
		return f.oldest(namespace)
	case f.items[0].Key.Cluster != newest.Cluster && cluster.held > max(1, f.length/store.FeedClusterShare):
		return f.oldest(cluster)
	}
	return 0
}

// oldest returns the index of a tenant's oldest entry.
func (f *feed) oldest(t *tenantEntries) int { return f.index(t.numbers[0]) }

// index returns the index of an entry, -1 if it was dropped.
func (f *feed) index(number uint64) int {
	i := sort.Search(len(f.items), func(i int) bool { return f.items[i].Position.Number >= number })
	if i == len(f.items) || f.items[i].Position.Number != number || f.items[i].dropped {
		return -1
	}
	return i
}

// drop drops an entry. What is kept of dropped ones is freed at times.
func (f *feed) drop(i int) {
	p := &f.items[i]
	namespace, cluster := f.entriesOf(p.Key)
	f.held--
	if namespace.held--; namespace.held == 0 {
		delete(f.namespaces, tenant{p.Key.Cluster, p.Key.Namespace})
	}
	if cluster.held--; cluster.held == 0 {
		delete(f.clusters, p.Key.Cluster)
	}
	p.Value, p.dropped = nil, true
	for _, t := range [...]*tenantEntries{namespace, cluster} {
		for t.held > 0 && f.index(t.numbers[0]) < 0 {
			t.numbers = t.numbers[1:]
		}
	}
	if len(f.items) < 2*f.length+1 {
		return
	}
	all := f.items
	f.items, f.held = make([]feedPlace, 0, 2*f.length+1), 0
	clear(f.namespaces)
	clear(f.clusters)
	for i := range all {
		if !all[i].dropped {
			f.add(all[i])
		}
	}
}

// ReadFeed implements store.Feed.
func (s *Store) ReadFeed(ctx context.Context, reads []store.FeedRead, limit int) ([]store.FeedPage, error) {
	if _, err := s.begin(ctx, limit); err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	if err := store.CheckReads(reads, s.FeedParts()); err != nil {
		return nil, err
	}
	f := &s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	pages := make([]store.FeedPage, len(reads))
	for i := range pages {
		pages[i] = f.page(reads[i].After, limit)
	}
	return pages, nil
}

// page reads a page.
func (f *feed) page(after store.FeedPosition, limit int) store.FeedPage {
	page := store.FeedPage{Newest: f.last}
	room := store.MaxFeedPageBytes
	from := sort.Search(len(f.items), func(i int) bool { return after.Before(f.items[i].Position) })
	for i := from; i < len(f.items) && len(page.Items) < limit && room >= store.MaxFeedEntryBytes; i++ {
		if f.items[i].dropped {
			continue
		}
		item := f.items[i].FeedItem
		item.Value = slices.Clone(item.Value)
		room -= item.Bytes()
		page.Items = append(page.Items, item)
	}
	return page
}
