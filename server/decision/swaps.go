package decision

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/internal/deadline"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

// change is a change of a target's record: a decision, a reported outcome, or an unwritten
// history.
type change interface {
	// next returns the value to store in place of the record; guessed reports that the
	// record comes from the cache. The value is built in room if that is large enough.
	// If the change has ended, the value is an optional clean-up, nil for none.
	next(record store.Record, guessed bool, room []byte) []byte
	// ended reports that nothing is left to do, successful or not.
	ended() bool
	// undoGuess undoes an end based on a guess, and reports whether it did.
	undoGuess() bool
	// swapped passes the result of swapping in the value.
	swapped(result store.SwapResult, value []byte)
	// fail ends a change after an error of the store, or, before a swap, because the
	// caller has gone. With swapping, the value may be stored.
	fail(ctx context.Context, err error, swapping bool)
}

// queue is the changes of one target, the next one first.
type queue struct {
	key     store.Key
	changes []change
	record  store.Record
	// guessed reports whether the record comes from the cache.
	guessed bool
	// lost is how many swaps of the next change lost a race.
	lost int
	// first avoids an allocation in the usual case of one change.
	first [1]change
}

// begin sets the queue's only change.
func (q *queue) begin(key store.Key, c change) {
	q.key, q.first[0] = key, c
	q.changes = q.first[:]
}

// rounds apply the changes of many targets: they decide the next change of each on its current
// record, swap all in one round trip, and decide those that lost a race again on the new record.
// Records are written nowhere else.
type rounds struct {
	*Targets
	// before is called with the targets to decide, once their records are loaded. Nil:
	// not called. Its error ends their changes.
	before func(context.Context, []*queue) error
	// inTime makes swaps end with the context; otherwise a swap in progress is
	// finished.
	inTime bool

	// room is memory for values; what is left of it, for nothing in it is used twice. Nil:
	// it is allocated. It is part of kept, which stays for the next run; inKept reports whether this one has
	// used that.
	room   []byte
	kept   []byte
	inKept bool

	swaps    []store.Swap
	swapping []*queue
	doubtful []*queue
	keys     []store.Key
	// one, single and result are for the usual call with one change.
	one    queue
	single [1]*queue
	record [1]store.Record
	result [1]store.SwapResult
}

// lookEvery is after how many changes of a round the call's context is looked at again, which
// reads the clock.
const lookEvery = 16

// ofOne pools rounds of one change.
var ofOne = sync.Pool{New: func() any { return new(rounds) }}

// change makes one change of a target. It loads the record unless it is guessed.
func (t *Targets) change(ctx context.Context, key store.Key, c change, record store.Record, guessed bool) {
	r := ofOne.Get().(*rounds)
	r.Targets = t
	q := &r.one
	q.begin(key, c)
	q.record, q.guessed = record, guessed
	r.single[0] = q
	r.run(ctx, r.single[:])
	r.empty(1)
	ofOne.Put(r)
}

// empty keeps only the memory of the lists, which had that many items at most.
func (r *rounds) empty(most int) {
	clear(r.swaps[:min(most, cap(r.swaps))])
	clear(r.swapping[:min(most, cap(r.swapping))])
	clear(r.doubtful[:min(most, cap(r.doubtful))])
	clear(r.keys[:min(most, cap(r.keys))])
	*r = rounds{swaps: r.swaps[:0], swapping: r.swapping[:0], doubtful: r.doubtful[:0], keys: r.keys[:0], kept: r.kept}
}

// run makes the changes of the queues, and loads their records unless they are guessed.
func (r *rounds) run(ctx context.Context, queues []*queue) {
	r.doubtful, r.room, r.inKept = r.doubtful[:0], nil, false
	for _, q := range queues {
		if !q.guessed {
			r.doubtful = append(r.doubtful, q)
		}
	}
	r.load(ctx, r.doubtful)
	for queues = undecided(queues); len(queues) > 0; queues = undecided(queues) {
		r.decide(ctx, queues)
		r.load(ctx, r.doubtful)
		if lost := r.swap(ctx); lost > 0 {
			pause(ctx, lost)
		}
	}
}

// load loads the records of those queues in one round trip.
func (r *rounds) load(ctx context.Context, queues []*queue) {
	if len(queues) == 0 {
		return
	}
	var err error
	records := r.record[:]
	if len(queues) == 1 {
		records[0], err = r.store.Load(ctx, queues[0].key)
	} else {
		r.keys = r.keys[:0]
		for _, q := range queues {
			r.keys = append(r.keys, q.key)
		}
		records, err = r.store.LoadBatch(ctx, r.keys)
	}
	errs := store.ByItem(err, len(queues), len(records))
	for i, q := range queues {
		if errs != nil && errs[i] != nil {
			q.fail(ctx, errs[i], false)
			continue
		}
		r.found(q, records[i])
	}
}

// longestFlight is how far an instance may have decided behind the newest record, by the instant of a call that waited. That
// little needs no repair.
const longestFlight = 15 * time.Second

// found sets the record that the store has. Where it is older than the guess, of the same history, the store has lost data, as
// one that starts from a snapshot or that fails over. If much is lost, windows have forgotten what was answered since, and the
// next step down would come at once. So the guess is merged into it.
func (r *rounds) found(q *queue, stored store.Record) {
	guess, guessed := q.record, q.guessed
	if q.record, q.guessed = stored, false; !guessed {
		return
	}
	if !stored.Exists() {
		r.missed(q.key, guess)
		return
	}
	is, since, read := codec.Times(stored.Value)
	was, wasSince, wasRead := codec.Times(guess.Value)
	// One of the future was corrected, see clock.judges.
	if !read || !wasRead || since != wasSince || is >= was || was > r.clock.now().UnixNano() {
		return
	}
	r.wentBack.Add(1)
	if was-is <= int64(longestFlight) {
		return
	}
	if merged, _, err := mergeRecords(stored, guess, r.Decisions); err == nil {
		q.record.Value = merged
	}
}

// mostMissing limits the histories of which one check of the store asks whether they were deleted.
const mostMissing = 1000

// deletionsLast is how long a store keeps deletions where records live for ever, see store.Deletions.
const deletionsLast = 24 * time.Hour

// missed records that a history is missing that this instance knew. Of one that may have expired, or whose deletion may be
// forgotten, nothing is said.
func (t *Targets) missed(key store.Key, known store.Record) {
	if updated, since, ok := codec.Times(known.Value); ok {
		t.miss(key, time.Unix(0, updated), since)
	}
}

// clocksDiffer is by how much the clocks of a deletion and of a read may differ.
const clocksDiffer = time.Minute

// missedPast is missed for the past of a forecast, which was there at that time.
func (t *Targets) missedPast(key store.Key, read time.Time) {
	t.miss(key, read, read.Add(-clocksDiffer).UnixNano())
}

// miss records that something of a target is missing that was known at an instant. Deletions before since do not explain it.
func (t *Targets) miss(key store.Key, known time.Time, since int64) {
	ttl := cmp.Or(t.Options.HistoryTTL, deletionsLast)
	if t.deletions == nil || t.clock.now().Sub(known) > ttl/2 {
		return
	}
	t.missingMu.Lock()
	defer t.missingMu.Unlock()
	if len(t.missing) < mostMissing {
		t.missing[key] = since
	}
}

// countMissing counts the targets whose histories, or pasts, are missing although nobody deleted them, and returns how many. It drops
// them if the store does not say.
func (t *Targets) countMissing(ctx context.Context) (lost int) {
	t.missingMu.Lock()
	missing := t.missing
	t.missing = map[store.Key]int64{}
	t.missingMu.Unlock()
	if len(missing) == 0 {
		return 0
	}
	keys := slices.Collect(maps.Keys(missing))
	deleted, err := t.deletions.DeletedAt(ctx, keys)
	if err != nil {
		return 0
	}
	for i, key := range keys {
		if deleted[i].IsZero() || deleted[i].UnixNano() < missing[key] {
			lost++
		}
	}
	t.wentBack.Add(uint64(lost))
	return lost
}

// refuseFleets ends the changes of targets that are fleets: of those only members call. It looks at targets without a
// record only, because no fleet is stored of a target with one: it costs a round trip before a target's first record.
func (r *rounds) refuseFleets(ctx context.Context, queues []*queue) {
	if r.Fleets == nil || r.before != nil { // what was decided without the store continues a record
		return
	}
	var unknown []*queue
	for _, q := range queues {
		if !q.record.Exists() {
			unknown = append(unknown, q)
		}
	}
	if len(unknown) == 0 {
		return
	}
	keys := make([]store.Key, len(unknown))
	for i, q := range unknown {
		keys[i] = q.key
	}
	are, beside, errs := r.Fleets.Are(ctx, keys)
	for i, q := range unknown {
		switch {
		case errs != nil && errs[i] != nil:
			q.fail(ctx, errs[i], false)
		case are[i]:
			q.fail(ctx, apierror.IsFleet(q.key.String()), false)
		default:
			for _, c := range q.changes {
				if j, is := c.(*Job); is {
					j.shadows = beside[i]
				}
			}
		}
	}
}

// decide decides the next change of each target and collects the swaps with their queues.
// A change that ends without a swap is followed by the next one, unless it was based on a
// guess, which makes it doubtful. Nothing is decided for a caller who has gone. If the
// server's own time limit has passed, the store returns the error.
func (r *rounds) decide(ctx context.Context, queues []*queue) {
	r.refuseFleets(ctx, queues)
	r.swaps, r.swapping, r.doubtful = slices.Grow(r.swaps[:0], len(queues)), slices.Grow(r.swapping[:0], len(queues)), r.doubtful[:0]
	if r.before != nil {
		if err := r.before(ctx, queues); err != nil {
			for _, q := range queues {
				q.fail(ctx, err, false)
			}
			return
		}
	}
	room := r.roomFor(queues)
	var gone error
	var tidy []store.Swap
	for i, q := range queues {
		if i%lookEvery == 0 {
			gone = apierror.CallerGone(ctx)
		}
		for len(q.changes) > 0 {
			c := q.changes[0]
			if gone != nil {
				q.fail(ctx, gone, false)
				break
			}
			value := c.next(q.record, q.guessed, room)
			if !c.ended() {
				room = room[min(len(value), len(room)):]
				value = value[:len(value):len(value)] // the rest belongs to the next one
				r.swaps = append(r.swaps, store.Swap{Key: q.key, Old: q.record.Version, Value: value})
				r.swapping = append(r.swapping, q)
				break
			}
			if c.undoGuess() {
				r.doubtful = append(r.doubtful, q)
				break
			}
			if q.pop(); value != nil && len(q.changes) == 0 {
				tidy = append(tidy, store.Swap{Key: q.key, Old: q.record.Version, Value: value})
			}
		}
	}
	r.room = room
	_, _ = r.perform(ctx, tidy) // such a swap may fail: the next access of the target repeats it
}

// roomFor returns memory for the next values of the queues; nil: next allocates it in the right size.
func (r *rounds) roomFor(queues []*queue) []byte {
	need := usualRecord
	for _, q := range queues {
		need += max(usualRecord, len(q.record.Value)+usualGrowth)
	}
	if len(r.room) >= need || len(queues) == 1 && need <= mostRoomForValue {
		return r.room
	}
	if r.inKept || len(r.kept) < need {
		room := make([]byte, need+need/8) // records grow
		if r.inKept || len(room) > mostKept {
			return room
		}
		r.kept = room
	}
	r.inKept = true
	return r.kept
}

// mostKept limits the memory for values that is kept for the next run, in bytes.
const mostKept = 4 << 20

// swap performs the collected swaps. It returns the highest number of lost races of a
// change.
func (r *rounds) swap(ctx context.Context) (lost int) {
	since := r.cache.since()
	results, errs := r.perform(ctx, r.swaps)
	for i, q := range r.swapping {
		if errs != nil && errs[i] != nil {
			q.fail(ctx, errs[i], true)
			continue
		}
		value := r.swaps[i].Value
		if results[i].Swapped {
			q.record, q.guessed = store.Record{Version: results[i].Record.Version, Value: value}, false
		} else {
			r.found(q, results[i].Record)
			q.lost++
		}
		r.cache.putSince(since, q.key, q.record)
		c := q.changes[0]
		if c.swapped(results[i], value); c.ended() {
			q.pop()
		} else {
			lost = max(lost, q.lost)
		}
	}
	return lost
}

// perform performs swaps in one round trip. The errors are by swap, nil for none. It
// finishes swaps in progress even if the caller hangs up meanwhile, but starts none for a
// caller who has.
func (r *rounds) perform(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, []error) {
	if len(swaps) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, store.ByItem(err, len(swaps), 0)
	}
	if !r.inTime {
		own := r.detach(ctx)
		defer own.Cancel()
		ctx = own
	}
	if len(swaps) == 1 {
		var err error
		r.result[0], err = r.store.CompareAndSwap(ctx, swaps[0])
		return r.result[:], store.ByItem(err, 1, 1)
	}
	results, err := r.store.CompareAndSwapBatch(ctx, swaps)
	return results, store.ByItem(err, len(swaps), len(results))
}

// pop removes the next change.
func (q *queue) pop() { q.changes, q.lost = q.changes[1:], 0 }

// fail ends the remaining changes.
func (q *queue) fail(ctx context.Context, err error, swapping bool) {
	for i, c := range q.changes {
		c.fail(ctx, err, swapping && i == 0)
	}
	q.changes = nil
}

// undecided keeps the queues with remaining changes.
func undecided(queues []*queue) []*queue {
	return slices.DeleteFunc(queues, func(q *queue) bool { return len(q.changes) == 0 })
}

// pause backs off after lost races: not after the first few, then for a random, growing time up to
// a few milliseconds.
func pause(ctx context.Context, lost int) {
	if lost < 4 {
		return
	}
	deadline.Sleep(ctx, rand.N(time.Duration(min(lost, 16))*250*time.Microsecond))
}
