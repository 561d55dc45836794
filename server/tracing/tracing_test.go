package tracing_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/tracing"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// spansNamed are those of a name.
func spansNamed(spans []*tracev1.Span, name string) []*tracev1.Span {
	var found []*tracev1.Span
	for _, span := range spans {
		if span.GetName() == name {
			found = append(found, span)
		}
	}
	return found
}

// only is the one span of a name.
func only(t *testing.T, spans []*tracev1.Span, name string) *tracev1.Span {
	t.Helper()
	found := spansNamed(spans, name)
	if len(found) != 1 {
		names := make([]string, len(spans))
		for i, span := range spans {
			names[i] = span.GetName()
		}
		t.Fatalf("%d spans %q, want 1; there are %q", len(found), name, names)
	}
	return found[0]
}

// text prints an event or attributes: name{key=value …}.
func text(name string, attributes []*commonv1.KeyValue) string {
	parts := make([]string, len(attributes))
	for i, a := range attributes {
		v := a.GetValue()
		value := v.GetStringValue()
		switch v.GetValue().(type) {
		case *commonv1.AnyValue_IntValue:
			value = fmt.Sprint(v.GetIntValue())
		case *commonv1.AnyValue_DoubleValue:
			value = fmt.Sprint(v.GetDoubleValue())
		case *commonv1.AnyValue_BoolValue:
			value = fmt.Sprint(v.GetBoolValue())
		}
		parts[i] = strings.TrimPrefix(a.GetKey(), "setpoint.") + "=" + value
	}
	return name + "{" + strings.Join(parts, ", ") + "}"
}

func events(span *tracev1.Span) []string {
	all := make([]string, len(span.GetEvents()))
	for i, e := range span.GetEvents() {
		all[i] = text(e.GetName(), e.GetAttributes())
	}
	return all
}

func attribute(span *tracev1.Span, key string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() == key {
			return strings.TrimSuffix(strings.TrimPrefix(text("", []*commonv1.KeyValue{a}), "{"+strings.TrimPrefix(key, "setpoint.")+"="), "}")
		}
	}
	return ""
}

func expectEvents(t *testing.T, span *tracev1.Span, want ...string) {
	t.Helper()
	if got := events(span); !slices.Equal(got, want) {
		t.Errorf("events of %s\n got %s\nwant %s", span.GetName(), strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestACallIsTracedWithTheStepsOfItsDecision(t *testing.T) {
	t.Parallel()
	s, c := servertest.Traced(t, 1)
	plain := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 10, 500)
	req.Spec.Behavior.ScaleUp.Policies[0].Value = 3
	got := s.Recommend(t, req)
	if got.GetExplanation() != nil {
		t.Error("the answer has an explanation without being asked for one")
	}
	servertest.SameMessage(t, servertest.WithoutID(got), servertest.WithoutID(plain.Recommend(t, req)))
	spans := c.Received(t, s)
	call := only(t, spans, servertest.RecommendMethod)
	expectEvents(t, call,
		"metric{name=external metric queue-depth(nil), type=External, proposal=50, ratio=5}",
		"proposal{from=10, to=50, metric=external metric queue-depth(nil)}",
		"stabilized{from=50, to=50, reason=ReadyForNewScale}",
		"rate limit{limit=13, select_policy=Max}",
		"bounds{from=50, to=13, min=1, max=1000, reason=ScaleUpLimit}",
		"decided{from=10, to=13, reason=external metric queue-depth(nil) above target, error=}")
	for key, want := range map[string]string{
		"setpoint.target": servertest.Web, "setpoint.recommendation": got.GetRecommendationId(), "setpoint.attempts": "1",
		"setpoint.dry_run": "false", "setpoint.replayed": "false",
	} {
		if got := attribute(call, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, name := range []string{"store load", "store swap"} {
		child := only(t, spans, name)
		if string(child.GetParentSpanId()) != string(call.GetSpanId()) || string(child.GetTraceId()) != string(call.GetTraceId()) {
			t.Errorf("%s is not within the call", name)
		}
	}
	if about := text("", c.Resource); !strings.Contains(about, "service.name=setpoint") || !strings.Contains(about, "service.version=v1.2.3") {
		t.Errorf("the resource is %s", about)
	}
}

// The steps of all kinds of decisions have explanations inside, and none outside.
func TestTracingChangesNoAnswer(t *testing.T) {
	t.Parallel()
	s, _ := servertest.Traced(t, 1)
	plain := servertest.Start(t)
	for i, req := range []*setpointv1.RecommendRequest{
		servertest.WebRequest(t), servertest.WebRequest(t, servertest.Explained), servertest.WebRequest(t, servertest.DryRun), servertest.WebRequest(t, servertest.WithID("a")), servertest.WebRequest(t, servertest.WithID("a"), servertest.Explained),
		servertest.WebRequest(t, servertest.WithID("b"), servertest.Explained), servertest.WebRequest(t, servertest.WithID("b")),
		servertest.With(servertest.Queue(servertest.Web, 10, 100), func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 5 }), servertest.With(servertest.Queue(servertest.Web, 10, 100), func(r *setpointv1.RecommendRequest) { r.ExternalMetrics = nil }),
		{Target: servertest.Web}, {},
	} {
		got, err := s.Recommendations.Recommend(t.Context(), req)
		want, wantErr := plain.Recommendations.Recommend(t.Context(), req)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%d: %v, want %v", i, err, wantErr)
		}
		if err == nil {
			servertest.SameMessage(t, servertest.WithoutID(got), servertest.WithoutID(want))
		}
		batch, plainBatch := s.Batch(t, req)[0], plain.Batch(t, req)[0]
		if got, want := batch.GetResponse(), plainBatch.GetResponse(); got != nil && want != nil {
			servertest.SameMessage(t, servertest.WithoutID(got), servertest.WithoutID(want))
		} else if (got == nil) != (want == nil) {
			t.Errorf("%d: batch answers %v, want %v", i, batch, plainBatch)
		}
		stream, plainStream := s.Stream(t), plain.Stream(t)
		servertest.Send(t, stream, "1", req)
		servertest.Send(t, plainStream, "1", req)
		if got, want := servertest.Receive(t, stream).GetResponse(), servertest.Receive(t, plainStream).GetResponse(); got != nil && want != nil {
			servertest.SameMessage(t, servertest.WithoutID(got), servertest.WithoutID(want))
		} else if (got == nil) != (want == nil) {
			t.Errorf("%d: stream answers %v, want %v", i, got, want)
		}
	}
}

func TestATraceIsContinuedFromItsCaller(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, tt := range []struct {
		name string
		ask  func(*testing.T, *servertest.Service, string)
	}{
		{"gRPC", func(t *testing.T, s *servertest.Service, header string) {
			_, err := s.Recommendations.Recommend(metadata.AppendToOutgoingContext(t.Context(), "traceparent", header), servertest.Queue(servertest.Web, 3, 50))
			fatal.If(t, err)
		}},
		{"REST, fast path", func(t *testing.T, s *servertest.Service, header string) {
			r := s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.Queue("", 3, 50))
			r.Header.Set("Traceparent", header)
			a := s.MustSend(t, r)
			a.Expect(t, http.StatusOK)
		}},
		{"REST, through the gateway", func(t *testing.T, s *servertest.Service, header string) {
			r := s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.Queue(servertest.Web, 3, 50))
			r.Header.Set("Traceparent", header)
			a := s.MustSend(t, r)
			a.Expect(t, http.StatusOK)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, c := servertest.Traced(t, 0) // only the caller wants it
			tt.ask(t, s, "00-"+trace+"-"+parent+"-01")
			s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
			span := only(t, c.Received(t, s), servertest.RecommendMethod)
			if hex.EncodeToString(span.GetTraceId()) != trace || hex.EncodeToString(span.GetParentSpanId()) != parent {
				t.Errorf("trace %x, parent %x", span.GetTraceId(), span.GetParentSpanId())
			}
			s, c = servertest.Traced(t, 1) // the caller does not want it
			tt.ask(t, s, "00-"+trace+"-"+parent+"-00")
			if spans := c.Received(t, s); len(spans) != 0 {
				t.Errorf("%d spans of a trace that is not sampled", len(spans))
			}
		})
	}
}

func TestRequestsOfABatchHaveSpans(t *testing.T) {
	t.Parallel()
	s, c := servertest.Traced(t, 1)
	requests := []*setpointv1.RecommendRequest{{Target: servertest.Web}}
	for i := range 99 {
		requests = append(requests, servertest.Queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, 50))
	}
	s.Batch(t, requests...)
	spans := c.Received(t, s)
	call, items := only(t, spans, servertest.BatchMethod), spansNamed(spans, "decide")
	if len(items) != 64 {
		t.Fatalf("%d spans, want those of the first 64", len(items))
	}
	for _, item := range items {
		if string(item.GetParentSpanId()) != string(call.GetSpanId()) {
			t.Fatal("one is not within the call")
		}
		failed := attribute(item, "setpoint.target") == servertest.Web
		if got := attribute(item, "setpoint.error") != ""; got != failed {
			t.Errorf("%s: failed %v, want %v", attribute(item, "setpoint.target"), got, failed)
		}
		if code := item.GetStatus().GetCode(); code != tracev1.Status_STATUS_CODE_UNSET {
			t.Errorf("%s: its status is %v, which is not for mistakes of callers", attribute(item, "setpoint.target"), code)
		}
		if n := len(item.GetEvents()); !failed && n != 6 {
			t.Errorf("%d events, want 6", n)
		}
	}
	if n := len(spansNamed(spans, "store load_batch")); n != 2 {
		t.Errorf("%d reads of batches, want the records, and for new targets whether they are fleets", n)
	}
	if n := len(spansNamed(spans, "store swap_batch")); n != 1 {
		t.Errorf("%d swaps of batches, want that of the records", n)
	}
}

func TestMessagesOfAStreamAreTracesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s, c := servertest.Traced(t, 1)
	stream := s.Stream(t)
	for i := range 3 {
		servertest.Send(t, stream, fmt.Sprint(i), servertest.Queue(servertest.Web, 3, 50))
		servertest.Receive(t, stream)
	}
	servertest.Send(t, stream, "bad", &setpointv1.RecommendRequest{Target: servertest.Web})
	servertest.Receive(t, stream)
	fatal.If(t, stream.CloseSend())
	_, _ = servertest.ReceiveAll(t, stream)
	spans := c.Received(t, s)
	call, messages := only(t, spans, servertest.StreamMethod), spansNamed(spans, servertest.StreamMethod+" message")
	if len(messages) != 4 {
		t.Fatalf("%d messages, want 4", len(messages))
	}
	traces := map[string]bool{string(call.GetTraceId()): true}
	for i, m := range messages {
		traces[string(m.GetTraceId())] = true
		if links := m.GetLinks(); len(links) != 1 || string(links[0].GetSpanId()) != string(call.GetSpanId()) {
			t.Errorf("message %d has no link to its stream", i)
		}
		if got, want := attribute(m, "setpoint.error") != "", i == 3; got != want {
			t.Errorf("message %d failed: %v, want %v", i, got, want)
		}
		if code := m.GetStatus().GetCode(); code != tracev1.Status_STATUS_CODE_UNSET {
			t.Errorf("message %d: its status is %v, which is not for mistakes of callers", i, code)
		}
	}
	if len(traces) != 5 {
		t.Errorf("%d traces, want 5", len(traces))
	}
	if n := len(spansNamed(spans, "store swap")); n != 3 {
		t.Errorf("%d swaps, want 3", n)
	}
}

// Callers make up names of methods, and backends index spans by name.
func TestCallsOfUnknownMethodsHaveNoSpans(t *testing.T) {
	t.Parallel()
	s, c := servertest.Traced(t, 1)
	for i := range 3 {
		_ = s.Conn.Invoke(t.Context(), fmt.Sprintf("/a.B%d/C", i), &setpointv1.GetTargetRequest{}, &setpointv1.GetTargetResponse{})
	}
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	for _, span := range c.Received(t, s) {
		if strings.Contains(span.GetName(), "a.B") {
			t.Errorf("there is a span %q", span.GetName())
		}
	}
}

func TestWhatFailsBelowACallIsAnError(t *testing.T) {
	t.Parallel()
	s, c := servertest.Traced(t, 1, func(su *servertest.Setup) {
		su.Store.OnSwap = func(context.Context, store.Swap, servertest.SwapFunc) (store.SwapResult, error) {
			return store.SwapResult{}, store.ErrUnavailable
		}
	})
	s.Batch(t, servertest.Queue(servertest.Web, 3, 50))
	spans := c.Received(t, s)
	if code := only(t, spans, "decide").GetStatus().GetCode(); code != tracev1.Status_STATUS_CODE_ERROR {
		t.Errorf("the status of a request that was not decided is %v", code)
	}
}

func TestAConflictIsTraced(t *testing.T) {
	t.Parallel()
	var done atomic.Bool
	s, c := servertest.Traced(t, 1, func(su *servertest.Setup) {
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
			if done.CompareAndSwap(false, true) {
				if _, err := compareAndSwap(ctx, swap); err != nil {
					return store.SwapResult{}, err
				}
			}
			return compareAndSwap(ctx, swap)
		}
	})
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	spans := c.Received(t, s)
	call := only(t, spans, servertest.RecommendMethod)
	if got := events(call); len(got) == 0 || got[0] != "conflict{attempt=1}" || attribute(call, "setpoint.attempts") != "2" {
		t.Errorf("events %q, attempts %s", got, attribute(call, "setpoint.attempts"))
	}
	if n := len(spansNamed(spans, "store swap")); n != 2 {
		t.Errorf("%d swaps, want 2", n)
	}
}

func TestAStoreThatFailsIsTraced(t *testing.T) {
	t.Parallel()
	f := &servertest.Faults{}
	f.On.Store(true)
	s, c := servertest.Traced(t, 1, f.FailLoads(fmt.Errorf("gone: %w", store.ErrUnavailable)))
	_, _ = s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 30))
	spans := c.Received(t, s)
	for _, name := range []string{"store load", servertest.RecommendMethod} {
		if code := only(t, spans, name).GetStatus().GetCode(); code != tracev1.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: %v", name, code)
		}
	}
}

func TestProbesAreNotTraced(t *testing.T) {
	t.Parallel()
	s, c := servertest.Traced(t, 1)
	if _, err := healthv1.NewHealthClient(s.Conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if spans := c.Received(t, s); len(spans) != 0 {
		t.Errorf("%d spans", len(spans))
	}
}

func TestLinesNameTheirTrace(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s, c := servertest.Traced(t, 1, servertest.Logged(zap.InfoLevel, server.LogAllCalls, &logs))
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	want := hex.EncodeToString(only(t, c.Received(t, s), servertest.RecommendMethod).GetTraceId())
	for _, message := range []string{"scaled", "call"} {
		for _, line := range servertest.Lines(logs, message) {
			if line["trace"] != want {
				t.Errorf("%s names the trace %v, want %s", message, line["trace"], want)
			}
		}
	}
}

// A collector that is away costs traces, no calls.
func TestACollectorThatIsAwayHoldsUpNothing(t *testing.T) {
	t.Parallel()
	// Another process may own the port by now; no server has the first one.
	away, err := tracing.Open(t.Context(), tracing.Options{Endpoint: "http://127.0.0.1:1", Ratio: 1})
	fatal.If(t, err)
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.Tracing = away })
	begun := time.Now()
	for range 100 {
		s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	}
	// If each waited for the collector, it would take the ten seconds of an attempt to send.
	if took := time.Since(begun); took > 5*time.Minute {
		t.Errorf("100 calls took %s", took)
	}
	s.StopAndWait(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := away.Close(ctx); err == nil {
		t.Error("closing without a collector reports no error")
	}
}
