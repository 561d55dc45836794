package encoded

import (
	"context"

	"google.golang.org/grpc"
)

// Handler is the handler type that protoc-gen-go-grpc generates, for encoded messages.
func Handler[S any](method string, call func(S, context.Context, *Message) (*Message, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(Message)
		if err := decode(in); err != nil {
			return nil, err
		}
		defer in.Free()
		handle := func(ctx context.Context, req any) (any, error) {
			answer, err := call(srv.(S), ctx, req.(*Message))
			if err != nil {
				return nil, err
			}
			return answer, nil
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, handle)
	}
}
