package services

import (
	"sync"
	"testing"
	"testing/synctest"
)

// waiting is a task that ends on a signal.
type waiting struct {
	begun *sync.WaitGroup
	ends  <-chan struct{}
}

func (w waiting) do() { w.begun.Done(); <-w.ends }

// However many messages there were at once, only so many goroutines wait for the next ones; those are
// used again, and end with the server.
func TestWorkersAreUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		w := newWorkers(ended)
		for range 2 {
			var begun sync.WaitGroup
			ends := make(chan struct{})
			for range 2 * mostIdle {
				begun.Add(1)
				w.do(waiting{&begun, ends})
			}
			begun.Wait()
			if n := w.idle.Load(); n != 0 {
				t.Errorf("%d are idle while more is done than they could do", n)
			}
			close(ends)
			synctest.Wait()
			if n := w.idle.Load(); n != mostIdle {
				t.Errorf("%d are idle, want %d", n, mostIdle)
			}
		}
		var begun sync.WaitGroup
		ends := make(chan struct{})
		defer close(ends)
		begun.Add(1)
		w.do(waiting{&begun, ends})
		synctest.Wait()
		if n := w.idle.Load(); n != mostIdle-1 {
			t.Errorf("%d are idle, want %d: one of them does it", n, mostIdle-1)
		}
		close(ended)
		synctest.Wait()
		if n := w.idle.Load(); n != 0 {
			t.Errorf("%d wait after the end", n)
		}
	})
}
