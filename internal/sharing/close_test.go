package sharing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// asks counts requests and holds them until they are released.
type asks struct {
	began   chan context.Context
	release chan error
}

func newAsks() *asks {
	return &asks{make(chan context.Context, 100), make(chan error)}
}

func (a *asks) ask(ctx context.Context) (any, error) {
	a.began <- ctx
	select {
	case err := <-a.release:
		return "answer", err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestCloseCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := New[any](time.Second), newAsks()
		errs := make(chan error, 1)
		go func() { _, _, err := s.Get(t.Context(), "q", time.Minute, a.ask); errs <- err }()
		synctest.Wait()
		s.Close()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatalf("who waited got %v", err)
		}
		_, _, err := s.Get(t.Context(), "q", time.Minute, a.ask)
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("after Close: %v", err)
		}
	})
}
