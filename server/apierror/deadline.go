package apierror

import (
	"context"
	"errors"
	"time"
)

// errOwnDeadline is the cause of a context that ended because the server, not the
// caller, bounded the time of a call.
var errOwnDeadline = errors.New("the server's time for a call is up")

// WithOwnDeadline bounds a call that came without a deadline.
func WithOwnDeadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errOwnDeadline)
}

// CallerGone returns why the caller does not wait any more; nil: it does, though the
// server's own time for the call may be up.
func CallerGone(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errOwnDeadline) {
		return nil
	}
	return ctx.Err()
}
