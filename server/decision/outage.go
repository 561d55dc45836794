package decision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxUnwrittenBytes limits the histories that wait until the store is back. Beyond
	// it calls are refused as if their targets had no history here.
	maxUnwrittenBytes = 256 << 20
	// maxHeldBytes limits the entries of the log that wait with them. Beyond it they are given to the log at
	// once, which loses them if it is away, too.
	maxHeldBytes = 16 << 20
	// unwrittenOverhead is about what a history takes besides its bytes.
	unwrittenOverhead = 256
	// writeBackBatch is how many of them are written at a time.
	writeBackBatch = 500
	// maxWriteBacks limits the attempts for one batch, each lost to other callers.
	maxWriteBacks = 16
)

// outage keeps the histories of decisions that were made while the store was
// unreachable (Options.HoldDown), and writes them when the store is back.
type outage struct {
	targets *Targets

	// mu is not locked while a decision is made, which may call the store: a history is
	// kept only if it builds on the last one.
	mu        sync.Mutex
	unwritten map[store.Key]*unwritten // guarded by mu
	bytes     int                      // size of unwritten, guarded by mu
	held      int                      // size of the entries in unwritten, guarded by mu
	// deleting counts the deletions of a target in progress, guarded by mu: until they end
	// none of its histories is written, which would restore it.
	deleting map[store.Key]int
}

// unwritten is a history that is not in the store.
type unwritten struct {
	// record has the history, and the version in the store from which it continues.
	record store.Record
	// entries are for the log, which is in the same store: it gets them when the history is written. Guarded by mu.
	entries []decisionlog.Entry
}

func newOutage(t *Targets) *outage {
	return &outage{targets: t, unwritten: make(map[store.Key]*unwritten), deleting: make(map[store.Key]int)}
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

// lastKnown returns the last record of the key that this instance knows, and its unwritten
// history, if any. The caller has locked mu.
func (o *outage) lastKnown(key store.Key) (store.Record, *unwritten, bool) {
	if u := o.unwritten[key]; u != nil {
		return u.record, u, true
	}
	record, ok := o.targets.cache.get(key)
	return record, nil, ok
}

// keepAfter is keep for a history that was made from u, nil: from the cached record. It
// reports whether u is still the last one; otherwise it keeps nothing.
func (o *outage) keepAfter(u *unwritten, key store.Key, continues store.Record, value []byte) (last, room bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwritten[key] != u {
		return false, false
	}
	return true, o.keep(key, continues, value)
}

// keep keeps a history that continues the record. It reports whether there is enough
// memory. The caller has locked mu.
func (o *outage) keep(key store.Key, continues store.Record, value []byte) bool {
	change := len(value) + unwrittenOverhead
	if u := o.unwritten[key]; u != nil {
		change -= len(u.record.Value) + unwrittenOverhead
	}
	if o.bytes+change > maxUnwrittenBytes {
		return false
	}
	o.bytes += change
	next := &unwritten{record: store.Record{Version: continues.Version, Value: value}}
	if u := o.unwritten[key]; u != nil {
		next.entries = u.entries
	}
	o.unwritten[key] = next
	return true
}

// hold keeps what the log keeps for long of a decision just kept, and returns the rest, which is for the log now.
func (o *outage) hold(key store.Key, entries []decisionlog.Entry) (rest []decisionlog.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.unwritten[key]
	for i := range entries {
		if size := entries[i].Size(); u != nil && entries[i].Final() && o.held+size <= maxHeldBytes {
			u.entries = append(u.entries, entries[i])
			o.held += size
		} else {
			rest = append(rest, entries[i])
		}
	}
	return rest
}

// forget drops the history if it is still that one, and returns its entries for the log.
func (o *outage) forget(key store.Key, u *unwritten) []decisionlog.Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u == nil || o.unwritten[key] != u {
		return nil // a later one has them
	}
	o.remove(key, u)
	return u.entries
}

// remove removes the history. The caller has locked mu.
func (o *outage) remove(key store.Key, u *unwritten) {
	o.bytes -= len(u.record.Value) + unwrittenOverhead
	o.held -= u.held()
	delete(o.unwritten, key)
}

// held is the size of its entries.
func (u *unwritten) held() (size int) {
	for i := range u.entries {
		size += u.entries[i].Size()
	}
	return size
}

// drop drops the key's current history, and returns it; nil: there was none.
func (o *outage) drop(key store.Key) *unwritten {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.unwritten[key]
	if u != nil {
		o.remove(key, u)
	}
	return u
}

// beginDelete prevents the key's history from being written until the returned function is
// called.
func (o *outage) beginDelete(key store.Key) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deleting[key]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.deleting[key]--; o.deleting[key] == 0 {
			delete(o.deleting, key)
		}
	}
}

// valueOf returns the key's unwritten history, nil if there is none.
func (o *outage) valueOf(key store.Key) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.unwritten[key]; u != nil {
		return u.record.Value
	}
	return nil
}

// restore undoes drop, unless there is a newer history.
func (o *outage) restore(key store.Key, u *unwritten) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u != nil && o.unwritten[key] == nil {
		o.bytes += len(u.record.Value) + unwrittenOverhead
		o.held += u.held()
		o.unwritten[key] = u
	}
}

// decide decides without the store, on the last history that this instance knows, and
// withholds scale-downs. It reports whether it could.
func (o *outage) decide(j *Job) bool {
	now := j.Now
	// A history decided without the store has no version.
	j.history = nil
	if j.Input.HoldDown = true; j.doubtful {
		// A decision that may be recorded is repeated for the same instant.
		j.Now, j.Input.Again = j.Decision.At, true
	}
	defer func() { j.Input.HoldDown, j.Input.Again, j.Now = false, false, now }()
	for range o.targets.Options.MaxAttempts {
		o.mu.Lock()
		known, u, ok := o.lastKnown(j.Key)
		o.mu.Unlock()
		if !ok {
			return false
		}
		value := j.decide(known, nil)
		if j.done() {
			return true
		}
		switch last, room := o.keepAfter(u, j.Key, known, value); {
		case !last: // another decision came first: decide again on its history
		case !room:
			return false
		default:
			o.targets.Metrics.heldDown.Inc()
			j.concluded = o.hold(j.Key, j.concluded)
			j.recorded()
			return true
		}
	}
	return false
}

// settle settles a change without the store. It reports whether it could.
func (o *outage) settle(key store.Key, id recommender.ID, outcome recommender.Outcome, message string) (before, after record.Record, s recommender.Settlement, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, _, ok := o.lastKnown(key)
	if !ok {
		return before, after, s, false
	}
	before, err := record.Decode(known.Value)
	if err != nil {
		return before, after, s, false
	}
	s, after, err = before.Settle(key.Namespace, id, outcome, message)
	if err != nil {
		return before, after, s, false
	}
	return before, after, s, !s.Changed || o.keep(key, known, record.Append(nil, &after))
}

// writeBack writes all unwritten histories, or those of the given keys, and returns the first error. It goes on as long as
// some can be written: the others may be of a shard that does not respond.
func (o *outage) writeBack(ctx context.Context, keys ...store.Key) (first error) {
	if len(keys) == 0 {
		o.mu.Lock()
		for key := range o.unwritten {
			keys = append(keys, key)
		}
		o.mu.Unlock()
	}
	for part := range slices.Chunk(keys, writeBackBatch) {
		some, err := o.writeBackBatch(ctx, part)
		if first = cmp.Or(first, err); !some {
			break
		}
	}
	return first
}

// writeBackBatch writes the keys' histories, merged with what other instances wrote
// meanwhile. It returns the first error, and whether some had none.
func (o *outage) writeBackBatch(ctx context.Context, keys []store.Key) (some bool, first error) {
	writes := make([]writeBack, len(keys))
	queues := make([]*queue, len(keys))
	for i, key := range keys {
		writes[i] = writeBack{outage: o, key: key}
		queues[i] = new(queue)
		queues[i].begin(key, &writes[i])
	}
	r := rounds{Targets: o.targets, before: o.askDeletions, inTime: true}
	r.run(ctx, queues)
	for i := range writes {
		some, first = some || writes[i].err == nil, cmp.Or(first, writes[i].err)
	}
	return some, first
}

// askDeletions reads when the targets were deleted, if the store keeps that. It must run
// after their records were loaded: a later deletion makes the swap fail.
func (o *outage) askDeletions(ctx context.Context, queues []*queue) error {
	if o.targets.deletions == nil {
		return nil
	}
	keys := make([]store.Key, len(queues))
	for i, q := range queues {
		keys[i] = q.key
	}
	deleted, err := o.targets.deletions.DeletedAt(ctx, keys)
	if err != nil {
		return err
	}
	for i, q := range queues {
		q.changes[0].(*writeBack).deleted = deleted[i]
	}
	return nil
}

// writeBack is the change that writes an unwritten history.
type writeBack struct {
	*outage
	key store.Key
	// deleted is when the target was last deleted, zero: never.
	deleted  time.Time
	attempts int
	// written is the history that is being written, and settled are for the log with it: the change that the merge settled.
	written *unwritten
	settled []decisionlog.Entry
	done    bool
	err     error
}

// next implements change. It merges the current history: a decision repeated meanwhile
// may have taken back later ones.
func (w *writeBack) next(stored store.Record, _ bool, _ []byte) []byte {
	w.attempts++
	w.mu.Lock()
	w.written = w.unwritten[w.key]
	deleting := w.deleting[w.key] > 0
	w.mu.Unlock()
	if w.written == nil || deleting { // it was already written, or the target is, or was, deleted
		w.done = true
		return nil
	}
	// A deletion that failed may be known, too: what it was to delete is still there.
	if wasDeleted(w.written.record, w.deleted) && !wasDeleted(stored, w.deleted) {
		w.targets.Log.Info("decisions of an outage dropped: their target was deleted meanwhile", zap.Stringer("target", w.key))
		w.targets.cache.put(w.key, store.Record{})
		w.end()
		return nil
	}
	value, settled, err := mergeRecords(stored, w.written.record, w.targets.Decisions)
	w.settled = settled
	if err != nil {
		w.targets.Log.Error("decisions of an outage not written", zap.Stringer("target", w.key), zap.Error(err))
		w.end()
		return nil
	}
	return value
}

// end drops the history, which is written or obsolete, and returns its entries for the log.
func (w *writeBack) end() []decisionlog.Entry {
	w.done = true
	return w.forget(w.key, w.written)
}

// ended implements change.
func (w *writeBack) ended() bool { return w.done || w.err != nil }

// undoGuess implements change: it is based on the stored record.
func (w *writeBack) undoGuess() bool { return false }

// swapped implements change.
func (w *writeBack) swapped(result store.SwapResult, _ []byte) {
	switch {
	case result.Swapped:
		w.targets.Decisions.Append(w.key, append(w.end(), w.settled...)...)
	case w.attempts >= maxWriteBacks:
		// Others write all the time: the next check, or the caller, tries again.
		w.err = fmt.Errorf("%w: lost every race to other callers", store.ErrUnavailable)
	}
}

// fail implements change. An unreadable record stays, and the history is dropped.
func (w *writeBack) fail(_ context.Context, err error, _ bool) {
	if !errors.Is(err, store.ErrUnreadable) {
		w.err = err
		return
	}
	w.targets.Log.Error("decisions of an outage not written: the stored history is unreadable", zap.Stringer("target", w.key), zap.Error(err))
	w.drop(w.key)
	w.done = true
}

// wasDeleted reports whether the history is that of a target that was deleted since: it
// must not be restored, whether or not there is a new target of that name.
func wasDeleted(local store.Record, deleted time.Time) bool {
	if deleted.IsZero() {
		return false
	}
	known, err := record.Decode(local.Value)
	return err == nil && known.Since <= deleted.UnixNano()
}

// mergeRecords merges two records of a target: local continued while stored was unreachable. It returns an entry for the
// log of a change that was pending on one side, and that the merge settled by what the other side saw.
func mergeRecords(stored, local store.Record, log *decisionlog.Log) ([]byte, []decisionlog.Entry, error) {
	if !stored.Exists() || stored.Version == local.Version {
		return local.Value, nil, nil
	}
	theirs, err := record.Decode(stored.Value)
	if err != nil {
		return nil, nil, err
	}
	ours, err := record.Decode(local.Value)
	if err != nil {
		return nil, nil, err
	}
	merged := record.Merge(&theirs, &ours)
	merged.Shadows = shadows.Merge(theirs.Shadows, ours.Shadows, ours.Updated.After(theirs.Updated))
	var settled []decisionlog.Entry
	for _, sides := range [][2]*record.Record{{&theirs, &ours}, {&ours, &theirs}} {
		side, other := sides[0], sides[1]
		isPending := func(s recommender.Settled) bool { return s.ID == side.Pending.ID }
		if side.Pending == nil || other.Last.ID == side.Pending.ID || slices.ContainsFunc(other.Settled, isPending) {
			continue // nothing, or the other side has logged it, or will
		}
		if i := slices.IndexFunc(merged.Settled, isPending); i >= 0 {
			settled = append(settled, log.OfSettled(side, &side.Status, merged.Settled[i].Outcome))
		}
	}
	return record.Append(nil, &merged), settled, nil
}

const (
	// finishTime is how long a stop at least tries to write the unwritten histories.
	finishTime = 3 * time.Second
	// finishPause is the pause between two attempts.
	finishPause = 100 * time.Millisecond
)

// finish retries writing before a stop, until the context ends or finishTime has passed, whichever is later: the store
// may come back, and nobody else has these histories.
func (o *outage) finish(drain context.Context) {
	end := time.Now().Add(finishTime)
	if until, ok := drain.Deadline(); ok && until.After(end) {
		end = until
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	if n := o.pending(); n > 0 {
		o.targets.Log.Info("writing decisions of an outage before the stop", zap.Int("targets", n), zap.Duration("timeout", time.Until(end)))
	}
	for o.pending() > 0 {
		err := o.writeBack(ctx)
		if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			o.targets.Log.Error("decisions of an outage are lost with this instance", zap.Int("targets", o.pending()), zap.Error(err))
			return
		case <-time.After(finishPause):
		}
	}
}
