// Package workers runs calls on goroutines whose stacks have grown already.
//
// gRPC serves a call on one of its own workers while one is free, and on a new goroutine otherwise,
// whose stack grows several times on the way to a decision. A stream keeps its worker until it
// ends, so that some hundred watchers take all of them. Then calls run on workers of this package.
//
//	w := workers.New(128)
//	defer w.Close()
//	grpc.NumStreamWorkers(128), grpc.StreamInterceptor(… w.Stream …)
//	server.RegisterService(w.Calls(desc), service)
package workers

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Workers are goroutines that run one call after the other; the one that was used last is the
// next, so that few stacks are kept warm. Create them by New.
type Workers struct {
	most    int
	streams atomic.Int64 // open streams, each on a worker of gRPC

	mu     sync.Mutex
	idle   []chan task // guarded by mu
	closed bool        // guarded by mu
}

// New returns workers beside so many of gRPC's. As many may be idle.
func New(of int) *Workers { return &Workers{most: of} }

// Close ends the workers; calls run on the goroutines that they come on from now on.
func (w *Workers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, idle := range w.idle {
		close(idle)
	}
	w.idle = nil
}

// Stream is an interceptor that counts streams. Those that have no worker of gRPC must not pass it.
func (w *Workers) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	w.streams.Add(1)
	defer w.streams.Add(-1)
	return handler(srv, stream)
}

// taken reports whether streams leave less than half of gRPC's workers to calls.
func (w *Workers) taken() bool { return w.streams.Load() > int64(w.most/2) }

// Calls has the methods of a service run on these workers while streams take those of gRPC.
func (w *Workers) Calls(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	wrapped := *desc
	wrapped.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range wrapped.Methods {
		handler := wrapped.Methods[i].Handler
		wrapped.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			if !w.taken() {
				return handler(srv, ctx, decode, interceptor)
			}
			var resp any
			var err error
			w.run(func() { resp, err = handler(srv, ctx, decode, interceptor) })
			return resp, err
		}
	}
	return &wrapped
}

// task is a call, and done is closed when it has ended.
type task struct {
	run  func()
	done chan struct{}
}

// run runs f on a worker, and returns when it has ended.
func (w *Workers) run(f func()) {
	t := task{f, make(chan struct{})}
	w.mu.Lock()
	switch n := len(w.idle); {
	case w.closed:
		w.mu.Unlock()
		f()
		return
	case n > 0:
		worker := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		worker <- t
	default:
		w.mu.Unlock()
		go w.work(t)
	}
	<-t.done
}

// work runs a task and those that follow, until there are enough idle workers without this one.
func (w *Workers) work(t task) {
	tasks := make(chan task, 1)
	for more := true; more; t, more = <-tasks {
		t.run()
		stays := w.rest(tasks)
		close(t.done) // so that a caller who calls again finds it idle
		if !stays {
			return
		}
	}
}

// rest notes that a worker is idle, and reports whether it is to wait for a task.
func (w *Workers) rest(tasks chan task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= w.most {
		return false
	}
	w.idle = append(w.idle, tasks)
	return true
}
