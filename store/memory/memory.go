// Package memory is the store engine of a single process: it keeps everything in memory and
// loses it when the process exits. It suits tests, simulations and a single instance that
// may lose its histories on a restart. Instances that share their targets need a networked
// engine.
//
//	s := memory.New(memory.Options{TTL: 24 * time.Hour})
//	defer s.Close()
//
// It starts no goroutine. Expired data becomes invisible at once; later operations, of any
// key, free it step by step.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// DefaultLogLength is how many log entries are kept per key, unless the options say otherwise.
const DefaultLogLength = 240

// DefaultKeptLength is how many entries are kept per key of those that are kept longer, unless the
// options say otherwise.
const DefaultKeptLength = 400

// Options are the settings of a Store. The zero value keeps records for ever.
type Options struct {
	// TTL is how long a record lives after its last swap, and a log after its
	// last entry. Zero or less: for ever.
	TTL time.Duration
	// LogLength is how many log entries are kept per key, and KeptLength how many of those that
	// are kept longer; with many keys they take more memory than the records. Zero:
	// DefaultLogLength and DefaultKeptLength. Negative: no log; no entry is kept longer.
	LogLength, KeptLength int
	// FeedLength is how many entries the feed keeps, of all keys together. Zero:
	// DefaultFeedLength. Negative: none.
	FeedLength int
	// Clock tells the time that the TTL is measured by. Nil: time.Now. It is
	// called concurrently.
	Clock func() time.Time
}

const (
	// shardCount is the number of shards, large enough that goroutines seldom wait for
	// each other's locks.
	shardCount = 256
	// One operation in sweepEvery checks up to sweepLimit records, and as many logs, of
	// the next shard for expiry. An operation adds at most one of each, so that the
	// store frees expired data faster than it grows.
	sweepEvery = 16
	sweepLimit = 64
	// Most records have a length that hardly changes, and logs grow until they are full; see
	// table.
	recordGrowth, logGrowth = 8, 2
	// usualValue is a size in bytes that most values fit into. While a shard is locked they
	// are copied to the stack, and to the heap afterwards.
	usualValue = 512
	// listStep is how many keys List takes from the index at a time.
	listStep = 256
)

// Store keeps records and logs in memory. It copies values on their way in and
// out and shares no memory with its callers. Create it by New.
type Store struct {
	clock    func() time.Time // nil if nothing expires
	epoch    time.Time        // origin of all instants
	lengths  [2]int           // of logs and of what is kept longer in them, see shard.logs
	versions *versions
	seed     maphash.Seed
	shards   []shard // has shardCount elements
	index    *index  // the keys of all shards' records
	ops      atomic.Uint64
	closed   atomic.Bool
	parts    parts
	feed     feed

	announcements announcements
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Log   = (*Store)(nil)
	_ store.Parts = (*Store)(nil)
	_ store.Feed  = (*Store)(nil)
)

// New returns an empty store.
func New(o Options) *Store {
	s := &Store{
		lengths:  [...]int{cmp.Or(o.LogLength, DefaultLogLength), cmp.Or(o.KeptLength, DefaultKeptLength)},
		versions: newVersions(),
		seed:     maphash.MakeSeed(),
		shards:   make([]shard, shardCount),
		index:    new(index),
	}
	s.parts.clock = o.Clock
	s.feed.length, s.feed.clock = o.FeedLength, o.Clock
	s.feed.length = cmp.Or(s.feed.length, DefaultFeedLength)
	if s.feed.clock == nil {
		s.feed.clock = time.Now
	}
	if o.TTL > 0 {
		s.clock = time.Now
		if o.Clock != nil {
			s.clock = o.Clock
		}
		s.epoch = s.clock()
	}
	for i := range s.shards {
		s.shards[i].records = table[version]{ttl: o.TTL, index: s.index, growth: recordGrowth}
		for j := range s.shards[i].logs {
			s.shards[i].logs[j] = table[int]{ttl: o.TTL, growth: logGrowth}
		}
	}
	return s
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, key store.Key) (store.Record, error) {
	now, err := s.begin(ctx, 1)
	if err != nil {
		return store.Record{}, fmt.Errorf("load: %w", err)
	}
	return s.load(key, now), nil
}

// LoadBatch implements store.Store.
func (s *Store) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	now, err := s.begin(ctx, len(keys))
	if err != nil {
		return nil, fmt.Errorf("load batch of %d: %w", len(keys), err)
	}
	recs := make([]store.Record, len(keys))
	for i, key := range keys {
		recs[i] = s.load(key, now)
	}
	return recs, nil
}

// CompareAndSwap implements store.Store.
func (s *Store) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	now, err := s.begin(ctx, 1)
	if err != nil {
		return store.SwapResult{}, fmt.Errorf("compare and swap: %w", err)
	}
	return s.compareAndSwap(swap, now), nil
}

// CompareAndSwapBatch implements store.Store.
func (s *Store) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	now, err := s.begin(ctx, len(swaps))
	if err != nil {
		return nil, fmt.Errorf("compare and swap batch of %d: %w", len(swaps), err)
	}
	results := make([]store.SwapResult, len(swaps))
	for i, swap := range swaps {
		results[i] = s.compareAndSwap(swap, now)
	}
	return results, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key store.Key) (bool, error) {
	now, err := s.begin(ctx, 1)
	if err != nil {
		return false, fmt.Errorf("delete: %w", err)
	}
	sh := s.find(key)
	return sh.delete(key, now), nil
}

// List implements store.Store. It takes the keys from the index in steps, without
// blocking other operations in between.
func (s *Store) List(ctx context.Context, filter store.Filter, after store.Key, limit int) ([]store.Key, error) {
	var keys []store.Key
	for len(keys) < limit {
		now, err := s.begin(ctx, 1)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		want := min(limit-len(keys), listStep)
		page := s.index.page(filter, after, want)
		ended := len(page) < want
		if !ended {
			after = page[want-1]
		}
		page = slices.DeleteFunc(page, func(k store.Key) bool { return !s.exists(k, now) })
		if keys = append(keys, page...); ended {
			break
		}
	}
	return keys, nil
}

// AppendLog implements store.Log.
func (s *Store) AppendLog(ctx context.Context, entries []store.LogEntry) error {
	now, err := s.begin(ctx, len(entries))
	if err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	if s.lengths[0] < 0 {
		return nil
	}
	for i := range entries {
		sh := s.find(entries[i].Key)
		sh.appendLog(&entries[i], s.lengths, now)
	}
	return nil
}

// ReadLog implements store.Log.
func (s *Store) ReadLog(ctx context.Context, key store.Key, before string, limit int) ([][]byte, string, error) {
	now, err := s.begin(ctx, 1)
	if err != nil {
		return nil, "", fmt.Errorf("read log: %w", err)
	}
	from, err := parsePosition(before)
	if err != nil {
		return nil, "", fmt.Errorf("read log: %w", err)
	}
	sh := s.find(key)
	values, next := sh.readLog(key, from, limit, s.lengths, now)
	return values, next.String(), nil
}

// Ping implements store.Store. It succeeds while the store is open.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.begin(ctx, 0); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// Close implements store.Store. The garbage collector frees the memory once the store
// is unreachable.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return fmt.Errorf("close: %w", store.ErrClosed)
	}
	s.parts.close()
	return nil
}

// begin starts every operation: it refuses an operation on a closed store or with a
// context that is over, sweeps what an operation on n keys owes, and returns the
// current time since the epoch.
func (s *Store) begin(ctx context.Context, n int) (now time.Duration, err error) {
	if s.closed.Load() {
		return 0, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if s.clock == nil {
		return 0, nil
	}
	now = s.clock().Sub(s.epoch)
	s.sweep(now, n)
	return now, nil
}

// sweep frees expired data on behalf of n operations.
func (s *Store) sweep(now time.Duration, n int) {
	ops := s.ops.Add(uint64(n))
	for turn := (ops - uint64(n)) / sweepEvery; turn < ops/sweepEvery; turn++ {
		s.shards[turn%shardCount].sweep(now, sweepLimit)
	}
}

func (s *Store) load(key store.Key, now time.Duration) store.Record {
	var value copied
	has := s.find(key).load(key, now, &value)
	return store.Record{Version: s.versions.write(has), Value: value.bytes()}
}

func (s *Store) compareAndSwap(swap store.Swap, now time.Duration) store.SwapResult {
	var value copied
	has, swapped := s.find(swap.Key).compareAndSwap(swap.Key, s.versions.read(swap.Old), s.versions.next(), swap.Value, now, &value)
	return store.SwapResult{Swapped: swapped, Record: store.Record{Version: s.versions.write(has), Value: value.bytes()}}
}

func (s *Store) exists(key store.Key, now time.Duration) bool {
	sh := s.find(key)
	_, exists := sh.size(key, now)
	return exists
}

func (s *Store) find(key store.Key) *shard {
	return &s.shards[maphash.Comparable(s.seed, key)%shardCount]
}
