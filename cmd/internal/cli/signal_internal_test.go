package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A command that a signal ends says so, wherever it was, and its exit code is no answer; one that fails by itself says why.
func TestAnInterruptIsNamed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	wrong, signaled := errors.New("wrong"), errors.New("interrupt signal received")
	canceled := fmt.Errorf("at 3h: %w", context.Canceled)
	if got := interrupted(ctx, canceled); got.Error() != canceled.Error() {
		t.Errorf("before a signal: %v", got)
	}
	cancel(signaled)
	for err, want := range map[error]error{canceled: interruptedError{signaled}, status.Error(codes.Canceled, "of a call"): interruptedError{signaled}, wrong: wrong, nil: nil} {
		if got := interrupted(ctx, err); got != want {
			t.Errorf("of %v: %v, want %v", err, got, want)
		}
	}
	if got := ExitCode(interrupted(ctx, canceled)); got != ExitInterrupted {
		t.Errorf("exit code %d, which is that of an answer", got)
	}
}

// At a terminal nobody may ever type: a command that waits for standard input ends with the first signal.
func TestStandardInputEndsWithTheContext(t *testing.T) {
	t.Parallel()
	typed, never := io.Pipe()
	defer func() { _ = never.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &cobra.Command{Use: "read", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		cancel()
		_, err := ReadWithin(cmd, "-", 1)
		return err
	}}
	cmd.SetArgs([]string{})
	cmd.SetIn(typed)
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
