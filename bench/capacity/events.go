package capacity

import (
	"container/heap"
	"slices"
)

// clock plays events in the order of their time, in microseconds; those of one time in
// the order in which they were planned, so that a simulation is the same each time.
type clock struct {
	now     float64
	planned int
	events  events
}

type event struct {
	at    float64
	order int
	do    func()
}

// after plans something.
func (c *clock) after(d float64, do func()) {
	c.planned++
	heap.Push(&c.events, event{c.now + d, c.planned, do})
}

// next plays the next event, and reports whether there was one.
func (c *clock) next() bool {
	if len(c.events) == 0 {
		return false
	}
	e := heap.Pop(&c.events).(event)
	c.now = e.at
	e.do()
	return true
}

type events []event

// Len implements heap.Interface.
func (e events) Len() int { return len(e) }

// Less implements heap.Interface.
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}

// Swap implements heap.Interface.
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// host is cores that work on tasks in the order in which they come.
type host struct {
	clock *clock
	idle  int
	speed float64
	queue []task
}

type task struct {
	work float64
	done func()
}

func (h *host) run(work float64, done func()) {
	h.queue = append(h.queue, task{work, done})
	h.start()
}

// runNext has a task run before those that wait: so does Linux with a process that
// slept while others used the processors up.
func (h *host) runNext(work float64, done func()) {
	h.queue = slices.Insert(h.queue, 0, task{work, done})
	h.start()
}

func (h *host) start() {
	for h.idle > 0 && len(h.queue) > 0 {
		t := h.queue[0]
		h.queue = h.queue[1:]
		h.idle--
		h.clock.after(t.work/h.speed, func() {
			h.idle++
			t.done()
			h.start()
		})
	}
}

// thread is one that works on a host's cores, one task at a time: a Redis server.
type thread struct {
	host  *host
	busy  bool
	queue []task
}

func (t *thread) run(work float64, done func()) {
	t.queue = append(t.queue, task{work, done})
	t.start()
}

func (t *thread) start() {
	if t.busy || len(t.queue) == 0 {
		return
	}
	next := t.queue[0]
	t.queue = t.queue[1:]
	t.busy = true
	t.host.runNext(next.work, func() {
		t.busy = false
		next.done()
		t.start()
	})
}
