package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/store"
)

// recommendAll runs many jobs to their ends with few round trips: one load for
// all targets, then one swap for all in each round. Jobs of one target are
// decided in their order, each on what the one before it left.
func (t *targets) recommendAll(ctx context.Context, jobs []*job) {
	queues := queueByTarget(jobs)
	records, err := t.loadAll(ctx, queues)
	if err != nil {
		failAll(queues, t.storeFailed(ctx, "load batch", "", err))
		return
	}
	for i := range queues {
		queues[i].record = records[i]
	}
	for len(queues) > 0 {
		swaps, swapping := t.decideRound(queues)
		results, err := t.swapAll(ctx, swaps)
		if err != nil {
			failAll(swapping, t.storeFailed(ctx, "swap batch", "", err))
			return
		}
		for i, q := range swapping {
			t.settleRound(q, results[i], swaps[i].Value)
		}
		queues = unfinished(swapping)
	}
}

// queue is the jobs of one target, the next one first.
type queue struct {
	jobs   []*job
	record store.Record
}

// queueByTarget sorts the jobs that are not done, targets in order of appearance.
func queueByTarget(jobs []*job) []*queue {
	byKey := make(map[store.Key]*queue, len(jobs))
	var queues []*queue
	for _, j := range jobs {
		if j.done() {
			continue
		}
		q := byKey[j.key]
		if q == nil {
			q = &queue{}
			byKey[j.key] = q
			queues = append(queues, q)
		}
		q.jobs = append(q.jobs, j)
	}
	return queues
}

func (t *targets) loadAll(ctx context.Context, queues []*queue) ([]store.Record, error) {
	keys := make([]store.Key, len(queues))
	for i, q := range queues {
		keys[i] = q.jobs[0].key
	}
	records, err := t.store.LoadBatch(ctx, keys)
	if err == nil && len(records) != len(keys) {
		err = fmt.Errorf("asked for %d records, got %d", len(keys), len(records))
	}
	return records, err
}

// decideRound decides the next job of each target and returns the swaps, with
// the queue each is of. Jobs that end without a swap make way for the next.
func (t *targets) decideRound(queues []*queue) (swaps []store.Swap, swapping []*queue) {
	for _, q := range queues {
		for len(q.jobs) > 0 {
			j := q.jobs[0]
			value := t.decide(j, q.record)
			if !j.done() {
				swaps = append(swaps, store.Swap{Key: j.key, Old: q.record.Version, Value: value})
				swapping = append(swapping, q)
				break
			}
			q.jobs = q.jobs[1:]
		}
	}
	return swaps, swapping
}

func (t *targets) swapAll(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	if len(swaps) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := t.detach(ctx)
	defer cancel()
	results, err := t.store.CompareAndSwapBatch(ctx, swaps)
	if err == nil && len(results) != len(swaps) {
		err = fmt.Errorf("asked for %d swaps, got %d", len(swaps), len(results))
	}
	return results, err
}

// settleRound takes the outcome of a target's swap.
func (t *targets) settleRound(q *queue, result store.SwapResult, value []byte) {
	j := q.jobs[0]
	q.record = result.Record
	switch {
	case result.Swapped:
		q.record.Value = value
		t.recorded(j)
		q.jobs = q.jobs[1:]
	case j.attempts >= t.options.MaxAttempts:
		j.err = contended(j.target, j.attempts)
		q.jobs = q.jobs[1:]
	}
}

func unfinished(queues []*queue) []*queue {
	var rest []*queue
	for _, q := range queues {
		if len(q.jobs) > 0 {
			rest = append(rest, q)
		}
	}
	return rest
}

// failAll ends the jobs that are left. What was swapped may be recorded; a retry
// with the same request id finds out.
func failAll(queues []*queue, err error) {
	if err == nil {
		err = status.Error(codes.Internal, "internal error")
	}
	for _, q := range queues {
		for _, j := range q.jobs {
			j.err = err
		}
	}
}
