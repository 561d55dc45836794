package admission

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// Limited adds limits to the methods of a service: it admits a call and authenticates its caller
// before the message is read, and releases the call's ticket at the end.
func (g *Guard) Limited(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	wrapped := *desc
	wrapped.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range wrapped.Methods {
		handler := wrapped.Methods[i].Handler
		method := "/" + desc.ServiceName + "/" + wrapped.Methods[i].MethodName
		wrapped.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			ticket, err := begin(ctx)
			if err != nil {
				return nil, err
			}
			conn := connectionOf(ctx)
			conn.Begin()
			defer conn.End()
			if g.mayHoldToken(ctx, method) {
				if ticket != nil {
					defer ticket.Release()
				}
				return g.answerByToken(ctx, method, ticket, decode, interceptor, func(ctx context.Context, decode func(any) error) (any, error) {
					return handler(srv, ctx, decode, interceptor)
				})
			}
			if ticket == nil {
				return handler(srv, ctx, g.receiving(ctx, nil, decode), interceptor)
			}
			defer ticket.Release()
			a := admittedOf(ctx)
			if a.who, a.looked = g.identify(ctx, method, ticket), true; a.who.err != nil && a.who.session == nil {
				// Nothing is read from an unknown caller; the interceptors refuse the call.
				return interceptor(ctx, nil, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, notReached)
			}
			resp, err := handler(srv, ctx, g.receiving(ctx, ticket, decode), interceptor)
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

// LimitStreams limits how many streams a caller has open.
func (g *Guard) LimitStreams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if g.Limiter == nil || limit.Exempt(info.FullMethod) {
		return handler(srv, stream)
	}
	var open limit.Stream
	if err := g.Limiter.Open(&open, access.CallerOf(stream.Context()).Name()).Err(); err != nil {
		return err
	}
	defer open.Close()
	conn := connectionOf(stream.Context())
	conn.Begin()
	defer conn.End()
	return handler(srv, counting(stream))
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
