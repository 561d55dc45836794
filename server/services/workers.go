package services

import "sync/atomic"

// workers are goroutines that handle messages of streams, one after the other. A decision needs a
// larger stack than a new goroutine has, and growing it for each message takes a tenth of its cost.
type workers struct {
	// idle counts the waiting workers; ended stops them.
	idle  atomic.Int32
	tasks chan task
	ended <-chan struct{}
}

// task is a message to handle.
type task interface{ do() }

// mostIdle limits the waiting workers: about as many as the swaps that return from the store
// together. The garbage collector shrinks the stacks of those that wait for long.
const mostIdle = 256

func newWorkers(ended <-chan struct{}) *workers {
	return &workers{tasks: make(chan task), ended: ended}
}

// do passes the task to a waiting worker, or to a new one.
func (w *workers) do(one task) {
	select {
	case w.tasks <- one:
	default:
		go w.run(one)
	}
}

func (w *workers) run(one task) {
	for {
		one.do()
		if w.idle.Add(1) > mostIdle {
			w.idle.Add(-1)
			return
		}
		one = nil // drop its references
		select {
		case one = <-w.tasks:
		case <-w.ended:
		}
		if w.idle.Add(-1); one == nil {
			return
		}
	}
}
