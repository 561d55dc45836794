package requests

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// Job is one request in progress.
type Job struct {
	decision.Job
	// encoded is the request that contains the input, if it was read on the fast path.
	encoded *wire.Request
	caller  *access.Caller
	// budget limits the cost of reading and deciding, shared with the other requests of
	// a batch; own is the budget of a single request.
	budget  *cost.Budget
	own     cost.Budget
	started time.Time
	// ownSpan reports that the span belongs to this job alone.
	ownSpan bool
}

// Release frees the memory of the job's request, once its response is encoded.
func (j *Job) Release() {
	if j.encoded != nil {
		j.encoded.Release()
		j.encoded, j.Input, j.Seeder, j.Spec = nil, nil, nil, nil
	}
}

// reset empties the job, and keeps the memory for its decision.
func (j *Job) reset() {
	j.Release()
	j.Reset()
	j.caller, j.budget, j.own, j.started, j.ownSpan = nil, nil, cost.Budget{}, time.Time{}, false
}

var lent = sync.Pool{New: func() any { return new(Job) }}

// Lend returns an empty job from the pool. GiveBack returns it.
func Lend() *Job { return lent.Get().(*Job) }

// GiveBack is Release for a job from the pool. Nothing of it may be used afterwards.
func (j *Job) GiveBack() {
	j.reset()
	lent.Put(j)
}

// Batch is requests that are decided together.
type Batch struct {
	Jobs    []Job
	decided decision.Batch
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// mostJobsPooled limits the memory of pooled batches: each job takes about 2 KiB of it.
const mostJobsPooled = 1000

// LendBatch returns a batch of that many empty jobs from the pool. GiveBack returns it.
func LendBatch(jobs int) *Batch {
	b := batches.Get().(*Batch)
	if cap(b.Jobs) < jobs {
		b.Jobs = make([]Job, jobs)
	}
	b.Jobs = b.Jobs[:jobs]
	return b
}

// Decisions are the jobs for decision.Targets.RecommendAll.
func (b *Batch) Decisions() *decision.Batch {
	for i := range b.Jobs {
		b.decided.Jobs = append(b.decided.Jobs, &b.Jobs[i].Job)
	}
	return &b.decided
}

// GiveBack releases the jobs. Nothing of the batch may be used afterwards.
func (b *Batch) GiveBack() {
	b.decided.Reset()
	for i := range b.Jobs {
		b.Jobs[i].reset()
	}
	if len(b.Jobs) <= mostJobsPooled {
		batches.Put(b)
	}
}
