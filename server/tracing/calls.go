package tracing

import (
	"context"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// calls makes a span of each call to our services, health checks and reflection left out. Names
// and attributes are those of OpenTelemetry's semantic conventions for RPC servers. It
// implements [stats.Handler].
type calls struct{ tracer trace.Tracer }

// ServerHandler makes a span of each call to our services.
func (t *Tracing) ServerHandler() stats.Handler { return calls{t.tracer} }

// TagRPC begins the span, which continues the caller's trace.
func (c calls) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if strings.HasPrefix(info.FullMethodName, "/grpc.") {
		return ctx
	}
	name := clip(strings.TrimPrefix(info.FullMethodName, "/"))
	ctx = propagation.TraceContext{}.Extract(ctx, headers{ctx})
	ctx, span := c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", name))
	}
	return ctx
}

// HandleRPC tells the span where the call arrived and what became of it.
func (calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	switch event := event.(type) {
	case *stats.InHeader:
		if event.LocalAddr != nil {
			span.SetAttributes(address(event.LocalAddr.String())...)
		}
	case *stats.End:
		s := status.Convert(event.Error)
		if failedHere(s.Code()) {
			span.SetStatus(otelcodes.Error, clip(s.Message()))
		}
		span.SetAttributes(attribute.String("rpc.response.status_code", codeName(s.Code())))
		span.End()
	}
}

// TagConn implements [stats.Handler].
func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements [stats.Handler].
func (calls) HandleConn(context.Context, stats.ConnStats) {}

// headers are a call's, without a copy of those that nobody asks for. It implements
// [propagation.TextMapCarrier] for reading.
type headers struct{ ctx context.Context }

// Get returns the first value of a header, or nothing.
func (h headers) Get(name string) string {
	if values := metadata.ValueFromIncomingContext(h.ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set does nothing.
func (headers) Set(string, string) {}

// Keys returns nothing.
func (headers) Keys() []string { return nil }

func address(listener string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return []attribute.KeyValue{attribute.String("server.address", listener)}
	}
	attributes := []attribute.KeyValue{attribute.String("server.address", host)}
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, attribute.Int("server.port", n))
	}
	return attributes
}

// failedHere reports whether a code says that the server failed, and not its caller.
func failedHere(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

// codeName is a code as the conventions spell it, such as NOT_FOUND.
func codeName(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED" // gRPC's specification has two l, its Go library one
	}
	var name strings.Builder
	for i, r := range code.String() {
		if i > 0 && r >= 'A' && r <= 'Z' && code != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(r)
	}
	return strings.ToUpper(name.String())
}
