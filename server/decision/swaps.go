package decision

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

// change is a change of a target's record: a decision, the report of a scale, or an unwritten
// history.
type change interface {
	// next returns the value to store in place of what is stored, guessed: of what was
	// remembered of it. It begins where the room does, if there is enough. Of a change
	// that has ended then it is what may be stored besides, if anything.
	next(record store.Record, guessed bool, room []byte) []byte
	// ended reports that nothing is left to be done, whether it succeeded or not.
	ended() bool
	// doubt takes back an end that a guess led to, and reports whether it did.
	doubt() bool
	// swapped takes the outcome of the swap to the value.
	swapped(result store.SwapResult, value []byte)
	// fail ends a change that the store failed, or whose caller is gone: then beforehand.
	// What was being swapped may be stored.
	fail(ctx context.Context, err error, swapping bool)
}

// queue is the changes of one target, the next one first.
type queue struct {
	key     store.Key
	changes []change
	record  store.Record
	// guessed reports whether the record is only remembered.
	guessed bool
	// lost is how many swaps of the next change others came before.
	lost int
	// first is room for the one change that most targets have.
	first [1]change
}

// begin has the queue hold that change.
func (q *queue) begin(key store.Key, c change) {
	q.key, q.first[0] = key, c
	q.changes = q.first[:]
}

// rounds apply the changes of many targets: they decide the next change of each on its current
// record, swap all in one round trip, and decide those that lost a race again on the new record.
// It is the only place where records are written.
type rounds struct {
	*Targets
	// before is called with the targets that are about to be decided, once their records
	// are known. Nil: nothing is. An error of it ends their changes.
	before func(context.Context, []*queue) error
	// inTime has swaps end with the context; otherwise what was begun is finished.
	inTime bool

	swaps    []store.Swap
	swapping []*queue
	doubtful []*queue
	keys     []store.Key
	// one, single and result are for the one change that most calls are.
	one    queue
	single [1]*queue
	record [1]store.Record
	result [1]store.SwapResult
}

// ofOne has rounds of one change, which are used again.
var ofOne = sync.Pool{New: func() any { return new(rounds) }}

// change makes one change of a target. Its record is asked for unless it is guessed.
func (t *Targets) change(ctx context.Context, key store.Key, c change, record store.Record, guessed bool) {
	r := ofOne.Get().(*rounds)
	r.Targets = t
	q := &r.one
	q.begin(key, c)
	q.record, q.guessed = record, guessed
	r.single[0] = q
	r.run(ctx, r.single[:])
	clear(r.swaps)
	clear(r.swapping)
	clear(r.doubtful)
	clear(r.keys)
	*r = rounds{swaps: r.swaps[:0], swapping: r.swapping[:0], doubtful: r.doubtful[:0], keys: r.keys[:0]}
	ofOne.Put(r)
}

// run makes the changes of the queues, whose records are loaded unless they are guessed.
func (r *rounds) run(ctx context.Context, queues []*queue) {
	r.doubtful = r.doubtful[:0]
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

// load loads the records of those queues, in one round trip.
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
	errs := byItem(err, len(queues), len(records))
	for i, q := range queues {
		if errs != nil && errs[i] != nil {
			q.fail(ctx, errs[i], false)
			continue
		}
		q.record, q.guessed = records[i], false
	}
}

// decide decides the next change of each target and notes the swaps, with the queue each
// is of. Changes that end without a swap make way for the next, unless a guess led to it:
// those are doubtful. Nothing is decided for a caller who is gone. Where the server's own
// time is up the store says so.
func (r *rounds) decide(ctx context.Context, queues []*queue) {
	r.swaps, r.swapping, r.doubtful = slices.Grow(r.swaps[:0], len(queues)), slices.Grow(r.swapping[:0], len(queues)), r.doubtful[:0]
	if r.before != nil {
		if err := r.before(ctx, queues); err != nil {
			for _, q := range queues {
				q.fail(ctx, err, false)
			}
			return
		}
	}
	var room []byte
	if len(queues) > 1 { // else next makes it, as large as it is needed
		room = make([]byte, (len(queues)+1)*usualRecord)
	}
	var tidy []store.Swap
	for _, q := range queues {
		for len(q.changes) > 0 {
			c := q.changes[0]
			if gone := apierror.CallerGone(ctx); gone != nil {
				q.fail(ctx, gone, false)
				break
			}
			value := c.next(q.record, q.guessed, room)
			if !c.ended() {
				room = room[min(len(value), len(room)):]
				value = value[:len(value):len(value)] // what follows is another's
				r.swaps = append(r.swaps, store.Swap{Key: q.key, Old: q.record.Version, Value: value})
				r.swapping = append(r.swapping, q)
				break
			}
			if c.doubt() {
				r.doubtful = append(r.doubtful, q)
				break
			}
			if q.pop(); value != nil && len(q.changes) == 0 {
				tidy = append(tidy, store.Swap{Key: q.key, Old: q.record.Version, Value: value})
			}
		}
	}
	if len(tidy) > 0 {
		// Whether such a swap happens is of no consequence: the next touch of the target does it.
		_, _ = r.perform(ctx, tidy)
	}
}

// swap makes the swaps that are noted. It returns how often the unluckiest change has lost.
func (r *rounds) swap(ctx context.Context) (lost int) {
	since := r.cache.since()
	results, errs := r.perform(ctx, r.swaps)
	for i, q := range r.swapping {
		if errs != nil && errs[i] != nil {
			q.fail(ctx, errs[i], true)
			continue
		}
		value := r.swaps[i].Value
		q.record, q.guessed = results[i].Record, false
		if results[i].Swapped {
			q.record.Value = value
		} else {
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

// perform makes swaps in one round trip. The errors are by swap, nil for none. It finishes
// what has begun even if the caller hangs up meanwhile, but begins nothing for one that has.
func (r *rounds) perform(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, []error) {
	if len(swaps) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, byItem(err, len(swaps), 0)
	}
	if !r.inTime {
		own := r.detach(ctx)
		defer own.Cancel()
		ctx = own
	}
	if len(swaps) == 1 {
		var err error
		r.result[0], err = r.store.CompareAndSwap(ctx, swaps[0])
		return r.result[:], byItem(err, 1, 1)
	}
	results, err := r.store.CompareAndSwapBatch(ctx, swaps)
	return results, byItem(err, len(swaps), len(results))
}

// pop takes the next change out.
func (q *queue) pop() { q.changes, q.lost = q.changes[1:], 0 }

// fail ends the changes that are left.
func (q *queue) fail(ctx context.Context, err error, swapping bool) {
	for i, c := range q.changes {
		c.fail(ctx, err, swapping && i == 0)
	}
	q.changes = nil
}

// undecided keeps the queues that have changes left.
func undecided(queues []*queue) []*queue {
	return slices.DeleteFunc(queues, func(q *queue) bool { return len(q.changes) == 0 })
}

// byItem returns the errors of a batch of n by item, nil for none.
func byItem(err error, n, results int) []error {
	if err == nil && results == n {
		return nil
	}
	var failed store.BatchError // takes memory
	switch {
	case errors.As(err, &failed) && len(failed) == n && results == n:
		return failed
	case err == nil:
		err = fmt.Errorf("asked for %d results, got %d", n, results)
	}
	return slices.Repeat([]error{err}, n)
}

// pause backs off after lost races: not after the first few, then randomly and longer each time, up
// to a few milliseconds.
func pause(ctx context.Context, lost int) {
	if lost < 4 {
		return
	}
	timer := time.NewTimer(rand.N(time.Duration(min(lost, 16)) * 250 * time.Microsecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
