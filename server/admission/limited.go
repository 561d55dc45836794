package admission

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// Limited adds limits to the methods of a service, without which it can't be served (see
// encoded.NewCodec): it admits a call and authenticates its caller before the message is read,
// decodes no message of more than that many bytes (0: the server's limit) or that would cost too
// much, and releases the call's ticket at the end.
func (g *Guard) Limited(desc *grpc.ServiceDesc, most int) *grpc.ServiceDesc {
	wrapped := *desc
	wrapped.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for i := range wrapped.Streams {
		handler := wrapped.Streams[i].Handler
		wrapped.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			in := &receivedStream{stream, received{guard: g, most: most}}
			defer in.pass.Leave()
			return handler(srv, in)
		}
	}
	wrapped.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range wrapped.Methods {
		handler := wrapped.Methods[i].Handler
		method := "/" + desc.ServiceName + "/" + wrapped.Methods[i].MethodName
		wrapped.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (resp any, err error) {
			// The interceptors do it for what they run, and the caller and the message are read before.
			defer func() { err = apierror.Recovered(g.options.Log, method, recover(), err) }()
			ticket, err := begin(ctx)
			if err != nil {
				return nil, err
			}
			conn := connectionOf(ctx)
			conn.Begin()
			defer conn.End()
			if ticket != nil {
				defer ticket.Release()
			}
			if g.mayHoldToken(ctx, method) {
				return g.answerByToken(ctx, method, ticket, decode, interceptor, func(ctx context.Context, decode func(any) error) (any, error) {
					m := received{guard: g, most: most}
					defer m.pass.Leave()
					return handler(srv, ctx, func(v any) error { return m.decode(ctx, v, decode) }, interceptor)
				})
			}
			if a := admittedOf(ctx); ticket != nil {
				if a.who, a.looked = g.identify(ctx, method, ticket), true; a.who.err != nil && a.who.session == nil {
					// Nothing is read from an unknown caller; the interceptors refuse the call.
					return interceptor(ctx, nil, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, notReached)
				}
			}
			m := received{guard: g, most: most}
			defer m.pass.Leave()
			resp, err = handler(srv, ctx, func(v any) error { return m.decode(ctx, v, g.receiving(ctx, ticket, decode)) }, interceptor)
			if counting := ConnOf(ctx); counting != nil && err == nil {
				resp = encoded.Counted(counting, resp)
			}
			return resp, err
		}
	}
	return &wrapped
}

func notReached(context.Context, any) (any, error) {
	return nil, status.Error(codes.Internal, "internal error")
}

// LimitStreams limits how many streams a caller has open, and counts what they are sent.
func (g *Guard) LimitStreams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if limit.Exempt(info.FullMethod) {
		return handler(srv, counting(stream, nil))
	}
	if g.Limiter == nil {
		return handler(srv, counting(stream, connectionOf(stream.Context())))
	}
	caller := access.CallerOf(stream.Context()).Name()
	if isCall(info) {
		if err := g.Limiter.Charge(caller).Err(); err != nil {
			return err
		}
	}
	var open limit.Stream
	if err := g.Limiter.Open(&open, caller).Err(); err != nil {
		return err
	}
	defer open.Close()
	conn := connectionOf(stream.Context())
	conn.Begin()
	defer conn.End()
	return handler(srv, counting(stream, conn))
}

// isCall reports whether a stream counts as one call. Of others each message, or each evaluation, is admitted as one.
func isCall(info *grpc.StreamServerInfo) bool {
	return !info.IsClientStream && info.FullMethod != externalscaler.ExternalScaler_StreamIsActive_FullMethodName
}

// AuthorizeCalls refuses unary calls about targets for which the caller has no right.
func (g *Guard) AuthorizeCalls(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := access.Authorize(ctx, info.FullMethod, req); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// LimitCalls charges every call except batches with a weight of one.
func (g *Guard) LimitCalls(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if info.FullMethod != setpointv1.RecommendationService_BatchRecommend_FullMethodName {
		if err := Charge(ctx, 1); err != nil {
			return nil, err
		}
	}
	return handler(ctx, req)
}
