package setpoint

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// boundCalls is an interceptor: a call ends with the client, and in time.
func (c *Client) boundCalls(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return invoke(ctx, method, req, reply, cc, options...)
}

// bounded returns a context that ends with the client, and has the default timeout if it had no deadline.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := bounded(ctx, c.config.timeout)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// bounded adds a deadline to a context without one; 0: no deadline.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// withAttemptTimeout bounds each attempt of a repeatable call; below 0: no bound.
func withAttemptTimeout(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if timeout > 0 && isRepeatable(method, req) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		return invoke(ctx, method, req, reply, cc, options...)
	}
}
