package tracing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// DefaultRatio is the default sampled share of traces.
const DefaultRatio = 0.01

// scope names the spans of this program.
const scope = "github.com/setpoint-dev/setpoint/server"

// Options configure the exporter. The variables OTEL_… apply where an option is not
// set, as the library reads them: headers, certificates, timeouts, batching, limits,
// resource attributes. OTEL_TRACES_SAMPLER overrides Ratio.
type Options struct {
	// Endpoint is the collector's host:port, or its URL: http:// for plain text,
	// https:// for TLS.
	Endpoint string
	// Insecure sends plain text to a host:port.
	Insecure bool
	// Ratio is the sampled share of traces, from 0 to 1, if the caller has not decided.
	Ratio float64
	// Version of the program.
	Version string
}

// ValidateRatio returns what is wrong with a ratio.
func ValidateRatio(ratio float64) error {
	if ratio >= 0 && ratio <= 1 {
		return nil
	}
	return fmt.Errorf("%v is not between 0 and 1", ratio)
}

// ValidateEndpoint returns what is wrong with the endpoint.
func (o *Options) ValidateEndpoint() error {
	_, err := o.destination()
	return err
}

// destination returns the exporter's options for the endpoint.
func (o *Options) destination() ([]otlptracegrpc.Option, error) {
	if !strings.Contains(o.Endpoint, "://") {
		if strings.Contains(o.Endpoint, "@") {
			return nil, errors.New("it is neither host:port nor a URL; credentials go into OTEL_EXPORTER_OTLP_HEADERS")
		}
		if _, port, err := net.SplitHostPort(o.Endpoint); err != nil || port == "" {
			return nil, fmt.Errorf("%q is neither host:port nor a URL", o.Endpoint)
		}
		options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(o.Endpoint)}
		if o.Insecure {
			options = append(options, otlptracegrpc.WithInsecure())
		}
		return options, nil
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, strings.ContainsAny(o.Endpoint, "@?#"):
		return nil, errors.New("it must be http://host:port or https://host:port; credentials go into OTEL_EXPORTER_OTLP_HEADERS")
	case u.Scheme == "https" && o.Insecure:
		return nil, errors.New("it asks for TLS, but clear text is asked for too")
	}
	return []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(o.Endpoint)}, nil
}

// Tracing sends traces.
type Tracing struct {
	exporter *otlptrace.Exporter
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Open starts tracing. It does not wait for the collector; spans that can't be sent are
// dropped and reported to otel's error handler.
func Open(ctx context.Context, o Options) (*Tracing, error) {
	if err := ValidateRatio(o.Ratio); err != nil {
		return nil, fmt.Errorf("ratio: %w", err)
	}
	destination, err := o.destination()
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "setpoint"), attribute.String("service.version", o.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx, destination...)
	if err != nil {
		return nil, err
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Ratio))))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracing{exporter: exporter, provider: provider, tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version))}, nil
}

// cutOffTime limits how long ending an attempt to send may take.
const cutOffTime = 250 * time.Millisecond

// Close sends the remaining spans, until the context ends, and takes 250 ms more at
// most.
func (t *Tracing) Close(ctx context.Context) error {
	err := t.provider.Shutdown(ctx)
	if err == nil {
		return nil
	}
	// Close has stopped waiting for the exporter, which would retry endlessly.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutOffTime)
	defer cancel()
	_ = t.exporter.Shutdown(ctx) // it fails for the same reason
	return err
}

// ServerHandler creates a span for each call to our services. Of methods that are not known, whose names callers make up, there
// are none, for backends index spans by name.
func (t *Tracing) ServerHandler(known func(fullMethod string) bool) stats.Handler {
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool {
			return !strings.HasPrefix(info.FullMethodName, "/grpc.") && known(info.FullMethodName)
		}),
	)
}

// Recording returns the context's span if it is sampled; else nil.
func (t *Tracing) Recording(ctx context.Context) trace.Span {
	if t == nil {
		return nil
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// Child starts a child of the context's span if that is sampled; else the span is nil.
func (t *Tracing) Child(ctx context.Context, name string) (context.Context, trace.Span) {
	if t.Recording(ctx) == nil {
		return ctx, nil
	}
	return t.tracer.Start(ctx, name)
}

// Message starts a trace of one message of a stream: a stream lives for hours, and
// whether it is sampled says nothing about its messages. The trace has a link to that
// of the stream. The span is nil if it is not sampled.
func (t *Tracing) Message(ctx context.Context, name string) (context.Context, trace.Span) {
	if t == nil {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer)}
	if stream := trace.SpanContextFromContext(ctx); stream.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: stream}))
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	if !span.IsRecording() {
		return ctx, nil
	}
	return ctx, span
}

// Finish ends a span that may be nil. As of calls, its status is an error only for what is not the caller's to mend.
func Finish(span trace.Span, err error) {
	if span == nil {
		return
	}
	switch status.Code(err) {
	case grpccodes.OK:
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		span.SetStatus(codes.Error, clip(err.Error()))
	default:
		span.SetAttributes(text("error", err.Error()))
	}
	span.End()
}

// ID returns the id of the context's trace if it is sampled; else "".
func (t *Tracing) ID(ctx context.Context) string {
	if span := t.Recording(ctx); span != nil {
		return span.SpanContext().TraceID().String()
	}
	return ""
}
