package servertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// FaultyStore is a memory store with hooks around loads and swaps, of single and
// of batch calls alike. A nil hook stands for none. A hook does the operation, if
// at all, by the function it is given.
type FaultyStore struct {
	*memory.Store
	OnLoad func(ctx context.Context, key store.Key, load LoadFunc) (store.Record, error)
	OnSwap func(ctx context.Context, swap store.Swap, compareAndSwap SwapFunc) (store.SwapResult, error)
	// deleted is when keys were deleted, as engines know that several instances share.
	deleted sync.Map
	// OnParts is called before parts of a key are read, all of them or those of at most that many bytes, which fails
	// with its error.
	OnParts func(ctx context.Context, key store.Key, most int) error
	// OnTime is the store's clock; nil: it does not tell.
	OnTime func() time.Time
	// OnUsage is called before a count of the store, which fails with its error.
	OnUsage func() error
	// OnFleet makes the swaps of fleets' records. Nil: the store does.
	OnFleet func(context.Context, store.Swap, SwapFunc) (store.SwapResult, error)
	// OnOverrides is called before overrides are read, which fails with its error.
	OnOverrides func() error
	// OnForecasts is called before the past of targets is read, which fails with its error.
	OnForecasts func() error
	// OnOther is called before a list or a delete, which fails with its error.
	OnOther func() error
}

type (
	// LoadFunc loads a record as the store does.
	LoadFunc = func(context.Context, store.Key) (store.Record, error)
	// SwapFunc swaps a record as the store does.
	SwapFunc = func(context.Context, store.Swap) (store.SwapResult, error)
)

// Load implements store.Store.
func (f *FaultyStore) Load(ctx context.Context, key store.Key) (store.Record, error) {
	if f.OnLoad == nil {
		return f.Store.Load(ctx, key)
	}
	return f.OnLoad(ctx, key, f.Store.Load)
}

// LoadBatch implements store.Store.
func (f *FaultyStore) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	records := make([]store.Record, len(keys))
	for i, key := range keys {
		var err error
		if records[i], err = f.Load(ctx, key); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// CompareAndSwap implements store.Store.
func (f *FaultyStore) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if f.OnSwap == nil {
		return f.Store.CompareAndSwap(ctx, swap)
	}
	return f.OnSwap(ctx, swap, f.Store.CompareAndSwap)
}

// CompareAndSwapBatch implements store.Store.
func (f *FaultyStore) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	results := make([]store.SwapResult, len(swaps))
	for i, swap := range swaps {
		var err error
		if results[i], err = f.CompareAndSwap(ctx, swap); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// LoadParts implements store.Parts.
func (f *FaultyStore) LoadParts(ctx context.Context, key store.Key, most int, parts ...store.Part) ([]store.Record, error) {
	if f.OnParts != nil {
		if err := f.OnParts(ctx, key, most); err != nil {
			return nil, err
		}
	}
	return f.Store.LoadParts(ctx, key, most, parts...)
}

// Part implements store.Parts.
func (f *FaultyStore) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := f.Store.Part(part, ttl)
	switch {
	case err != nil:
	case part == store.Fleets && f.OnFleet != nil:
		return &faultyFleets{records, f.OnFleet}, nil
	case part == store.Overrides && f.OnOverrides != nil:
		return &faultyReads{records, f.OnOverrides}, nil
	case part == store.Forecasts && f.OnForecasts != nil:
		return &faultyReads{records, f.OnForecasts}, nil
	}
	return records, err
}

// faultyFleets are records of fleets whose swaps may fail.
type faultyFleets struct {
	store.PartStore
	hook func(context.Context, store.Swap, SwapFunc) (store.SwapResult, error)
}

// CompareAndSwap implements store.Store.
func (f *faultyFleets) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	return f.hook(ctx, swap, f.PartStore.CompareAndSwap)
}

// faultyReads are records that may fail to be read.
type faultyReads struct {
	store.PartStore
	fail func() error
}

// LoadBatch implements store.Store.
func (f *faultyReads) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	return f.PartStore.LoadBatch(ctx, keys)
}

// LoadVersions implements store.PartStore.
func (f *faultyReads) LoadVersions(ctx context.Context, keys []store.Key) ([]store.Version, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	return f.PartStore.LoadVersions(ctx, keys)
}

// List implements store.Store.
func (f *FaultyStore) List(ctx context.Context, filter store.Filter, after store.Key, limit int) ([]store.Key, error) {
	if f.OnOther != nil {
		if err := f.OnOther(); err != nil {
			return nil, err
		}
	}
	return f.Store.List(ctx, filter, after, limit)
}

// Delete implements store.Store.
func (f *FaultyStore) Delete(ctx context.Context, key store.Key) (bool, error) {
	if f.OnOther != nil {
		if err := f.OnOther(); err != nil {
			return false, err
		}
	}
	existed, err := f.Store.Delete(ctx, key)
	if existed {
		f.deleted.Store(key, time.Now())
	}
	return existed, err
}

// Time implements store.Clock.
func (f *FaultyStore) Time(context.Context) (time.Time, error) {
	if f.OnTime == nil {
		return time.Time{}, errors.ErrUnsupported
	}
	return f.OnTime(), nil
}

// Usage implements store.Usages.
func (f *FaultyStore) Usage(ctx context.Context, cluster string) (store.Usage, error) {
	if f.OnUsage != nil {
		if err := f.OnUsage(); err != nil {
			return store.Usage{}, err
		}
	}
	return f.Store.Usage(ctx, cluster)
}

// DeletedAt implements store.Deletions.
func (f *FaultyStore) DeletedAt(_ context.Context, keys []store.Key) ([]time.Time, error) {
	at := make([]time.Time, len(keys))
	for i, key := range keys {
		if t, ok := f.deleted.Load(key); ok {
			at[i] = t.(time.Time)
		}
	}
	return at, nil
}

// HoldingDown lets a service answer without its store, from what it remembers.
func HoldingDown(su *Setup) { su.Options.HoldDown, su.Options.CacheBytes = true, 32<<20 }

// Spuriously loses races without a winner: in one swap of n another caller writes
// first, either the same value, or a deletion and creation.
func Spuriously(n int) func(context.Context, store.Swap, SwapFunc) (store.SwapResult, error) {
	return func(ctx context.Context, swap store.Swap, compareAndSwap SwapFunc) (store.SwapResult, error) {
		if rand.IntN(n) == 0 && swap.Old != "" {
			// A version that never existed, so that the store returns the current
			// record.
			swap.Old = "nobody's"
		}
		return compareAndSwap(ctx, swap)
	}
}

// Contents is everything in the service's store: records of all parts and logs, as text.
func (s *Service) Contents(tb testing.TB) string {
	tb.Helper()
	var all strings.Builder
	dump := func(name string, engine store.Store) {
		keys, err := engine.List(tb.Context(), store.Filter{}, store.Key{}, 1000)
		fatal.If(tb, err)
		for _, key := range keys {
			record, err := engine.Load(tb.Context(), key)
			fatal.If(tb, err)
			entries, _, err := s.Memory.ReadLog(tb.Context(), key, "", 1000)
			fatal.If(tb, err)
			fmt.Fprintf(&all, "%s %s: %q %q\n", name, key, record.Value, entries)
		}
	}
	dump("history", s.Memory)
	for part, ttl := range stored.Lives {
		records, err := s.Memory.Part(part, ttl)
		fatal.If(tb, err)
		dump(string(part), records)
	}
	lines := strings.Split(all.String(), "\n")
	slices.Sort(lines) // parts are in no order
	return strings.Join(lines, "\n")
}

// OnRedis opens an engine on a real Redis; each call one more on the same data.
func OnRedis(t *testing.T) func() store.Engine {
	t.Helper()
	url := redistest.Start(t, redistest.Config{}).URL()
	return func() store.Engine { return Redis(t, url, Unhurried) }
}

// Faults are hooks of a faulty store that a test turns on.
type Faults struct{ On atomic.Bool }

// FailLoads fails loads while the faults are on.
func (f *Faults) FailLoads(err error) func(*Setup) {
	return func(su *Setup) {
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load LoadFunc) (store.Record, error) {
			if f.On.Load() {
				return store.Record{}, err
			}
			return load(ctx, key)
		}
	}
}

// FailSwaps makes swaps fail while the faults are on; with happen they take effect
// nevertheless.
func (f *Faults) FailSwaps(err error, happen bool) func(*Setup) {
	return func(su *Setup) {
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap SwapFunc) (store.SwapResult, error) {
			if !f.On.Load() {
				return compareAndSwap(ctx, swap)
			}
			if happen {
				if _, err := compareAndSwap(ctx, swap); err != nil {
					return store.SwapResult{}, err
				}
			}
			return store.SwapResult{}, err
		}
	}
}

// Put stores a value under a target as someone else might.
func (s *Service) Put(tb testing.TB, name string, value []byte) {
	tb.Helper()
	record, err := s.Memory.Load(tb.Context(), KeyOf(name))
	if err == nil {
		_, err = s.Memory.CompareAndSwap(tb.Context(), store.Swap{Key: KeyOf(name), Old: record.Version, Value: value})
	}
	fatal.If(tb, err)
}

// Unhurried gives calls a minute: other tests may keep the processors busy.
func Unhurried(o *redis.Options) { o.Timeout = time.Minute }

// Redis returns an engine on the server at a URL, which the end of the test closes.
func Redis(tb testing.TB, url string, changes ...func(*redis.Options)) *redis.Store {
	tb.Helper()
	options, err := redis.ParseURL(url)
	fatal.If(tb, err)
	for _, change := range changes {
		change(&options)
	}
	engine, err := redis.New(options)
	fatal.If(tb, err)
	tb.Cleanup(func() { _ = engine.Close() })
	return engine
}
