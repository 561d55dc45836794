package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

var lifecycleTests = []test{
	{"Ping", testPing},
	{"CanceledContext", testCanceled},
	{"ExceededDeadline", testDeadline},
	{"Closed", testClosed},
}

// operations are all methods that take a context.
var operations = []struct {
	name string
	call func(ctx context.Context, e Engine) error
}{
	{"Load", func(ctx context.Context, e Engine) error {
		_, err := e.Load(ctx, key("target"))
		return err
	}},
	{"LoadBatch", func(ctx context.Context, e Engine) error {
		_, err := e.LoadBatch(ctx, numbered(3))
		return err
	}},
	{"CompareAndSwap", func(ctx context.Context, e Engine) error {
		_, err := e.CompareAndSwap(ctx, store.Swap{Key: key("new")})
		return err
	}},
	{"CompareAndSwapBatch", func(ctx context.Context, e Engine) error {
		_, err := e.CompareAndSwapBatch(ctx, []store.Swap{{Key: key("new 1")}, {Key: key("new 2")}})
		return err
	}},
	{"Delete", func(ctx context.Context, e Engine) error {
		_, err := e.Delete(ctx, key("missing"))
		return err
	}},
	{"List", func(ctx context.Context, e Engine) error {
		_, err := e.List(ctx, store.Filter{}, store.Key{}, 10)
		return err
	}},
	{"Ping", func(ctx context.Context, e Engine) error {
		return e.Ping(ctx)
	}},
	{"AppendLog", func(ctx context.Context, e Engine) error {
		return e.AppendLog(ctx, []store.LogEntry{{Key: key("target"), Value: []byte("entry")}})
	}},
	{"ReadLog", func(ctx context.Context, e Engine) error {
		_, _, err := e.ReadLog(ctx, key("target"), "", 10)
		return err
	}},
}

func testPing(t *testing.T, s suite) {
	f := s.open(t)
	if err := f.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

func testCanceled(t *testing.T, s suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testContext(ctx, t, s, context.Canceled)
}

func testDeadline(t *testing.T, s suite) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	testContext(ctx, t, s, context.DeadlineExceeded)
}

// testContext checks that operations with a context that is over return its error, and
// that the engine serves others afterwards.
func testContext(ctx context.Context, t *testing.T, s suite, want error) {
	f := s.open(t)
	v := f.create(key("target"), "value")
	for _, op := range operations {
		if err := op.call(ctx, f); !errors.Is(err, want) {
			t.Errorf("%s returned %v, want an error that wraps %v", op.name, err, want)
		}
	}
	for _, op := range operations {
		if err := op.call(t.Context(), f); err != nil {
			t.Errorf("%s afterwards: %v", op.name, err)
		}
	}
	f.wantRecord(key("target"), v, "value")
}

func testClosed(t *testing.T, s suite) {
	f := s.open(t)
	f.create(key("target"), "value")
	if err := f.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for _, op := range operations {
		if err := op.call(t.Context(), f); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s returned %v, want an error that wraps ErrClosed", op.name, err)
		}
	}
	if err := f.Close(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a second Close returned %v, want an error that wraps ErrClosed", err)
	}
}
