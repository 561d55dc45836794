package store

import "context"

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

// FeedPage is what one read returns of one part.
type FeedPage struct {
	// Items in their order.
	Items []FeedItem
	// Newest is the position of the part's newest entry; zero if the part is empty.
	Newest FeedPosition
}

// MaxFeedPageBytes limits the values of a page, in bytes. The entry that passes the limit
// is the page's last.
const MaxFeedPageBytes = 32 << 10

// Feed keeps the most recent entries of all keys in the order of their arrival, for watchers:
// best effort, and bounded by a setting of the engine. Engines that implement Store may
// implement it too, and Store's rules for contexts, errors and concurrent use apply.
//
// The feed is divided into parts; all entries of one key are in one part, in their order. The
// engine drops the oldest entries past its bound. A part expires as a whole, as long after
// its last entry as a record does after its last swap. Delete does not change the feed.
type Feed interface {
	// FeedParts is the number of parts, the same for all instances that share the engine's
	// data. 0: the engine keeps no feed.
	FeedParts() int
	// AppendFeed appends the entries in their order.
	AppendFeed(ctx context.Context, entries []FeedEntry) error
	// ReadFeed returns up to limit entries, 0 or more, of each part that follow a position.
	// after has FeedParts elements. A position need not be that of an entry: one with Number 0
	// precedes all entries of its millisecond. Without an error the result has FeedParts
	// elements; with a BatchError too, and an element is valid where the error is nil. It uses
	// one round trip per shard.
	ReadFeed(ctx context.Context, after []FeedPosition, limit int) ([]FeedPage, error)
}
