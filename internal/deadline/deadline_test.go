package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/deadline"
)

var errCause = errors.New("cause")

type key struct{}

// A context behaves exactly as one of package context, whether Done was called or not.
func TestItEndsAsAContextWithATimer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		end  func(parent, own context.CancelFunc)
		soon time.Duration // until the parent's deadline
	}{
		{"at its deadline", func(_, _ context.CancelFunc) { time.Sleep(time.Minute) }, time.Hour},
		{"when it is canceled", func(_, own context.CancelFunc) { own() }, time.Hour},
		{"with its parent", func(parent, _ context.CancelFunc) { parent() }, time.Hour},
		{"at its parent's deadline", func(_, _ context.CancelFunc) { time.Sleep(time.Minute) }, time.Second},
		{"not", func(_, _ context.CancelFunc) {}, time.Hour},
		{"once only", func(parent, own context.CancelFunc) { own(); parent(); time.Sleep(time.Minute) }, time.Hour},
	} {
		for _, waited := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), tc.soon)
					defer cancel()
					at := time.Now().Add(30 * time.Second)
					want, cancelWant := context.WithDeadlineCause(parent, at, errCause)
					defer cancelWant()
					var got deadline.Context
					got.Begin(parent, at, errCause)
					defer got.Cancel()
					if waited {
						_ = got.Done()
					}
					tc.end(cancel, func() { cancelWant(); got.Cancel() })
					synctest.Wait()
					if got.Err() != want.Err() || context.Cause(&got) != context.Cause(want) {
						t.Errorf("%v for %v, want %v for %v", got.Err(), context.Cause(&got), want.Err(), context.Cause(want))
					}
					gotAt, _ := got.Deadline()
					if wantAt, _ := want.Deadline(); !gotAt.Equal(wantAt) || got.Value(key{}) != "value" {
						t.Errorf("ends at %v, want %v, and has %v", gotAt, wantAt, got.Value(key{}))
					}
					child, cancelChild := context.WithCancel(&got)
					defer cancelChild()
					synctest.Wait()
					if (child.Err() != nil) != (want.Err() != nil) || (isClosed(got.Done())) != (want.Err() != nil) {
						t.Errorf("its child ends with %v, its channel is closed: %v, want %v", child.Err(), isClosed(got.Done()), want.Err())
					}
				})
			})
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Nobody waits for most contexts, so they take no memory beyond their own.
func TestItTakesNoMemory(t *testing.T) {
	parent := t.Context()
	d := new(deadline.Context)
	if n := testing.AllocsPerRun(100, func() {
		*d = deadline.Context{}
		d.Begin(parent, time.Now().Add(time.Hour), nil)
		_ = d.Err()
		d.Cancel()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
