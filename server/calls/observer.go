package calls

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/tracing"
)

// Observer gives each call an id, and counts and logs it, even if it is refused. Its interceptors
// come first.
type Observer struct {
	Calls   *telemetry.Calls
	log     *zap.Logger
	which   Logged
	tracing *tracing.Tracing // nil: off
	spans   stats.Handler    // creates spans of calls; nil: off
	// failures limits the log lines of calls that failed by their caller's or the
	// store's fault: an outage causes as many as there are calls. faults limits the others'. suppressed counts
	// those omitted since the last line.
	failures, faults *rate.Limiter
	suppressed       atomic.Uint64
}

// failureLines is how many lines of each are logged per second.
const failureLines = 100

// NewObserver returns an observer that uses those counters. tracing may be nil.
func NewObserver(calls *telemetry.Calls, log *zap.Logger, which Logged, tracing *tracing.Tracing) *Observer {
	o := &Observer{
		Calls: calls, log: log, which: which, tracing: tracing,
		failures: rate.NewLimiter(failureLines, failureLines), faults: rate.NewLimiter(failureLines, failureLines),
	}
	if o.tracing != nil {
		o.spans = o.tracing.ServerHandler(func(fullMethod string) bool { return calls.Of(fullMethod).Name != telemetry.OtherMethod })
	}
	return o
}

// ServerOptions are the observer's options of the gRPC server.
func (o *Observer) ServerOptions() []grpc.ServerOption {
	if o.tracing == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(o.spans)}
}

// Traced starts the span of a call that does not come through gRPC's transport. The
// returned function ends it.
func (o *Observer) Traced(ctx context.Context, method string) (context.Context, func(error)) {
	if o.tracing == nil {
		return ctx, func(error) {}
	}
	began := time.Now()
	ctx = o.spans.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
	o.spans.HandleRPC(ctx, &stats.Begin{BeginTime: began})
	return ctx, func(err error) {
		o.spans.HandleRPC(ctx, &stats.End{BeginTime: began, EndTime: time.Now(), Error: err})
	}
}

// Unary observes a call.
func (o *Observer) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	method := o.Calls.Of(info.FullMethod)
	method.Begin()
	c := newCall(ctx)
	resp, err := handler(c, req)
	took, code := time.Since(start), apierror.CodeOf(err)
	method.End(code, took)
	if line := o.line(method, code); line != nil {
		fields := append(o.fields(c, method, code, took, err),
			zap.String("target", apierror.Clip(targetOf(c, req))), zap.Int("requestBytes", messageBytes(req)), zap.Int("responseBytes", messageBytes(resp)))
		if c.Items > 0 {
			fields = append(fields, zap.Int("items", c.Items), zap.Int("failedItems", c.Failed))
		}
		line.Write(fields...)
	}
	if err != nil {
		_ = c.ID()
	}
	if c.requestID != "" && !IsFromGateway(ctx) { // REST returns the id itself
		_ = grpc.SetHeader(ctx, metadata.MD{RequestIDKey: []string{c.requestID}})
	}
	return resp, err
}

// Stream observes a stream from its start to its end.
func (o *Observer) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	start := time.Now()
	method := o.Calls.Of(info.FullMethod)
	method.Begin()
	c := newCall(stream.Context())
	observed := &observedStream{ServerStream: stream, call: c, method: method}
	if !IsFromGateway(c) {
		_ = stream.SetHeader(metadata.MD{RequestIDKey: []string{c.ID()}})
	}
	err := handler(srv, observed)
	took, code := time.Since(start), apierror.CodeOf(err)
	method.End(code, took)
	if line := o.line(method, code); line != nil {
		line.Write(append(o.fields(c, method, code, took, err),
			zap.Uint64("messagesReceived", observed.received.Load()), zap.Uint64("messagesSent", observed.sent.Load()),
			zap.Uint64("requestBytes", observed.receivedBytes.Load()), zap.Uint64("responseBytes", observed.sentBytes.Load()))...)
	}
	return err
}

// observedStream counts a stream's messages.
type observedStream struct {
	grpc.ServerStream
	call                                     *Call
	method                                   *telemetry.Method
	received, sent, receivedBytes, sentBytes atomic.Uint64
}

// Context implements grpc.ServerStream, as do those below.
func (s *observedStream) Context() context.Context { return s.call }

// RecvMsg counts received messages.
func (s *observedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.method.Received()
		s.received.Add(1)
		s.receivedBytes.Add(uint64(messageBytes(m)))
	}
	return err
}

// SendMsg counts sent messages.
func (s *observedStream) SendMsg(m any) error {
	n := messageBytes(m)
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.method.Sent()
		s.sent.Add(1)
		s.sentBytes.Add(uint64(n))
	}
	return err
}
