package apierror

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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

// OfContext is the error of a call that ended before it changed anything: because its caller has gone or the caller's
// deadline has passed, or, which is the server's fault, by the server's own limit. It is nil while the call may go on.
func OfContext(ctx context.Context) error {
	gone := CallerGone(ctx)
	switch {
	case gone != nil:
		return status.FromContextError(gone).Err()
	case ctx.Err() != nil:
		return New(codes.Unavailable, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED,
			"the call took longer than the server gives one without a deadline (--request-timeout); nothing was changed, try again")
	}
	return nil
}
