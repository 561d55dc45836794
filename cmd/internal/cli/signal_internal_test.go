package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// A command that a signal ends says so, wherever it was; one that fails by itself says why.
func TestAnInterruptIsNamed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	wrong, signaled := errors.New("wrong"), errors.New("interrupt signal received")
	canceled := fmt.Errorf("at 3h: %w", context.Canceled)
	if got := interrupted(ctx, canceled); got.Error() != canceled.Error() {
		t.Errorf("before a signal: %v", got)
	}
	cancel(signaled)
	for err, want := range map[error]error{canceled: signaled, wrong: wrong, nil: nil} {
		if got := interrupted(ctx, err); got != want {
			t.Errorf("of %v: %v, want %v", err, got, want)
		}
	}
}
