package decision

import (
	"context"
	"slices"
	"sync"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

// Batch is memory for jobs that are decided together, one batch after the other. The zero value is
// empty.
type Batch struct {
	// Jobs are those of the batch.
	Jobs []*Job

	rounds  rounds
	room    room
	byKey   map[store.Key]*queue
	slab    []queue
	queues  []*queue
	records recordBuffer
	// ofFleets are the jobs that fleets answer.
	ofFleets []*Job
}

// Reset empties the batch, and keeps its memory: nothing of the decisions may be used afterwards. The
// jobs are to be reset, too.
func (b *Batch) Reset() {
	b.rounds.empty(len(b.Jobs))
	b.room.empty()
	clear(b.byKey)
	clear(b.slab)
	clear(b.queues[:min(len(b.Jobs), cap(b.queues))])
	b.slab, b.queues = b.slab[:0], b.queues[:0]
	b.records.empty()
	for _, j := range b.Jobs {
		j.room = nil // which is the batch's
	}
	clear(b.Jobs)
	b.Jobs = b.Jobs[:0]
	b.ofFleets = nil
}

// RecommendAll runs many jobs with few round trips: for each decidedAtOnce targets one load of
// those that are not cached, then one swap per attempt. Jobs of one target are decided in their
// order, each on the result of the previous one.
func (t *Targets) RecommendAll(ctx context.Context, b *Batch) {
	b.room.decision.Keep(len(b.Jobs))
	t.queueByTarget(ctx, b)
	defer t.askFleets(ctx, b.ofFleets)
	t.awaitOverrides(ctx, b.queues)
	t.lookBack(ctx, b.Jobs...)
	queues := t.withoutOutage(ctx, b.queues)
	parts := (len(queues) + decidedAtOnce - 1) / decidedAtOnce
	b.rounds.Targets = t
	for ; parts > 0; parts-- { // parts of similar size, because each costs round trips
		n := (len(queues) + parts - 1) / parts
		t.recallAll(&b.records, queues[:n])
		b.rounds.run(ctx, queues[:n])
		queues = queues[n:]
	}
}

// decidedAtOnce is how many targets of a batch are decided at once. Each has its record in
// memory meanwhile, stored, decoded and newly encoded, and records may be some hundred
// times larger than usual.
const decidedAtOnce = 250

// queueByTarget groups the jobs that are not done by target, in order of first
// appearance.
func (t *Targets) queueByTarget(ctx context.Context, b *Batch) {
	if b.byKey == nil {
		b.byKey = make(map[store.Key]*queue)
	}
	b.slab = slices.Grow(b.slab[:0], len(b.Jobs))
	b.queues = slices.Grow(b.queues[:0], len(b.Jobs))
	for _, j := range b.Jobs {
		if j.done() {
			continue
		}
		if j.Fleet != nil {
			b.ofFleets = append(b.ofFleets, j)
			continue
		}
		j.targets, j.ctx, j.room = t, ctx, &b.room
		q := b.byKey[j.Key]
		if q == nil {
			b.slab = append(b.slab, queue{})
			q = &b.slab[len(b.slab)-1]
			q.begin(j.Key, j)
			b.byKey[j.Key] = q
			b.queues = append(b.queues, q)
			continue
		}
		first := q.changes[0].(*Job)
		if first.history == nil {
			first.history = new(decoded)
		}
		j.history = first.history
		q.changes = append(q.changes, j)
	}
}

// fleetsAtOnce limits the fleets of a batch that are asked at once: each takes a round trip, with many members some.
const fleetsAtOnce = 16

// askFleets lets the fleets of jobs answer, each fleet those of its members together.
func (t *Targets) askFleets(ctx context.Context, jobs []*Job) {
	if len(jobs) == 0 {
		return
	}
	byFleet := make(map[store.Key][]*Job)
	for _, j := range jobs {
		byFleet[j.Fleet.Key] = append(byFleet[j.Fleet.Key], j)
	}
	places := make(chan struct{}, fleetsAtOnce)
	var asking sync.WaitGroup
	for _, theirs := range byFleet {
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			t.askRecovered(ctx, theirs)
		})
	}
	asking.Wait()
}

// askRecovered is askFleet in a goroutine of its own, where nothing else recovers.
func (t *Targets) askRecovered(ctx context.Context, jobs []*Job) {
	defer func() {
		if err := apierror.Recovered(t.Log, setpointv1.RecommendationService_BatchRecommend_FullMethodName, recover(), nil); err != nil {
			for _, j := range jobs {
				if !j.done() {
					j.Err = err
				}
			}
		}
	}()
	t.askFleet(ctx, jobs...)
}

// awaitOverrides waits for the overrides of all clusters of a batch at once, where decisions would wait for them one
// after the other.
func (t *Targets) awaitOverrides(ctx context.Context, queues []*queue) {
	if t.Overrides == nil || len(queues) < 2 {
		return
	}
	var due []string
	last := ""
	for _, q := range queues {
		q.changes[0].(*Job).awaited = true
		if q.key.Cluster != last {
			if last = q.key.Cluster; t.Overrides.Due(last) {
				due = append(due, last)
			}
		}
	}
	if due != nil {
		t.Overrides.Await(ctx, due)
	}
}

// withoutOutage runs the jobs of targets whose history is not in the store, one by one,
// and returns the other queues.
func (t *Targets) withoutOutage(ctx context.Context, queues []*queue) []*queue {
	if t.outage.pending() == 0 {
		return queues
	}
	var rest []*queue
	for _, q := range queues {
		if !t.outage.has(q.key) {
			rest = append(rest, q)
			continue
		}
		for _, c := range q.changes {
			t.Recommend(ctx, c.(*Job))
		}
	}
	return rest
}

// recallAll gives the queues the cached records of their targets, unless their first job
// must read the store.
func (t *Targets) recallAll(to *recordBuffer, queues []*queue) {
	if t.cache.entries != nil {
		to.values = slices.Grow(to.values[:0], len(queues)*usualRecord)
		to.versions.Grow(len(queues) * usualVersion)
	}
	hits := 0
	for _, q := range queues {
		if q.changes[0].(*Job).DryRun {
			continue
		}
		if q.record, q.guessed = t.cache.appendGet(to, q.key); q.guessed {
			hits++
		}
	}
	t.Metrics.cacheMisses.Add(float64(len(queues) - hits))
	t.Metrics.cacheHits.Add(float64(hits))
}

// Approximate sizes of a record and its version, in bytes.
const (
	usualRecord  = 448
	usualVersion = 12
)
