package redis

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/store"
)

// pendingSwap is a swap on its way.
type pendingSwap struct {
	key store.Key
	old store.Version
	// raw is the record to write.
	raw []byte
	// result counts unless there is an err.
	result store.SwapResult
	err    error
	// done is closed when it is, for a swap that somebody waits for.
	done chan struct{}
}

// begin takes a swap. The record to write is appended to b, which is returned.
func (p *pendingSwap) begin(swap *store.Swap, b []byte) []byte {
	p.key, p.old, p.result.Record.Version = swap.Key, swap.Old, newVersion()
	before := len(b)
	b = append(append(b, p.result.Record.Version...), swap.Value...)
	p.raw = b[before:len(b):len(b)]
	return b
}

// CompareAndSwap implements store.Store. Swaps of concurrent callers share round trips.
func (s *Store) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if err := s.begin(ctx, "swap"); err != nil {
		return store.SwapResult{}, err
	}
	return s.coalesce(ctx, &swap)
}

// CompareAndSwapBatch implements store.Store.
func (s *Store) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	if err := s.begin(ctx, "swap"); err != nil {
		return nil, err
	}
	size := 0
	for i := range swaps {
		size += versionLength + len(swaps[i].Value)
	}
	slab, raw := make([]pendingSwap, len(swaps)), make([]byte, 0, size)
	pending := make([]*pendingSwap, len(swaps))
	for i := range swaps {
		raw = slab[i].begin(&swaps[i], raw)
		pending[i] = &slab[i]
	}
	failed := s.performSwaps(ctx, pending)
	results := make([]store.SwapResult, len(swaps))
	for i, p := range pending {
		results[i] = p.result
	}
	if !failed {
		return results, nil
	}
	errs := make(store.BatchError, len(swaps))
	for i, p := range pending {
		errs[i] = p.err
	}
	return results, errs
}

// errOvertaken says that it is not known whether something happened: its first answer
// was lost, and another change has happened since.
var errOvertaken = fmt.Errorf("%w: an answer was lost and the key has changed since", store.ErrUnavailable)

// performSwaps performs swaps in one round trip per shard and reports whether any
// failed.
func (s *Store) performSwaps(ctx context.Context, swaps []*pendingSwap) (failed bool) {
	created := 0
	errs := s.perform(ctx, len(swaps), &exchange{
		operation: "swap",
		durable:   true,
		command: func(i int, whole bool) command {
			return newCommand(ctx, s.swapArgs(swaps[i], whole)...)
		},
		take: func(i int, reply any, doubtful bool) error {
			if _, swapped := reply.(int64); !swapped {
				return s.lost(swaps[i], reply, doubtful)
			}
			swaps[i].result.Swapped = true
			if swaps[i].old == "" {
				created++
			}
			return nil
		},
	})
	s.sweeper.owe(created)
	for i, err := range errs {
		if err != nil {
			swaps[i].err, swaps[i].result = err, store.SwapResult{}
		}
	}
	return errs != nil
}

// lost takes what stands in the way of a swap, nil for nothing.
func (s *Store) lost(p *pendingSwap, reply any, doubtful bool) (err error) {
	if doubtful {
		return errOvertaken
	}
	s.stats.conflicts.Add(1)
	p.result.Record = store.Record{}
	if raw, stands := reply.(string); stands {
		p.result.Record, err = decodeRecord(raw)
	}
	return err
}

func (s *Store) swapArgs(p *pendingSwap, whole bool) []any {
	at := s.layout.place(p.key)
	if p.old == "" {
		return createScript.args(whole, []string{at.record(), at.index()}, "", p.raw, s.ttl, at.member())
	}
	return swapScript.args(whole, []string{at.record()}, string(p.old), p.raw, s.ttl)
}
