package server_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// faultyStore is a memory store with hooks around loads and swaps, of single and
// of batch calls alike. A nil hook stands for none. A hook does the operation, if
// at all, by the function it is given.
type faultyStore struct {
	*memory.Store
	load func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error)
	swap func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error)
	// deleted is when keys were deleted, as engines know that several instances share.
	deleted sync.Map
	// time is the store's clock; nil: it does not tell.
	time func() time.Time
	// usage is called before a count of the store, which fails with its error.
	usage func() error
	// other is called before a list or a delete, which fails with its error.
	other func() error
}

type (
	loadFunc = func(context.Context, store.Key) (store.Record, error)
	swapFunc = func(context.Context, store.Swap) (store.SwapResult, error)
)

func (f *faultyStore) Load(ctx context.Context, key store.Key) (store.Record, error) {
	if f.load == nil {
		return f.Store.Load(ctx, key)
	}
	return f.load(ctx, key, f.Store.Load)
}

func (f *faultyStore) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	records := make([]store.Record, len(keys))
	for i, key := range keys {
		var err error
		if records[i], err = f.Load(ctx, key); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (f *faultyStore) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if f.swap == nil {
		return f.Store.CompareAndSwap(ctx, swap)
	}
	return f.swap(ctx, swap, f.Store.CompareAndSwap)
}

func (f *faultyStore) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	results := make([]store.SwapResult, len(swaps))
	for i, swap := range swaps {
		var err error
		if results[i], err = f.CompareAndSwap(ctx, swap); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (f *faultyStore) List(ctx context.Context, filter store.Filter, after store.Key, limit int) ([]store.Key, error) {
	if f.other != nil {
		if err := f.other(); err != nil {
			return nil, err
		}
	}
	return f.Store.List(ctx, filter, after, limit)
}

func (f *faultyStore) Delete(ctx context.Context, key store.Key) (bool, error) {
	if f.other != nil {
		if err := f.other(); err != nil {
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
func (f *faultyStore) Time(context.Context) (time.Time, error) {
	if f.time == nil {
		return time.Time{}, errors.ErrUnsupported
	}
	return f.time(), nil
}

// Usage implements store.Usages.
func (f *faultyStore) Usage(ctx context.Context, cluster string) (store.Usage, error) {
	if f.usage != nil {
		if err := f.usage(); err != nil {
			return store.Usage{}, err
		}
	}
	return f.Store.Usage(ctx, cluster)
}

// DeletedAt implements store.Deletions.
func (f *faultyStore) DeletedAt(_ context.Context, keys []store.Key) ([]time.Time, error) {
	at := make([]time.Time, len(keys))
	for i, key := range keys {
		if t, ok := f.deleted.Load(key); ok {
			at[i] = t.(time.Time)
		}
	}
	return at, nil
}
