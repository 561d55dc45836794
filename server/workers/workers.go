// Package workers runs calls, and messages of streams, on goroutines whose stacks have already grown.
//
// A decision needs a larger stack than a goroutine starts with; growing one for each call or message
// costs a tenth of what the call costs. gRPC serves a call on one of its own workers while one is
// free, but a stream keeps its worker until it ends, so that some hundred watchers take all of them.
// Then calls run on workers of this package, as messages of streams always do.
//
//	w := workers.New(128, 256)
//	defer w.Close()
//	grpc.NumStreamWorkers(128), grpc.StreamInterceptor(… w.Stream …)
//	server.RegisterService(w.Calls(desc), service)
package workers

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Workers are goroutines that run one task after the other. The one that was used last gets the
// next task, so that few stacks are kept warm. Create them by New.
type Workers struct {
	grpcs   int          // workers of gRPC
	most    int          // idle workers
	streams atomic.Int64 // open streams, each on a worker of gRPC

	mu     sync.Mutex
	idle   []chan work // guarded by mu; the last used one comes last
	unused int         // how many of the first idle ones had no task since the last look; guarded by mu
	look   *time.Timer // for unused workers; nil while none is idle; guarded by mu
	closed bool        // guarded by mu
}

// looks is the time between two looks for workers that had nothing to do in between: they end.
const looks = 2 * time.Second

// Task is what a worker runs. It must recover from its own panics.
type Task interface{ Do() }

// New returns workers beside those of gRPC, grpcs in number. At most idle of them wait for tasks.
func New(grpcs, idle int) *Workers { return &Workers{grpcs: grpcs, most: idle} }

// Close ends the idle workers, and the others once their task has ended. Tasks after it run on
// goroutines of their own.
func (w *Workers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.look != nil {
		w.look.Stop()
	}
	for _, idle := range w.idle {
		close(idle)
	}
	w.idle = nil
}

// Stream is an interceptor that counts streams. Streams without a worker of gRPC must not pass it.
func (w *Workers) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	w.streams.Add(1)
	defer w.streams.Add(-1)
	return handler(srv, stream)
}

// taken reports whether streams leave less than half of gRPC's workers to calls.
func (w *Workers) taken() bool { return w.streams.Load() > int64(w.grpcs/2) }

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
			done := make(chan struct{})
			w.start(work{call(func() { resp, err = handler(srv, ctx, decode, interceptor) }), done})
			<-done
			return resp, err
		}
	}
	return &wrapped
}

// call is the task of a unary call.
type call func()

// Do implements Task.
func (c call) Do() { c() }

// Do runs a task on a worker, a new one if none is idle, and does not wait for its end.
func (w *Workers) Do(t Task) { w.start(work{task: t}) }

// work is a task; done, unless nil, is closed when it has ended.
type work struct {
	task Task
	done chan struct{}
}

func (w *Workers) start(next work) {
	w.mu.Lock()
	n := len(w.idle)
	if n == 0 {
		w.mu.Unlock()
		go w.run(next)
		return
	}
	worker := w.idle[n-1]
	w.idle = w.idle[:n-1]
	w.unused = min(w.unused, n-1)
	w.mu.Unlock()
	worker <- next
}

// run does the work, and what follows, until there are enough idle workers without this one.
func (w *Workers) run(next work) {
	todo := make(chan work, 1)
	for more := true; more; next, more = <-todo {
		next.task.Do()
		stays := w.rest(todo)
		if next.done != nil {
			close(next.done) // not earlier, so that a caller who calls again finds this worker idle
		}
		if !stays {
			return
		}
	}
}

// rest notes that a worker is idle, and reports whether it is to wait for a task.
func (w *Workers) rest(todo chan work) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= w.most {
		return false
	}
	w.idle = append(w.idle, todo)
	if w.look == nil {
		w.unused = 0
		w.look = time.AfterFunc(looks, w.trim)
	}
	return true
}

// trim ends the workers that had no task since the last look: a burst's stacks are not kept.
func (w *Workers) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for _, idle := range w.idle[:w.unused] {
		close(idle)
	}
	w.idle = slices.Delete(w.idle, 0, w.unused)
	if w.unused = len(w.idle); w.unused == 0 {
		w.look = nil
		return
	}
	w.look.Reset(looks)
}
