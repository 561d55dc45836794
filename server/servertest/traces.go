package servertest

import (
	"context"
	"slices"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/tracing"
)

// Collector takes traces, as an OpenTelemetry collector does.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string
	tracing *tracing.Tracing

	mu       sync.Mutex
	spans    []*tracev1.Span      // guarded by mu
	Resource []*commonv1.KeyValue // what sends the spans; guarded by mu
}

// Export implements the collector's service.
func (c *Collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		c.Resource = r.GetResource().GetAttributes()
		for _, scope := range r.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// Traced starts a service that sends traces.
func Traced(t testing.TB, ratio float64, changes ...func(*Setup)) (*Service, *Collector) {
	t.Helper()
	c := &Collector{}
	listener := Listen(t)
	c.address = listener.Addr().String()
	srv := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(srv, c)
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	var err error
	c.tracing, err = tracing.Open(t.Context(), tracing.Options{Endpoint: c.address, Insecure: true, Ratio: ratio, Version: "v1.2.3"})
	fatal.If(t, err)
	t.Cleanup(func() { _ = c.tracing.Close(context.Background()) })
	return Start(t, append(changes, func(su *Setup) { su.Options.Tracing = c.tracing })...), c
}

// Received stops the service and returns what the collector got, in order of begin.
func (c *Collector) Received(t *testing.T, s *Service) []*tracev1.Span {
	t.Helper()
	s.StopAndWait(t)
	fatal.If(t, c.tracing.Close(t.Context()))
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.spans, func(a, b *tracev1.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	return c.spans
}
