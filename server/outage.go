package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxUnwrittenBytes bounds the histories that wait for the store to come back.
	// Beyond it calls are refused as if nothing were known of their targets.
	maxUnwrittenBytes = 256 << 20
	// unwrittenOverhead is about what a history takes besides its bytes.
	unwrittenOverhead = 256
	// writeBackBatch is how many of them are written at a time.
	writeBackBatch = 500
	// maxWriteBacks bounds the attempts for one batch, each lost to other callers.
	maxWriteBacks = 16
)

// outage keeps what was decided while the store was away, for instances that are to
// answer all the same (Options.HoldDown), and writes it once the store is back.
type outage struct {
	targets *targets

	// mu is also held while a decision is made, so that each builds on the last.
	mu        sync.Mutex
	unwritten map[store.Key]*unwritten // guarded by mu
	bytes     int                      // of unwritten, guarded by mu
}

// unwritten is a history that is not in the store.
type unwritten struct {
	// record has the history, and the version in the store that it continues.
	record store.Record
}

func newOutage(t *targets) *outage {
	return &outage{targets: t, unwritten: make(map[store.Key]*unwritten)}
}

// pending returns how many histories are not in the store.
func (o *outage) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unwritten)
}

// has reports whether the key's history is not in the store.
func (o *outage) has(key store.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unwritten) > 0 && o.unwritten[key] != nil
}

// lastKnown returns what this instance knows of the key without the store. mu is held.
func (o *outage) lastKnown(key store.Key) (store.Record, bool) {
	if u := o.unwritten[key]; u != nil {
		return u.record, true
	}
	return o.targets.cache.get(key)
}

// keep takes a history that continues the record. It reports whether there is room.
// mu is held.
func (o *outage) keep(key store.Key, continues store.Record, value []byte) bool {
	change := len(value) + unwrittenOverhead
	if u := o.unwritten[key]; u != nil {
		change -= len(u.record.Value) + unwrittenOverhead
	}
	if o.bytes+change > maxUnwrittenBytes {
		return false
	}
	o.bytes += change
	o.unwritten[key] = &unwritten{store.Record{Version: continues.Version, Value: value}}
	return true
}

// forget drops the history if it is still that one.
func (o *outage) forget(key store.Key, u *unwritten) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwritten[key] == u {
		o.bytes -= len(u.record.Value) + unwrittenOverhead
		delete(o.unwritten, key)
	}
}

// drop drops the key's history and returns it; nil: there was none.
func (o *outage) drop(key store.Key) *unwritten {
	o.mu.Lock()
	u := o.unwritten[key]
	o.mu.Unlock()
	if u != nil {
		o.forget(key, u)
	}
	return u
}

// valueOf returns the key's history that is not in the store, nil if there is none.
func (o *outage) valueOf(key store.Key) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.unwritten[key]; u != nil {
		return u.record.Value
	}
	return nil
}

// restore undoes drop, unless there is another history by now.
func (o *outage) restore(key store.Key, u *unwritten) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u != nil && o.unwritten[key] == nil {
		o.bytes += len(u.record.Value) + unwrittenOverhead
		o.unwritten[key] = u
	}
}

// decide decides without the store, on what this instance last knew of the target,
// and withholds scale-downs. It reports whether it could.
func (o *outage) decide(j *job) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.lastKnown(j.key)
	if !ok {
		return false
	}
	now := j.now
	if j.input.HoldDown = true; j.doubtful {
		// One that was recorded is to be the same one, at no other instant.
		j.now, j.input.Again = j.decision.At, true
	}
	value := o.targets.decide(j, known, nil)
	j.input.HoldDown, j.input.Again, j.now = false, false, now
	if j.done() {
		return true
	}
	if !o.keep(j.key, known, value) {
		return false
	}
	o.targets.metrics.heldDown.Inc()
	o.targets.recorded(j)
	return true
}

// settle settles a change without the store. It reports whether it could.
func (o *outage) settle(key store.Key, id recommender.ID, outcome recommender.Outcome, message string) (before, after recommender.History, s recommender.Settlement, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.lastKnown(key)
	if !ok {
		return before, after, s, false
	}
	before, err := recommender.DecodeHistory(known.Value)
	if err != nil {
		return before, after, s, false
	}
	s, after, err = recommender.Settle(before, key.Namespace, id, outcome, message)
	if err != nil {
		return before, after, s, false
	}
	return before, after, s, !s.Changed || o.keep(key, known, after.AppendBinary(nil))
}

// writeBack writes all histories that are not in the store, or those of the keys
// given. It stops at the first error.
func (o *outage) writeBack(ctx context.Context, keys ...store.Key) error {
	if len(keys) == 0 {
		o.mu.Lock()
		for key := range o.unwritten {
			keys = append(keys, key)
		}
		o.mu.Unlock()
	}
	for len(keys) > 0 {
		n := min(len(keys), writeBackBatch)
		if err := o.writeBackBatch(ctx, keys[:n]); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// writeBackBatch writes the keys' histories, merged with what others wrote meanwhile.
func (o *outage) writeBackBatch(ctx context.Context, keys []store.Key) error {
	for range maxWriteBacks {
		left, _ := o.unwrittenOf(keys)
		if len(left) == 0 {
			return nil
		}
		records, err := o.targets.store.LoadBatch(ctx, left)
		// What is merged is what is known now that the store answers: a decision that was made
		// again meanwhile has taken back what was decided since.
		known, locals := o.unwrittenOf(left)
		if len(known) < len(left) {
			continue // some were written, or deleted
		}
		if err != nil {
			if o.giveUpUnreadable(left, locals, err) {
				continue
			}
			return err
		}
		deleted, err := o.deletedAt(ctx, left)
		if err != nil {
			return err
		}
		if err := o.swapBatch(ctx, left, locals, records, deleted); err != nil {
			return err
		}
	}
	// Others write all the time: the next check, or the caller, tries again.
	return fmt.Errorf("%w: lost to other callers each time", store.ErrUnavailable)
}

// unwrittenOf returns those of the keys whose histories are not in the store, and these.
func (o *outage) unwrittenOf(keys []store.Key) (left []store.Key, locals []*unwritten) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		if u := o.unwritten[key]; u != nil {
			left, locals = append(left, key), append(locals, u)
		}
	}
	return left, locals
}

// deletedAt returns when the keys were deleted, nil where the store does not know. It is
// asked after their records were loaded: a delete that comes later makes the swap fail.
func (o *outage) deletedAt(ctx context.Context, keys []store.Key) ([]time.Time, error) {
	if deletions := o.targets.deletions; deletions != nil {
		return deletions.DeletedAt(ctx, keys)
	}
	return make([]time.Time, len(keys)), nil
}

// wasDeleted reports whether the history is that of a target that was deleted since: it
// must not come back, whether or not there is a new one of that name.
func wasDeleted(local store.Record, deleted time.Time) bool {
	if deleted.IsZero() {
		return false
	}
	h, err := recommender.DecodeHistory(local.Value)
	return err == nil && h.Since <= deleted.UnixNano()
}

// giveUpUnreadable drops what can't be written because what stands in the store
// can't be read, and reports whether there was such: then the rest is tried again.
func (o *outage) giveUpUnreadable(keys []store.Key, locals []*unwritten, err error) bool {
	var failed store.BatchError
	if !errors.As(err, &failed) || len(failed) != len(keys) {
		return false
	}
	found := false
	for i, err := range failed {
		if errors.Is(err, store.ErrUnreadable) {
			o.targets.log.Error("decisions of an outage not written: the stored history is unreadable", zap.Stringer("target", keys[i]), zap.Error(err))
			o.forget(keys[i], locals[i])
			found = true
		}
	}
	return found
}

// swapBatch swaps what could be loaded.
func (o *outage) swapBatch(ctx context.Context, keys []store.Key, locals []*unwritten, records []store.Record, deleted []time.Time) error {
	var swaps []store.Swap
	var swapped []*unwritten
	for i, key := range keys {
		if wasDeleted(locals[i].record, deleted[i]) {
			o.targets.log.Info("decisions of an outage dropped: their target was deleted meanwhile", zap.Stringer("target", key))
			o.targets.cache.put(key, store.Record{})
			o.forget(key, locals[i])
			continue
		}
		value, err := mergeHistories(records[i], locals[i].record)
		if err != nil {
			o.targets.log.Error("decisions of an outage not written", zap.Stringer("target", key), zap.Error(err))
			o.forget(key, locals[i])
			continue
		}
		swaps = append(swaps, store.Swap{Key: key, Old: records[i].Version, Value: value})
		swapped = append(swapped, locals[i])
	}
	if len(swaps) == 0 {
		return nil
	}
	results, err := o.targets.store.CompareAndSwapBatch(ctx, swaps)
	for i := range results {
		if results[i].Swapped {
			o.targets.cache.put(swaps[i].Key, store.Record{Version: results[i].Record.Version, Value: swaps[i].Value})
			o.forget(swaps[i].Key, swapped[i])
		}
	}
	return err
}

// mergeHistories returns the history that knows what both records know: local was
// continued while stored could not be reached.
func mergeHistories(stored, local store.Record) ([]byte, error) {
	if !stored.Exists() || stored.Version == local.Version {
		return local.Value, nil
	}
	theirs, err := recommender.DecodeHistory(stored.Value)
	if err != nil {
		return nil, err
	}
	ours, err := recommender.DecodeHistory(local.Value)
	if err != nil {
		return nil, err
	}
	merged := recommender.Merge(theirs, ours)
	return merged.AppendBinary(nil), nil
}

const (
	// finishTime bounds how long a stop tries to write what an outage has left.
	finishTime = 3 * time.Second
	// finishPause is the time between two tries.
	finishPause = 100 * time.Millisecond
)

// finish writes what it can before a stop: a store that has just come back may not
// answer at once.
func (o *outage) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	for o.pending() > 0 {
		err := o.writeBack(ctx)
		if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			o.targets.log.Error("decisions of an outage are lost with this instance", zap.Int("targets", o.pending()), zap.Error(err))
			return
		case <-time.After(finishPause):
		}
	}
}
