package services

import "sync/atomic"

// workers are goroutines that answer messages of streams, one after the other. A decision needs more
// of a stack than a goroutine begins with, and to grow one for each message takes a tenth of
// what a message costs.
type workers struct {
	// idle are those that wait; ended ends them.
	idle  atomic.Int32
	tasks chan task
	ended <-chan struct{}
}

// task is a message to be answered.
type task interface{ do() }

// mostIdle bounds the workers that wait for a message: about as many as the swaps that return from
// the store together. The collector shrinks the stacks of those that wait for long.
const mostIdle = 256

func newWorkers(ended <-chan struct{}) *workers {
	return &workers{tasks: make(chan task), ended: ended}
}

// do has a worker do it, a new one if none waits.
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
		one = nil // with what it holds
		select {
		case one = <-w.tasks:
		case <-w.ended:
		}
		if w.idle.Add(-1); one == nil {
			return
		}
	}
}
