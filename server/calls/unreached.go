package calls

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/telemetry"
)

// Registrar registers services whose calls are observed even if they end before the
// interceptors: their message is too large, can't be read, or never arrives.
type Registrar struct {
	*grpc.Server
	Observer *Observer
}

// RegisterService implements grpc.ServiceRegistrar.
func (r Registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	r.Server.RegisterService(r.Observer.reaching(desc), impl)
}

// reaching returns the methods of a service, whose calls are observed if they never reach
// the interceptors. Streams always reach them.
func (o *Observer) reaching(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	wrapped := *desc
	wrapped.Methods = slices.Clone(desc.Methods)
	for i := range wrapped.Methods {
		handler := wrapped.Methods[i].Handler
		method := o.Calls.Of("/" + desc.ServiceName + "/" + wrapped.Methods[i].MethodName)
		wrapped.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			start, reached := time.Now(), false
			resp, err := handler(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				reached = true
				return next(ctx, req, info, handle)
			})
			if err != nil && !reached {
				o.unreached(ctx, method, time.Since(start), err)
			}
			return resp, err
		}
	}
	return &wrapped
}

// unreached counts and logs a call that ended before the interceptors.
func (o *Observer) unreached(ctx context.Context, method *telemetry.Method, took time.Duration, err error) {
	code := apierror.CodeOf(err)
	method.Refused(code)
	if line := o.line(method, code); line != nil {
		line.Write(append(o.fields(newCall(ctx), method, code, took, err), zap.String("target", ""), zap.Int("requestBytes", 0), zap.Int("responseBytes", 0))...)
	}
}

// UnknownMethods makes gRPC treat calls of unknown methods as streams, so that they are
// observed, and responds to them.
func UnknownMethods(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return status.Error(codes.Unimplemented, "unknown method "+apierror.Clip(method))
}

// AnswerUnknown responds to such calls before authentication, as gRPC itself would.
func AnswerUnknown(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if srv == nil { // it belongs to no service
		return UnknownMethods(nil, stream)
	}
	return next(srv, stream)
}
