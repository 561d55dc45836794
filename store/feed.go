package store

import (
	"context"
	"fmt"
)

// FeedEntry is one value for every reader of the feed. Value remains the caller's; engines
// keep no alias.
type FeedEntry struct {
	Key   Key
	Value []byte
}

// FeedPosition is a position in one part of a feed. The zero value precedes all
// entries.
type FeedPosition struct {
	// Millis is when the entry was appended, in milliseconds since the Unix epoch by the
	// engine's clock; it never decreases within a part.
	Millis uint64
	// Number counts the entries of a part: each entry's is one more than its predecessor's.
	// An engine that lost a part starts it again with a larger number than any before, by
	// more than there can be entries in between.
	Number uint64
}

// Before reports whether the position comes before the other one, of the same part.
func (p FeedPosition) Before(other FeedPosition) bool {
	return p.Millis < other.Millis || p.Millis == other.Millis && p.Number < other.Number
}

// FeedItem is an entry read from the feed. The value belongs to the caller.
type FeedItem struct {
	Position FeedPosition
	Key      Key
	Value    []byte
	// First reports that the part began with this entry. A reader that found the part empty
	// and then reads an entry without First has missed entries; Number cannot show that,
	// because a part may begin with any number.
	First bool
}

// FeedRead asks for the entries of one part that follow a position. It need not be that of an
// entry: one with Number 0 precedes all entries of its millisecond.
type FeedRead struct {
	Part  int
	After FeedPosition
}

// FeedPage is what one read returns of one part.
type FeedPage struct {
	// Items in their order.
	Items []FeedItem
	// Newest is the position of the part's newest entry; zero if the part is empty.
	Newest FeedPosition
}

const (
	// MaxFeedEntryBytes limits the names of an entry's key and its value together, in bytes.
	MaxFeedEntryBytes = 2 << 10
	// MaxFeedPageBytes limits a page, counted in the same way. Entries of earlier versions may
	// be larger; a page with these has no more entries than any other.
	MaxFeedPageBytes = 32 << 10
)

// Bytes is the size of an entry, which MaxFeedEntryBytes limits.
func (e *FeedEntry) Bytes() int { return feedBytes(&e.Key, e.Value) }

// Bytes is the size of the entry, see FeedEntry.Bytes.
func (i *FeedItem) Bytes() int { return feedBytes(&i.Key, i.Value) }

func feedBytes(k *Key, value []byte) int {
	const separators = len("//")
	return len(k.Cluster) + len(k.Namespace) + len(k.Target) + separators + len(value)
}

// CheckFeed fails if an entry is too large.
func CheckFeed(entries []FeedEntry) error {
	for i := range entries {
		if n := entries[i].Bytes(); n > MaxFeedEntryBytes {
			return fmt.Errorf("append to feed: an entry of %v has %d bytes, more than %d", entries[i].Key, n, MaxFeedEntryBytes)
		}
	}
	return nil
}

// Shares of a full part of the feed. Of a namespace or a cluster that has more, one over share, the
// next entry replaces one of its own, so that a burst does not replace what others wrote.
const (
	FeedNamespaceShare = 8
	FeedClusterShare   = 4
)

// Feed keeps the most recent entries of all keys in the order of their arrival, for watchers:
// best effort, and bounded by a setting of the engine. Engines that implement Store may
// implement it too, and Store's rules for contexts, errors and concurrent use apply.
//
// The feed is divided into parts; all entries of one key are in one part, in their order. Past
// its bound a part drops, for each new entry, the oldest one of the same namespace if that has
// more than one FeedNamespaceShare-th of the part; else another of the same cluster if that has
// more than one FeedClusterShare-th and the oldest of all is not its own; else the oldest of
// all. A reader sees from the numbers that entries are missing. A part expires as a whole, as
// long after its last entry as a record does after its last swap. Delete does not change the
// feed. An engine may drop several at a time, so that a part passes its bound by up to a sixteenth.
type Feed interface {
	// FeedParts is the number of parts, the same for all instances that share the engine's
	// data. 0: the engine keeps no feed.
	FeedParts() int
	// AppendFeed appends the entries in their order; none if one is larger than MaxFeedEntryBytes.
	AppendFeed(ctx context.Context, entries []FeedEntry) error
	// ReadFeed returns up to limit entries, 0 or more, for each read. Without an error the
	// result has as many elements; with a BatchError too, and an element is valid where the error
	// is nil. It uses one round trip per shard, and the engine reads little more than it returns.
	ReadFeed(ctx context.Context, reads []FeedRead, limit int) ([]FeedPage, error)
}

// CheckReads fails if a part does not exist.
func CheckReads(reads []FeedRead, parts int) error {
	for _, r := range reads {
		if r.Part < 0 || r.Part >= parts {
			return fmt.Errorf("read feed: part %d of %d", r.Part, parts)
		}
	}
	return nil
}
