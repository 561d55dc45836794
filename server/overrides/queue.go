package overrides

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxSwaps limits the attempts of some changes, and firstPause and longestPause what is waited between them, at
	// random: other instances change the list too, each once at a time.
	maxSwaps                 = 64
	firstPause, longestPause = 2 * time.Millisecond, 128 * time.Millisecond
	// mostWaiting limits the changes of a cluster that wait, and mostAtOnce those that are made in one swap.
	mostWaiting, mostAtOnce = 512, 32
)

// change is a change of a cluster's overrides.
type change struct {
	// ctx is of the call that waits for it.
	ctx context.Context
	// next returns the overrides after the change, in order; nil for none, or an error if it can't be made. It may
	// change the given ones, but not if it returns an error, and is called once for each attempt.
	next func([]*setpointv1.Override) ([]*setpointv1.Override, error)
	// deleted is who deleted which override, at an instant, after next. Nil: none is deleted.
	deleted func(now time.Time) *storedv1.DeletedOverride
	// made is called once the change is made, also if its caller is gone.
	made func()
	// err is valid once done is closed.
	err  error
	done chan struct{}
}

// mostRefused limits the clusters whose record is kept because a change of it was refused, MostBytes each.
const mostRefused = 8

// refused are records of which a change was refused, by cluster: as long as the store's version is theirs, the next
// change is decided on them, for a flood that is refused must not read a full list each time.
type refused struct {
	mu sync.Mutex
	of map[string]store.Record
}

// keep keeps a record, or, nil, forgets that of a cluster.
func (r *refused) keep(cluster string, record *store.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record == nil || !record.Exists() {
		delete(r.of, cluster)
		return
	}
	if _, known := r.of[cluster]; !known && len(r.of) >= mostRefused {
		for one := range r.of {
			delete(r.of, one)
			break
		}
	}
	r.of[cluster] = *record
}

// current loads the record of a cluster, or, if it is a refused one still, only its version.
func (o *Overrides) current(ctx context.Context, cluster string) (store.Record, error) {
	o.refused.mu.Lock()
	kept, known := o.refused.of[cluster]
	o.refused.mu.Unlock()
	key := keyOf(cluster)
	if known {
		if versions, err := o.records.LoadVersions(ctx, []store.Key{key}); err == nil && versions[0] == kept.Version {
			return kept, nil
		}
	}
	return o.records.Load(ctx, key)
}

// queues are the changes that wait, for each cluster that has some or whose changes are being made.
type queues struct {
	mu sync.Mutex
	of map[string]*queue
}

// queue has the changes of a cluster that wait: their callers take turns. Guarded by queues.mu.
type queue struct {
	turns   []string
	waiting map[string][]*change
	n       int
}

// change changes the overrides of a cluster that have not expired, in the name of a caller. Those of one instance are
// made one after the other, some in each swap, so that only instances compete.
func (o *Overrides) change(ctx context.Context, cluster, caller string, c *change) error {
	c.ctx, c.done = ctx, make(chan struct{})
	if err := o.enqueue(cluster, caller, c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err() // it may be made even now
	}
}

// enqueue lets a change wait. In a full queue the caller with the most changes goes without its last.
func (o *Overrides) enqueue(cluster, caller string, c *change) error {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	q := o.queues.of[cluster]
	if q == nil {
		q = &queue{waiting: map[string][]*change{}}
		o.queues.of[cluster] = q
		defer func() { go o.work(cluster, q) }()
	}
	if q.n >= mostWaiting {
		longest := caller
		for other, theirs := range q.waiting {
			if len(theirs) > len(q.waiting[longest]) {
				longest = other
			}
		}
		err := fmt.Errorf("%w: %d changes wait", ErrContended, q.n)
		theirs := q.waiting[longest]
		if longest == caller || len(theirs) < 2 {
			return err
		}
		last := theirs[len(theirs)-1]
		q.waiting[longest] = theirs[:len(theirs)-1]
		q.n--
		last.end(err)
	}
	if q.waiting[caller] == nil {
		q.turns = append(q.turns, caller)
	}
	q.waiting[caller] = append(q.waiting[caller], c)
	q.n++
	return nil
}

func (c *change) end(err error) {
	c.err = err
	close(c.done)
}

// take returns the next changes, of each caller one before another one's second; none if none wait: then the queue ends.
func (o *Overrides) take(cluster string, q *queue) (some []*change) {
	o.queues.mu.Lock()
	defer o.queues.mu.Unlock()
	for q.n > 0 && len(some) < mostAtOnce {
		caller := q.turns[0]
		theirs := q.waiting[caller]
		q.turns, q.waiting[caller] = q.turns[1:], theirs[1:]
		if q.n--; len(theirs) > 1 {
			q.turns = append(q.turns, caller)
		} else {
			delete(q.waiting, caller)
		}
		some = append(some, theirs[0])
	}
	if len(some) == 0 {
		delete(o.queues.of, cluster)
	}
	return some
}

// work makes the changes of a cluster until none wait.
func (o *Overrides) work(cluster string, q *queue) {
	for some := o.take(cluster, q); len(some) > 0; some = o.take(cluster, q) {
		err := o.performed(cluster, some)
		for _, c := range some {
			if c.err == nil { // else it has its own, whatever became of the others
				c.err = err
			}
			if c.err == nil {
				c.made()
			}
			c.end(c.err)
		}
	}
}

// performed is perform; what panics ends the changes with an error, and neither the process nor those that wait.
func (o *Overrides) performed(cluster string, some []*change) (err error) {
	defer func() { err = apierror.Recovered(o.log, "change of overrides", recover(), err) }()
	return o.perform(cluster, some)
}

// perform makes changes in one swap, each of which has its own error then, and retries until no other write comes in
// between, for as long as a caller is there. If it returns an error none was made, or, as with every swap, all may be.
func (o *Overrides) perform(cluster string, some []*change) error {
	ctx, cancel := context.WithCancel(o.life)
	defer cancel()
	var there atomic.Int64
	there.Store(int64(len(some)))
	for _, c := range some {
		defer context.AfterFunc(c.ctx, func() {
			if there.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for try := range maxSwaps {
		if try > 0 {
			pause.Reset(rand.N(min(firstPause<<min(try-1, 16), longestPause)))
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		done, err := o.try(ctx, cluster, some)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %d times", ErrContended, maxSwaps)
}

// try makes changes in one swap, and reports whether no other write came in between.
func (o *Overrides) try(ctx context.Context, cluster string, some []*change) (done bool, err error) {
	for _, c := range some {
		c.err = nil
	}
	key := keyOf(cluster)
	record, err := o.current(ctx, cluster)
	if err != nil {
		return false, unreadable(cluster, err)
	}
	now := o.clock()
	if c := o.cache.find(cluster); c != nil && !record.Exists() {
		if k := c.known.Load(); k != nil && c.known.CompareAndSwap(k, noOverrides) {
			o.lost(k.names(now))
		}
	}
	all, deleted, err := decode(cluster, record, now)
	if err != nil {
		return false, err
	}
	changed, ends := false, false
	for _, c := range some {
		if c.err = c.ctx.Err(); c.err != nil {
			continue
		}
		var next []*setpointv1.Override
		if next, c.err = c.next(all); c.err == nil && next != nil {
			all, changed = next, true
			if c.deleted != nil {
				deleted, ends = append(deleted, c.deleted(now)), true
			}
		}
	}
	if !changed {
		o.refused.keep(cluster, &record)
		return true, nil
	}
	o.refused.keep(cluster, nil)
	value, err := encode(all, deleted)
	if err != nil {
		return false, err
	}
	// To its end, so that it is known whether the changes were made: the log has to tell them.
	result, err := o.records.CompareAndSwap(o.life, store.Swap{Key: key, Old: record.Version, Value: value, WhenFull: ends})
	if err != nil || !result.Swapped {
		return false, err
	}
	o.changed(cluster)
	return true, nil
}
