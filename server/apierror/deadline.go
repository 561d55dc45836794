package apierror

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// errOwnDeadline is the cause of a context that ended by the server's own limit, not
// the caller's deadline.
var errOwnDeadline = errors.New("the server's time limit for the call is over")

// WithOwnDeadline limits a call that has no deadline.
func WithOwnDeadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	d := new(deadline.Context)
	d.Begin(ctx, time.Now().Add(timeout), errOwnDeadline)
	return d, d.Cancel
}

// CallerGone returns why the caller no longer waits; nil: it still waits, although the
// server's own limit may have ended the call.
func CallerGone(ctx context.Context) error {
	err := ctx.Err()
	if err != nil && errors.Is(context.Cause(ctx), errOwnDeadline) {
		return nil
	}
	return err
}
