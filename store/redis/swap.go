package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/store"
)

// pendingSwap is a swap in progress.
type pendingSwap struct {
	key store.Key
	// old is the version to replace, record the name of the record, and raw its new
	// content. Arguments point to these fields, which saves allocations.
	old, record, raw string
	whenFull         bool
	args             [maxSwapArgs]any
	// result is valid if err is nil.
	result store.SwapResult
	err    error
	// done receives a value when the swap is done, if a caller waits.
	done chan struct{}
}

// maxSwapArgs is the number of arguments of a createScript command, which has the most.
const maxSwapArgs = 9

// texts is a buffer for the arguments of swaps, one after the other.
type texts struct{ strings.Builder }

// since returns what was written since that offset.
func (t *texts) since(from int) string { return t.String()[from:] }

// size estimates the bytes that a swap needs in the buffer.
func (l *layout) size(swap *store.Swap) int {
	const separators = len("sh://")
	return versionLength + len(swap.Value) + l.longest + separators + len(swap.Key.Cluster) + len(swap.Key.Namespace) + len(swap.Key.Target)
}

// begin prepares a swap.
func (p *pendingSwap) begin(l *layout, swap *store.Swap, to *texts) {
	from := to.Len()
	version := newVersion()
	to.Write(version[:])
	to.Write(swap.Value)
	p.raw = to.since(from)
	p.key, p.old, p.whenFull = swap.Key, string(swap.Old), swap.WhenFull
	p.result = store.SwapResult{Record: store.Record{Version: store.Version(p.raw[:versionLength])}}
	from = to.Len()
	l.writeRecord(to, swap.Key)
	p.record = to.since(from)
}

// CompareAndSwap implements store.Store. Concurrent callers share round trips.
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
		size += s.layout.size(&swaps[i])
	}
	var to texts
	to.Grow(size)
	slab, pending := make([]pendingSwap, len(swaps)), make([]*pendingSwap, len(swaps))
	for i := range swaps {
		slab[i].begin(s.layout, &swaps[i], &to)
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

// errOvertaken means that it is unknown whether the swap took effect: its first reply
// was lost, and the key has changed since.
var errOvertaken = fmt.Errorf("%w: a reply was lost and the key has changed since", store.ErrUnavailable)

// performSwaps performs swaps in one round trip per shard and reports whether any
// failed.
func (s *Store) performSwaps(ctx context.Context, swaps []*pendingSwap) (failed bool) {
	created := 0
	errs := s.perform(ctx, len(swaps), &exchange{
		operation: "swap",
		durable:   true,
		args:      func(i int, whole bool) []any { return s.swapArgs(swaps[i], whole) },
		beside:    func(i int) (before, after []any) { return s.indexArgs(swaps[i]), nil },
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
	s.sweeper.addDebt(created)
	for i, err := range errs {
		if err != nil {
			swaps[i].err, swaps[i].result = err, store.SwapResult{}
		}
	}
	return errs != nil
}

// lost handles the conflicting record of a swap, nil for none.
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
	args := p.args[:0]
	if p.old != "" {
		if args = append(swapScript.appendHead(args, whole, 1), &p.record, &p.old, &p.raw, s.ttl); p.whenFull {
			args = append(args, "1")
		}
		return args
	}
	at := s.layout.place(p.key)
	return append(createScript.appendHead(args, whole, 2), &p.record, at.index(), "", &p.raw, s.ttl, at.member())
}

// indexArgs returns the arguments of the command that enters a new key into the index; nil if
// the key exists. If the key is not created then, the index has an entry without a record
// until a listing or a sweep finds it.
func (s *Store) indexArgs(p *pendingSwap) []any {
	if p.old != "" {
		return nil
	}
	at := s.layout.place(p.key)
	return []any{"zadd", at.index(), 0, at.member()}
}
