package tracing

import (
	"context"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// fakeCollector answers what a test says, and keeps the calls' metadata and spans.
type fakeCollector struct {
	collectorv1.UnimplementedTraceServiceServer
	answer func(call int) (*collectorv1.ExportTraceServiceResponse, error)
	calls  []metadata.MD // one call runs at a time
	spans  []*tracev1.Span
}

func (f *fakeCollector) Export(ctx context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	f.calls = append(f.calls, md)
	answer, err := f.answer(len(f.calls))
	if err == nil {
		for _, of := range r.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				f.spans = append(f.spans, scope.GetSpans()...)
			}
		}
	}
	return answer, err
}

func accepts(int) (*collectorv1.ExportTraceServiceResponse, error) {
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// serve starts a collector and returns its address.
func serve(t *testing.T, f *fakeCollector, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	collectorv1.RegisterTraceServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// send traces one call and returns what closing says, when everything is sent or lost.
func send(t *testing.T, o Options) error {
	t.Helper()
	o.Ratio = 1
	tracing, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracing.tracer.Start(t.Context(), "one", trace.WithNewRoot())
	span.End()
	return tracing.provider.ForceFlush(t.Context())
}

func TestSettingsOfOTLPAreReadFromTheEnvironment(t *testing.T) {
	f := &fakeCollector{answer: accepts}
	address := serve(t, f)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-common=lost")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Basic%20YTpi, x-tenant=shop")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
	if err := send(t, Options{Endpoint: address, Version: "v1.2.3"}); err != nil {
		t.Fatal(err)
	}
	if len(f.spans) != 1 || len(f.calls) != 1 {
		t.Fatalf("%d spans came in %d calls", len(f.spans), len(f.calls))
	}
	got := f.calls[0]
	for name, want := range map[string][]string{"authorization": {"Basic YTpi"}, "x-tenant": {"shop"}, "x-common": nil} {
		if !slices.Equal(got.Get(name), want) {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	if agent := strings.Join(got.Get("user-agent"), ""); !strings.HasPrefix(agent, "setpoint/v1.2.3") {
		t.Errorf("the user agent is %q", agent)
	}
}

func TestACollectorIsSpokenToWithTLS(t *testing.T) {
	issued := httptest.NewTLSServer(nil) // its certificate is what is wanted
	defer issued.Close()
	pair := issued.TLS.Certificates[0]
	f := &fakeCollector{answer: accepts}
	address := serve(t, f, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca)
	for _, endpoint := range []string{address, "https://" + address} {
		f.spans = nil
		if err := send(t, Options{Endpoint: endpoint}); err != nil || len(f.spans) != 1 {
			t.Errorf("%s: %d spans came, error %v", endpoint, len(f.spans), err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "500")
	if err := send(t, Options{Endpoint: address}); err == nil {
		t.Error("a collector is trusted whose certificate nobody vouches for")
	}
}

func TestWhatACollectorRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer func(int) (*collectorv1.ExportTraceServiceResponse, error)
		calls  int
		says   string
	}{
		{"it is away for a moment", func(call int) (*collectorv1.ExportTraceServiceResponse, error) {
			if call == 1 {
				return nil, status.Error(codes.Unavailable, "starting")
			}
			return accepts(call)
		}, 2, ""},
		{"it does not know the caller", func(int) (*collectorv1.ExportTraceServiceResponse, error) {
			return nil, status.Error(codes.Unauthenticated, "who are you?")
		}, 1, "who are you?"},
		{"it takes a part", func(int) (*collectorv1.ExportTraceServiceResponse, error) {
			return &collectorv1.ExportTraceServiceResponse{PartialSuccess: &collectorv1.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"}}, nil
		}, 1, "the collector refused 1 spans: too old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeCollector{answer: c.answer}
			err := send(t, Options{Endpoint: serve(t, f), Insecure: true})
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if len(f.calls) != c.calls {
				t.Errorf("%d calls, want %d", len(f.calls), c.calls)
			}
		})
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ name, variable, value, says string }{
		{"no number", "OTEL_EXPORTER_OTLP_TIMEOUT", "10s", `"10s" is not a number of milliseconds`},
		{"no time at all", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0", "is not a number of milliseconds"},
		{"unknown compression", "OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", `"zstd" is neither gzip nor none`},
		{"no file", "OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"a certificate without its key", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/nowhere/cert.pem", "give both files or neither"},
		{"a header without a value", "OTEL_EXPORTER_OTLP_HEADERS", "a=b,geheim", "number 2 is not of the form name=value"},
		{"a header with a wrong name", "OTEL_EXPORTER_OTLP_HEADERS", "a b=geheim", "number 1 is not of the form name=value"},
		{"a header of gRPC's", "OTEL_EXPORTER_OTLP_HEADERS", "grpc-timeout=geheim", "number 1: names that begin with grpc-"},
		{"a value that is cut off", "OTEL_EXPORTER_OTLP_HEADERS", "a=geheim%2", "a: the value has a %"},
		{"a line feed", "OTEL_EXPORTER_OTLP_HEADERS", "a=geheim%0A", "a: the value has characters other than printable ASCII"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			_, err := Open(t.Context(), Options{Endpoint: "127.0.0.1:1"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
			if strings.Contains(err.Error(), "geheim") {
				t.Errorf("the error quotes a header: %v", err)
			}
		})
	}
}

// What is being sent ends with the tracing, however long its time is.
func TestClosingDoesNotWaitForACollectorThatIsSilent(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	f := &fakeCollector{answer: func(call int) (*collectorv1.ExportTraceServiceResponse, error) {
		close(entered)
		<-release
		return accepts(call)
	}}
	defer close(release)
	tracing, err := Open(t.Context(), Options{Endpoint: serve(t, f), Insecure: true, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracing.tracer.Start(t.Context(), "one")
	span.End()
	flushed := make(chan error, 1)
	go func() { flushed <- tracing.provider.ForceFlush(context.Background()) }()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracing.Close(ctx); err == nil {
		t.Error("nobody says that traces are lost")
	}
	select {
	case err := <-flushed:
		if err == nil {
			t.Error("what was being sent is said to have arrived")
		}
	case <-time.After(time.Minute):
		t.Error("what was being sent goes on")
	}
}

func TestASpanHasWhatTheConventionsWant(t *testing.T) {
	t.Parallel()
	f := &fakeCollector{answer: accepts}
	tracing, err := Open(t.Context(), Options{Endpoint: serve(t, f), Insecure: true, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	handler := tracing.ServerHandler()
	for _, err := range []error{nil, status.Error(codes.NotFound, "none"), status.Error(codes.Canceled, "gone"), status.Error(codes.DataLoss, "lost")} {
		ctx := handler.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: "/setpoint.v1.S/M"})
		handler.HandleRPC(ctx, &stats.InHeader{LocalAddr: &net.TCPAddr{IP: net.IPv6loopback, Port: 9090}})
		handler.HandleRPC(ctx, &stats.End{Error: err})
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []struct {
		code   string
		failed bool
	}{{"OK", false}, {"NOT_FOUND", false}, {"CANCELLED", false}, {"DATA_LOSS", true}}
	if len(f.spans) != len(want) {
		t.Fatalf("%d spans", len(f.spans))
	}
	for i, span := range f.spans {
		attributes := map[string]string{}
		for _, a := range span.GetAttributes() {
			attributes[a.GetKey()] = a.GetValue().GetStringValue()
			if a.GetKey() == "server.port" && a.GetValue().GetIntValue() != 9090 {
				t.Errorf("the port is %v", a.GetValue())
			}
		}
		failed := span.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR
		if span.GetName() != "setpoint.v1.S/M" || span.GetKind() != tracev1.Span_SPAN_KIND_SERVER || failed != want[i].failed ||
			attributes["rpc.response.status_code"] != want[i].code || attributes["rpc.method"] != "setpoint.v1.S/M" ||
			attributes["rpc.system.name"] != "grpc" || attributes["server.address"] != "::1" {
			t.Errorf("got %v, want %v", span, want[i])
		}
	}
}
