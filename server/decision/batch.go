package decision

import (
	"context"

	"github.com/setpoint-dev/setpoint/store"
)

// RecommendAll runs many jobs with few round trips: for each decidedAtOnce targets one load of
// those that are not cached, then one swap per attempt. Jobs of one target are decided in their
// order, each on the result of the previous one.
func (t *Targets) RecommendAll(ctx context.Context, jobs []Job) {
	queues := t.withoutOutage(ctx, t.queueByTarget(jobs))
	r := rounds{Targets: t}
	parts := (len(queues) + decidedAtOnce - 1) / decidedAtOnce
	for ; parts > 0; parts-- { // parts of similar size, because each costs round trips
		n := (len(queues) + parts - 1) / parts
		t.recallAll(queues[:n])
		r.run(ctx, queues[:n])
		queues = queues[n:]
	}
}

// decidedAtOnce is how many targets of a batch are decided at once. Each has its record in
// memory meanwhile, stored, decoded and newly encoded, and records may be some hundred
// times larger than usual.
const decidedAtOnce = 250

// queueByTarget groups the jobs that are not done by target, in order of first
// appearance.
func (t *Targets) queueByTarget(jobs []Job) []*queue {
	byKey := make(map[store.Key]*queue, len(jobs))
	slab := make([]queue, 0, len(jobs))
	queues := make([]*queue, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		if j.done() {
			continue
		}
		j.targets = t
		q := byKey[j.key]
		if q == nil {
			slab = append(slab, queue{})
			q = &slab[len(slab)-1]
			q.begin(j.key, j)
			byKey[j.key] = q
			queues = append(queues, q)
			continue
		}
		first := q.changes[0].(*Job)
		if first.history == nil {
			first.history = new(decoded)
		}
		j.history = first.history
		q.changes = append(q.changes, j)
	}
	return queues
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
func (t *Targets) recallAll(queues []*queue) {
	var to recalled
	if t.cache.entries != nil {
		to.values = make([]byte, 0, len(queues)*usualRecord)
		to.versions.Grow(len(queues) * usualVersion)
	}
	hits := 0
	for _, q := range queues {
		if q.changes[0].(*Job).dryRun {
			continue
		}
		if q.record, q.guessed = t.cache.recall(&to, q.key); q.guessed {
			hits++
		}
	}
	t.Metrics.cacheMisses.Add(float64(len(queues) - hits))
	t.Metrics.cacheHits.Add(float64(hits))
}

// Approximate sizes of a record and its version, in bytes.
const (
	usualRecord  = 384
	usualVersion = 12
)
