package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/store"
)

// Some buckets have a stream each, which takes the entries of a quarter of the buckets. An
// entry's id is its position: its time and its number. The server could number the entries,
// but only within a millisecond; with consecutive numbers a reader sees that entries are
// missing, and how many.

// feedParts is the number of streams. It is part of the layout: enough that the masters of
// a small Cluster share the work, and few enough that a reader can poll all of them often.
const feedParts = 4

// feedStep is after how many entries feedScript looks whose go, all together; a part of a length
// may pass it by as many.
func feedStep(length int) int { return max(1, min(maxFeedStep, length/16)) }

const maxFeedStep = 64

// feedBuckets is how many buckets share a stream.
const feedBuckets = bucketCount / feedParts

// feedFirst is the field of the name in a stream's first entry; feedScript writes it.
const feedFirst = "first"

// feed is the name of a part's stream, and feedIndex that of its entries by tenant, which is no part's.
func (l *layout) feed(part int) string      { return l.bases[part*feedBuckets] + "f" }
func (l *layout) feedIndex(part int) string { return l.feed(part) + "t" }

// FeedParts implements store.Feed.
func (s *Store) FeedParts() int {
	if s.options.FeedLength < 0 {
		return 0
	}
	return feedParts
}

// AppendFeed implements store.Feed. An entry whose answer was lost is not sent again.
func (s *Store) AppendFeed(ctx context.Context, entries []store.FeedEntry) error {
	if err := s.begin(ctx, "append to feed"); err != nil {
		return err
	}
	if s.options.FeedLength < 0 || len(entries) == 0 {
		return nil
	}
	if err := store.CheckFeed(entries); err != nil {
		return err
	}
	var values [feedParts][]any
	for _, e := range entries {
		part := s.layout.bucket(e.Key) / feedBuckets
		values[part] = append(values[part], e.Key.Cluster+"/"+e.Key.Namespace+"/"+e.Key.Target, e.Value)
	}
	var parts []int
	for part := range values {
		if len(values[part]) > 0 {
			parts = append(parts, part)
		}
	}
	length := max(1, s.options.FeedLength/feedParts)
	return joined(s.perform(ctx, len(parts), &exchange{
		operation: "append to feed",
		once:      true,
		args: func(i int, whole bool) []any {
			args := feedScript.args(whole, []string{s.layout.feed(parts[i]), s.layout.feedIndex(parts[i])}, length, s.ttl,
				max(1, length/store.FeedNamespaceShare), max(1, length/store.FeedClusterShare), feedStep(length))
			return append(args, values[parts[i]]...)
		},
		take: func(int, any, bool) error { return nil },
	}))
}

// ReadFeed implements store.Feed.
func (s *Store) ReadFeed(ctx context.Context, reads []store.FeedRead, limit int) ([]store.FeedPage, error) {
	if err := s.begin(ctx, "read feed"); err != nil {
		return nil, err
	}
	if err := store.CheckReads(reads, s.FeedParts()); err != nil {
		return nil, err
	}
	pages := make([]store.FeedPage, len(reads))
	errs := s.perform(ctx, len(reads), &exchange{
		operation: "read feed",
		args: func(i int, whole bool) []any {
			return readFeedScript.args(whole, []string{s.layout.feed(reads[i].Part)}, feedID(reads[i].After), limit, store.MaxFeedPageBytes, store.MaxFeedEntryBytes)
		},
		take: func(i int, reply any, _ bool) (err error) {
			pages[i], err = feedPage(reply)
			return err
		},
	})
	if errs != nil {
		return pages, store.BatchError(errs)
	}
	return pages, nil
}

// feedID returns the id of the entry at a position.
func feedID(p store.FeedPosition) string {
	return strconv.FormatUint(p.Millis, 10) + "-" + strconv.FormatUint(p.Number, 10)
}

// parseFeedID parses an entry's id.
func parseFeedID(id string) (p store.FeedPosition, ok bool) {
	millis, number, ok := strings.Cut(id, "-")
	if !ok {
		return p, false
	}
	var err, err2 error
	p.Millis, err = strconv.ParseUint(millis, 10, 64)
	p.Number, err2 = strconv.ParseUint(number, 10, 64)
	return p, err == nil && err2 == nil
}

var errForeignFeed = fmt.Errorf("%w: not a part of the feed; delete its key", store.ErrUnreadable)

// feedPage parses the reply of readFeedScript: the newest id, then id, the name's field,
// name and value of each entry.
func feedPage(reply any) (page store.FeedPage, err error) {
	all, _ := reply.([]any)
	if len(all) == 0 || len(all)%4 != 1 {
		return page, errForeignFeed
	}
	texts := make([]string, len(all))
	for i := range all {
		var ok bool
		if texts[i], ok = all[i].(string); !ok {
			return page, errForeignFeed
		}
	}
	if texts[0] != "" {
		var ok bool
		if page.Newest, ok = parseFeedID(texts[0]); !ok {
			return page, errForeignFeed
		}
	}
	for texts = texts[1:]; len(texts) > 0; texts = texts[4:] {
		position, ok := parseFeedID(texts[0])
		name := strings.Split(texts[2], "/")
		if !ok || len(name) != 3 {
			return page, errForeignFeed
		}
		page.Items = append(page.Items, store.FeedItem{
			Position: position, Key: store.Key{Cluster: name[0], Namespace: name[1], Target: name[2]}, Value: []byte(texts[3]),
			First: texts[1] == feedFirst,
		})
	}
	return page, nil
}
