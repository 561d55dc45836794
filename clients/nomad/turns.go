package nomad

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// gather is how long the first write to a job with several groups waits for those of the others,
// which are due at the same time; patience is how much longer than its period a group that waits
// may take until it tries again.
const (
	gather   = 250 * time.Millisecond
	patience = 2 * time.Second
)

// turns orders the writes to each job with several groups. A write starts a deployment, during
// which Nomad accepts none for any group of the job, but only a moment later: so all groups that
// want to change are written one right after the other, that which has waited longest first. It is
// safe for concurrent use.
type turns struct {
	mu   sync.Mutex
	jobs map[string]*jobTurns // by jobKey; guarded by mu
}

// jobTurns is guarded by turns.mu.
type jobTurns struct {
	waiting map[string]*waiting // groups that a deployment keeps from changing, by name
	round   []*turn             // the writes that wait for others; empty: none does
}

type waiting struct {
	since, until time.Time // until when it is expected to try again
}

// turn is a write. The index is that of the job as observed. The group tries again after the period if
// another one is first.
type turn struct {
	group  string
	period time.Duration
	index  uint64
	since  time.Time
	write  func(index uint64) (uint64, error)
	done   chan error
}

func (t *turns) of(job string) *jobTurns {
	j := t.jobs[job]
	if j == nil {
		if t.jobs == nil {
			t.jobs = map[string]*jobTurns{}
		}
		j = &jobTurns{waiting: map[string]*waiting{}}
		t.jobs[job] = j
	}
	return j
}

// wants records whether a group would change if it could: it waits, or no longer.
func (t *turns) wants(g Group, change bool, period time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !change {
		if j := t.jobs[jobKey(g)]; j != nil {
			delete(j.waiting, g.Name)
			t.drop(jobKey(g))
		}
		return
	}
	j, now := t.of(jobKey(g)), time.Now()
	w := j.waiting[g.Name]
	if w == nil {
		w = &waiting{since: now}
		j.waiting[g.Name] = w
	}
	w.until = now.Add(period + patience)
}

// drop forgets a job of which nothing is known. The caller holds the lock.
func (t *turns) drop(job string) {
	if j := t.jobs[job]; j != nil && len(j.waiting) == 0 && len(j.round) == 0 {
		delete(t.jobs, job)
	}
}

// apply writes in turn. write gets the JobModifyIndex that the job must have, and returns the new
// one. The error is a *firstError if a group that waits longer has to be first.
func (t *turns) apply(ctx context.Context, g Group, period time.Duration, index uint64, write func(index uint64) (uint64, error)) error {
	t.mu.Lock()
	j := t.of(jobKey(g))
	own := &turn{group: g.Name, period: period, index: index, since: time.Now(), write: write, done: make(chan error, 1)}
	if w := j.waiting[g.Name]; w != nil {
		own.since = w.since
	}
	j.round = append(j.round, own)
	leads := len(j.round) == 1
	t.mu.Unlock()
	if leads {
		select {
		case <-time.After(gather):
		case <-ctx.Done():
		}
		t.mu.Lock()
		round := j.round
		j.round = nil
		t.mu.Unlock()
		t.run(jobKey(g), j, round)
	}
	return <-own.done
}

// run writes a round.
func (t *turns) run(job string, j *jobTurns, round []*turn) {
	slices.SortFunc(round, func(a, b *turn) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.group, b.group)) })
	var from, to uint64 // the job that was observed, and as it is after our own writes
	for _, one := range round {
		if first := t.before(j, round, one); first != "" {
			one.done <- &firstError{first}
			continue
		}
		index := one.index
		if index == from {
			index = to
		}
		written, err := one.write(index)
		if err == nil {
			from, to = one.index, written
			t.mu.Lock()
			delete(j.waiting, one.group)
			t.mu.Unlock()
		}
		one.done <- err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(job)
}

// before returns a group that has waited longer, is not of this round, and is about to try again, before
// this one would; empty: none.
func (t *turns) before(j *jobTurns, round []*turn, own *turn) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for name, w := range j.waiting {
		there := slices.ContainsFunc(round, func(o *turn) bool { return o.group == name })
		if !there && w.since.Before(own.since) && now.Before(w.until) && w.until.Before(now.Add(own.period+2*patience)) {
			return name
		}
	}
	return ""
}

// firstError means that another group of the job is first.
type firstError struct{ group string }

// Error implements error.
func (e *firstError) Error() string {
	return fmt.Sprintf("group %s of the job has waited longer and is first; a count starts a deployment, during which Nomad accepts none for the other groups", e.group)
}
