package calls

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/server/apierror"
)

// WithDeadline limits calls without a deadline.
func WithDeadline(timeout time.Duration) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if _, has := ctx.Deadline(); !has {
			var cancel context.CancelFunc
			ctx, cancel = apierror.WithOwnDeadline(ctx, timeout)
			defer cancel()
		}
		return handler(ctx, req)
	}
}

// RecoverCalls turns a panic into INTERNAL, so that one bad request does not end the
// others. The stack is only logged.
func RecoverCalls(log *zap.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() { err = apierror.Recovered(log, info.FullMethod, recover(), err) }()
		return handler(ctx, req)
	}
}

// RecoverStreams is RecoverCalls for streams.
func RecoverStreams(log *zap.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() { err = apierror.Recovered(log, info.FullMethod, recover(), err) }()
		return handler(srv, stream)
	}
}

// ChainUnary combines interceptors into one, the outermost first. They may call their
// handlers once at a time.
func ChainUnary(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		c := &chainedCall{all: all, info: info, handler: handler}
		c.call = c.next
		return c.next(ctx, req)
	}
}

// chainedCall is the state of a call in the interceptors: one for all of them, because a handler
// for each would be an allocation.
type chainedCall struct {
	all     []grpc.UnaryServerInterceptor
	at      int // index of the next interceptor
	info    *grpc.UnaryServerInfo
	handler grpc.UnaryHandler
	call    grpc.UnaryHandler // the next handler
}

// next implements grpc.UnaryHandler.
func (c *chainedCall) next(ctx context.Context, req any) (any, error) {
	if c.at == len(c.all) {
		return c.handler(ctx, req)
	}
	one := c.all[c.at]
	c.at++
	defer func() { c.at-- }() // an interceptor may call its handler again
	return one(ctx, req, c.info, c.call)
}

// ChainStreams combines interceptors into one, the outermost first.
func ChainStreams(all []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		for _, one := range slices.Backward(all) {
			next := handler
			handler = func(srv any, stream grpc.ServerStream) error { return one(srv, stream, info, next) }
		}
		return handler(srv, stream)
	}
}
