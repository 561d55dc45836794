package store

import "context"

// FeedEntry is one value that all who read the feed are to see. Value remains the caller's;
// engines keep no alias.
type FeedEntry struct {
	Key   Key
	Value []byte
}

// FeedPosition is a place in a part of a feed. The zero value comes before all entries.
type FeedPosition struct {
	// Millis is when the entry was appended, in milliseconds since the Unix epoch by the
	// engine's clock, and never before that of an earlier entry of the part.
	Millis uint64
	// Number counts the entries of the part: each has that of the one before it plus one.
	// Where an engine has lost a part it begins again, with a number that is larger than any
	// before by more than there can be entries between.
	Number uint64
}

// Before reports whether the position comes before the other one, of the same part.
func (p FeedPosition) Before(other FeedPosition) bool {
	return p.Millis < other.Millis || p.Millis == other.Millis && p.Number < other.Number
}

// FeedItem is an entry as it is read. The value belongs to the caller.
type FeedItem struct {
	Position FeedPosition
	Key      Key
	Value    []byte
	// First says that the part began with this entry: none came before it. Who reads another
	// entry first, and found the part empty before, has missed those between. The number tells
	// nothing of that: a part may begin with any.
	First bool
}

// FeedPage is what was read of one part.
type FeedPage struct {
	// Items in their order.
	Items []FeedItem
	// Newest is the position of the part's newest entry; zero: it has none.
	Newest FeedPosition
}

// MaxFeedPageBytes is about what the values of a page take at most, in bytes: a page ends
// with the entry that passes it.
const MaxFeedPageBytes = 32 << 10

// Feed keeps the most recent entries of all keys in the order of their arrival, for watchers:
// best effort, and bounded by a setting of the engine. Engines that implement Store may
// implement it too, and what Store says of contexts, errors and concurrent use holds here.
//
// It is divided into parts; those of one key are in one part, in their order. An entry is
// dropped when there are too many after it; a part expires as a whole, as long after its last
// entry as a record does after its last swap. Delete leaves the feed.
type Feed interface {
	// FeedParts is how many parts there are, the same for all who share the engine's data. 0:
	// no feed is kept.
	FeedParts() int
	// AppendFeed appends the entries in their order.
	AppendFeed(ctx context.Context, entries []FeedEntry) error
	// ReadFeed returns of each part up to limit entries, 0 or more, that come after a
	// position: after is as long as FeedParts. The position need not be one of an entry: with
	// Number 0 it is before all of that millisecond. Without an error the result is as long;
	// with a BatchError too, and it counts where that is nil. It uses one round trip per shard.
	ReadFeed(ctx context.Context, after []FeedPosition, limit int) ([]FeedPage, error)
}
