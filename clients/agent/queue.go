package agent

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"
)

// queue hands out the objects that are due, each to one worker at a time. The zero value is
// empty, but lacks the channel.
type queue struct {
	// earlier signals that a turn may be due before the one that take waits for.
	earlier chan struct{}

	mu sync.Mutex
	// turns has the turns of all objects; waiting, a heap, those that no worker has. Guarded by
	// mu.
	turns   map[Key]*turn
	waiting waiting
}

// turn is an object's next reconcile.
type turn struct {
	key Key
	due time.Time
	// place is its index in the heap, below 0 while a worker has it.
	place int
	// again reports whether the object is due again as soon as its worker is done.
	again bool
}

func newQueue() *queue { return &queue{earlier: make(chan struct{}, 1), turns: map[Key]*turn{}} }

// add makes the objects due at once; objects being reconciled, as soon as they are done.
func (q *queue) add(keys ...Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		t := q.turns[key]
		switch {
		case t == nil:
			t = &turn{key: key, due: now}
			q.turns[key] = t
			heap.Push(&q.waiting, t)
		case t.place < 0:
			t.again = true
		case t.due.After(now):
			t.due = now
			heap.Fix(&q.waiting, t.place)
		}
	}
	select {
	case q.earlier <- struct{}{}:
	default:
	}
}

// take waits for the next due object; false: the context ended. The caller returns the object
// with done.
func (q *queue) take(ctx context.Context) (Key, bool) {
	for {
		key, wait, ok := q.first()
		if ok {
			return key, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Key{}, false
		case <-timer.C:
		case <-q.earlier:
			timer.Stop()
		}
	}
}

// first takes the first object if it is due; otherwise it returns the wait.
func (q *queue) first() (key Key, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return Key{}, time.Hour, false
	}
	t := q.waiting[0]
	if wait = time.Until(t.due); wait > 0 {
		return Key{}, wait, false
	}
	heap.Pop(&q.waiting)
	return t.key, 0, true
}

// done returns an object to the queue: it is due after the wait, or deleted.
func (q *queue) done(key Key, wait time.Duration, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.turns[key]
	if !again && !t.again {
		delete(q.turns, key)
		return
	}
	if t.again {
		wait = 0
	}
	t.due, t.again = time.Now().Add(wait), false
	heap.Push(&q.waiting, t)
	select {
	case q.earlier <- struct{}{}:
	default:
	}
}

// waiting is a heap of turns, earliest first. It implements heap.Interface.
type waiting []*turn

func (w waiting) Len() int { return len(w) }

// Less orders turns of one instant by object, because objects of a group share readings.
func (w waiting) Less(i, j int) bool {
	return cmp.Or(w[i].due.Compare(w[j].due), w[i].key.Compare(w[j].key)) < 0
}

func (w waiting) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

// Push implements heap.Interface.
func (w *waiting) Push(x any) {
	t := x.(*turn)
	t.place = len(*w)
	*w = append(*w, t)
}

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := len(*w) - 1
	t := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	t.place = -1
	return t
}
