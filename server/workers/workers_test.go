package workers_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/server/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goroutine is the runtime's name of the one that calls it.
func goroutine() string {
	var stack [64]byte
	return strings.Fields(string(stack[:runtime.Stack(stack[:], false)]))[1]
}

// call has the handler run as a method of a service.
func call(w *workers.Workers, handler func() string) string {
	desc := w.Calls(&grpc.ServiceDesc{Methods: []grpc.MethodDesc{{
		Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			return handler(), nil
		},
	}}})
	answer, _ := desc.Methods[0].Handler(nil, context.Background(), nil, nil)
	return answer.(string)
}

// stream opens a stream, which ends with end.
func stream(t *testing.T, w *workers.Workers) (end func()) {
	t.Helper()
	opened, ending, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Stream(nil, nil, nil, func(any, grpc.ServerStream) error {
			close(opened)
			<-ending
			return nil
		})
	}()
	<-opened
	return func() { close(ending); <-ended }
}

// While gRPC's workers are free calls stay on them; while streams take them the worker that was used
// last runs the next call.
func TestCallsOfManyStreams(t *testing.T) {
	t.Parallel()
	w := workers.New(2, 2)
	defer w.Close()
	if got, here := call(w, goroutine), goroutine(); got != here {
		t.Errorf("without streams the call runs on %s, not on %s", got, here)
	}
	first := stream(t, w)
	if got, here := call(w, goroutine), goroutine(); got != here {
		t.Errorf("beside one stream the call runs on %s, not on %s", got, here)
	}
	second := stream(t, w)
	worker := call(w, goroutine)
	if worker == goroutine() {
		t.Error("beside two streams the call runs where it came")
	}
	for range 100 {
		if got := call(w, goroutine); got != worker {
			t.Fatalf("the next call runs on %s, the one before on %s", got, worker)
		}
	}
	second()
	if got, here := call(w, goroutine), goroutine(); got != here {
		t.Errorf("after the second stream the call runs on %s, not on %s", got, here)
	}
	first()
}

// Nobody waits for a worker, and no more of them stay than may be idle.
func TestMoreCallsThanWorkers(t *testing.T) {
	t.Parallel()
	w := workers.New(1, 1)
	end := stream(t, w)
	defer end()
	var all, calling sync.WaitGroup
	all.Add(50)
	for range 50 {
		calling.Go(func() {
			call(w, func() string {
				all.Done()
				all.Wait() // until all of them run
				return ""
			})
		})
	}
	calling.Wait()
	w.Close()
	if got := call(w, goroutine); got == "" {
		t.Error("after Close a call does not run")
	}
}

// waiting is a task that ends when it is told to.
type waiting struct {
	began *sync.WaitGroup
	end   <-chan struct{}
	on    chan<- string // the goroutine
}

func (t waiting) Do() { t.began.Done(); <-t.end; t.on <- goroutine() }

// However many tasks run at once, at most so many workers wait for the next ones; these are used
// again, and end with Close.
func TestWorkersAreUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		w := workers.New(0, most)
		wave := func(n int) (on []string) {
			var began sync.WaitGroup
			end, ran := make(chan struct{}), make(chan string, n)
			for range n {
				began.Add(1)
				w.Do(waiting{&began, end, ran})
			}
			began.Wait() // all of them run at once
			close(end)
			synctest.Wait()
			for range n {
				on = append(on, <-ran)
			}
			return on
		}
		first := wave(2 * most)
		second := wave(2 * most)
		used := 0
		for _, one := range second {
			if slices.Contains(first, one) {
				used++
			}
		}
		if used != most {
			t.Errorf("%d of the first workers were used again, want %d", used, most)
		}
		w.Close()
		synctest.Wait() // a worker that stayed would keep the bubble from ending
		wave(1)
	})
}

// Workers without a task for a while end; the one that is used stays.
func TestUnusedWorkersEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		w := workers.New(0, many)
		run := func(n int) (on []string) {
			var began sync.WaitGroup
			end, ran := make(chan struct{}), make(chan string, n)
			began.Add(n)
			for range n {
				w.Do(waiting{&began, end, ran})
			}
			began.Wait()
			close(end)
			synctest.Wait()
			for range n {
				on = append(on, <-ran)
			}
			return on
		}
		run(many)
		one := run(1)[0]
		for range 10 {
			time.Sleep(time.Second)
			if got := run(1)[0]; got != one {
				t.Fatalf("the used worker is %s, was %s", got, one)
			}
		}
		burst := run(many) // on new goroutines, but for one
		if !slices.Contains(burst, one) {
			t.Error("the used worker has ended")
		}
		time.Sleep(time.Minute) // all end without Close, or the bubble would report a deadlock
	})
}
