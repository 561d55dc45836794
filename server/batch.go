package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/store"
)

// recommendAll runs many jobs to their ends with few round trips: one load for each
// decidedAtOnce targets that nothing is remembered of, then one swap for them in each round.
// Jobs of one target are decided in their order, each on what the one before it left.
func (t *targets) recommendAll(ctx context.Context, jobs []job) {
	queues := t.withoutOutage(ctx, queueByTarget(jobs))
	parts := (len(queues) + decidedAtOnce - 1) / decidedAtOnce
	for ; parts > 0; parts-- { // of about the same size, for each takes round trips
		n := (len(queues) + parts - 1) / parts
		t.decideAll(ctx, queues[:n])
		queues = queues[n:]
	}
}

// decidedAtOnce is how many targets of a batch are decided at once: each has its record in
// memory meanwhile, as stored, decoded and as it is to be stored, and records may be some
// hundred times as large as usual ones.
const decidedAtOnce = 250

func (t *targets) decideAll(ctx context.Context, queues []*queue) {
	queues = t.loadAll(ctx, t.recallAll(queues), queues)
	for len(queues) > 0 {
		swaps, swapping, doubtful := t.decideRound(ctx, queues)
		rest := t.loadAll(ctx, doubtful, doubtful)
		results, errs := t.swapAll(ctx, swaps)
		lost := 0 // of the races of one job, the most
		for i, q := range swapping {
			if errs != nil && errs[i] != nil {
				q.jobs[0].doubtful = true
				t.failQueue(ctx, q, errs[i])
				continue
			}
			if t.settleRound(q, results[i], swaps[i].Value); !results[i].Swapped && len(q.jobs) > 0 {
				lost = max(lost, q.jobs[0].attempts)
			}
			rest = append(rest, q)
		}
		if queues = undecided(rest); lost > 0 {
			pause(ctx, lost)
		}
	}
}

// queue is the jobs of one target, the next one first.
type queue struct {
	jobs   []*job
	record store.Record
	// guessed says that the record is only remembered.
	guessed bool
	// first is room for the one job that most targets have.
	first [1]*job
}

// queueByTarget sorts the jobs that are not done, targets in order of appearance.
func queueByTarget(jobs []job) []*queue {
	byKey := make(map[store.Key]*queue, len(jobs))
	slab := make([]queue, 0, len(jobs))
	queues := make([]*queue, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		if j.done() {
			continue
		}
		q := byKey[j.key]
		if q == nil {
			slab = append(slab, queue{})
			q = &slab[len(slab)-1]
			q.jobs = q.first[:0]
			byKey[j.key] = q
			queues = append(queues, q)
		}
		q.jobs = append(q.jobs, j)
	}
	return queues
}

// withoutOutage runs the jobs of targets whose history is not in the store, one by
// one, and returns the other queues.
func (t *targets) withoutOutage(ctx context.Context, queues []*queue) []*queue {
	if t.outage.pending() == 0 {
		return queues
	}
	var rest []*queue
	for _, q := range queues {
		if !t.outage.has(q.jobs[0].key) {
			rest = append(rest, q)
			continue
		}
		for _, j := range q.jobs {
			t.recommend(ctx, j)
		}
	}
	return rest
}

// recallAll gives the queues what is remembered of their targets and returns those
// that have to be loaded.
func (t *targets) recallAll(queues []*queue) (unknown []*queue) {
	var to recalled
	if t.cache.entries != nil {
		to.values = make([]byte, 0, len(queues)*usualRecord)
		to.versions.Grow(len(queues) * usualVersion)
	}
	for _, q := range queues {
		if q.recall(t, &to); !q.guessed {
			unknown = append(unknown, q)
		}
	}
	t.metrics.cacheMisses.Add(float64(len(unknown)))
	t.metrics.cacheHits.Add(float64(len(queues) - len(unknown)))
	return unknown
}

// About what a record and its version take, in bytes.
const (
	usualRecord  = 384
	usualVersion = 12
)

// recall takes what is remembered of the target, if its first job is not one that
// asks the store.
func (q *queue) recall(t *targets, to *recalled) {
	if !q.jobs[0].dryRun {
		q.record, q.guessed = t.cache.recall(to, q.jobs[0].key)
	}
}

// loadAll loads the records of those queues, in one round trip, and returns which
// of all can go on.
func (t *targets) loadAll(ctx context.Context, queues, all []*queue) []*queue {
	if len(queues) == 0 {
		return all
	}
	keys := make([]store.Key, len(queues))
	for i, q := range queues {
		keys[i] = q.jobs[0].key
	}
	records, err := t.store.LoadBatch(ctx, keys)
	errs := byItem(err, len(keys), len(records))
	for i, q := range queues {
		if errs != nil && errs[i] != nil {
			t.failQueue(ctx, q, errs[i])
			continue
		}
		q.record, q.guessed = records[i], false
	}
	return undecided(all)
}

// byItem returns the errors of a batch of n by item, nil for none.
func byItem(err error, n, results int) []error {
	var failed store.BatchError
	switch {
	case err == nil && results == n:
		return nil
	case errors.As(err, &failed) && len(failed) == n && results == n:
		return failed
	case err == nil:
		err = fmt.Errorf("asked for %d results, got %d", n, results)
	}
	return slices.Repeat([]error{err}, n)
}

// decideRound decides the next job of each target and returns the swaps, with
// the queue each is of. Jobs that end without a swap make way for the next, unless
// they were decided on a record that is only remembered: those are doubtful. Nothing is
// decided for a caller who is gone. Where the server's own time is up the store says so.
func (t *targets) decideRound(ctx context.Context, queues []*queue) (swaps []store.Swap, swapping, doubtful []*queue) {
	swaps, swapping = make([]store.Swap, 0, len(queues)), make([]*queue, 0, len(queues))
	room := make([]byte, (len(queues)+1)*usualRecord)
	var tidy []store.Swap
	for _, q := range queues {
		for len(q.jobs) > 0 {
			j := q.jobs[0]
			if gone := callerGone(ctx); gone != nil {
				j.err = status.FromContextError(gone).Err()
				q.jobs = q.jobs[1:]
				continue
			}
			j.guessed = q.guessed
			value := t.decide(j, q.record, room)
			if !j.done() {
				room = room[min(len(value), len(room)):]
				value = value[:len(value):len(value)] // what follows is another's
				swaps = append(swaps, store.Swap{Key: j.key, Old: q.record.Version, Value: value})
				swapping = append(swapping, q)
				break
			}
			if j.doubt() {
				doubtful = append(doubtful, q)
				break
			}
			if q.jobs = q.jobs[1:]; value != nil && len(q.jobs) == 0 {
				tidy = append(tidy, store.Swap{Key: j.key, Old: q.record.Version, Value: value})
			}
		}
	}
	t.tidy(ctx, tidy...)
	return swaps, swapping, doubtful
}

// swapAll swaps in one round trip. The errors are by swap, nil for none.
func (t *targets) swapAll(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, []error) {
	if len(swaps) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, byItem(err, len(swaps), 0)
	}
	ctx, cancel := t.detach(ctx)
	defer cancel()
	results, err := t.store.CompareAndSwapBatch(ctx, swaps)
	return results, byItem(err, len(swaps), len(results))
}

// settleRound takes the outcome of a target's swap.
func (t *targets) settleRound(q *queue, result store.SwapResult, value []byte) {
	j := q.jobs[0]
	q.record, q.guessed = result.Record, false
	if result.Swapped {
		q.record.Value = value
	}
	if t.swapped(j, result, value) {
		q.jobs = q.jobs[1:]
	}
}

func undecided(queues []*queue) []*queue {
	var rest []*queue
	for _, q := range queues {
		if len(q.jobs) > 0 {
			rest = append(rest, q)
		}
	}
	return rest
}

// failQueue ends the jobs that are left of a target that the store failed. What was
// swapped may be recorded; a retry with the same request id finds out.
func (t *targets) failQueue(ctx context.Context, q *queue, err error) {
	for _, j := range q.jobs {
		t.withoutStore(ctx, j, err)
	}
	q.jobs = nil
}
