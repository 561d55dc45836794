package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/telemetry"
)

var _ setpointv1.TargetServiceServer = watched{}

// watched is a service whose stream runs a function of the test.
type watched struct {
	setpointv1.UnimplementedTargetServiceServer
	watch func(*setpointv1.WatchDecisionsRequest, grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error
}

func (w watched) WatchDecisions(req *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	return w.watch(req, stream)
}

func (w watched) GetTarget(context.Context, *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	panic("of a method")
}

// watch opens a stream in the process, as the gateway does.
func watch(t *testing.T, ctx context.Context, req *setpointv1.WatchDecisionsRequest, w watched) (grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse], error) {
	t.Helper()
	return clientInside(t, w).WatchDecisions(ctx, req)
}

func clientInside(t *testing.T, w watched) setpointv1.TargetServiceClient {
	t.Helper()
	return setpointv1.NewTargetServiceClient(connInside(t, w))
}

func connInside(t *testing.T, w watched) grpc.ClientConnInterface {
	t.Helper()
	log := zap.NewNop()
	g := New(Options{
		Observer:        calls.NewObserver(telemetry.NewCalls(), log, calls.LogFailed, nil),
		Unary:           calls.RecoverCalls(log),
		Streams:         calls.ChainStreams([]grpc.StreamServerInterceptor{calls.AnswerUnknown, calls.RecoverStreams(log)}),
		MaxRequestBytes: 1 << 10,
	})
	g.Add(&setpointv1.TargetService_ServiceDesc, w)
	return g.conn
}

// A caller whose credentials end while its body is read is told as one who has none: the header has a scheme, no message.
func TestARefusalByTheServicesNamesTheScheme(t *testing.T) {
	t.Parallel()
	mux, w, r := newMux(), httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/instances", http.NoBody)
	_, m := runtime.MarshalerForRequest(mux, r)
	answerError(r.Context(), mux, m, w, r, status.Error(codes.Unauthenticated, "the bearer token expired at noon"))
	if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || got != "Bearer" {
		t.Errorf("HTTP %d, WWW-Authenticate: %s", w.Code, got)
	}
}

func TestAStreamInTheProcessIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	parent := "clusters/c/namespaces/n/targets/t"
	stream, err := watch(t, t.Context(), &setpointv1.WatchDecisionsRequest{Parent: parent}, watched{watch: func(req *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
		if !calls.IsFromGateway(stream.Context()) {
			t.Error("the call is not marked as coming from REST")
		}
		if err := stream.SetHeader(metadata.Pairs("first", "yes")); err != nil {
			return err
		}
		for range 3 {
			answer := &setpointv1.WatchDecisionsResponse{Decision: &setpointv1.Decision{RecommendationId: req.GetParent()}}
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		stream.SetTrailer(metadata.Pairs("last", "yes"))
		return status.Error(codes.FailedPrecondition, "told at the end")
	}})
	fatal.If(t, err)
	for range 3 {
		answer, err := stream.Recv()
		if err != nil || answer.GetDecision().GetRecommendationId() != parent {
			t.Fatalf("got %v, %v", answer, err)
		}
	}
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v at the end, want FAILED_PRECONDITION", err)
	}
	if header, err := stream.Header(); err != nil || len(header) != 1 || len(header["first"]) != 1 {
		t.Errorf("headers %v, %v", header, err)
	}
	if got := stream.Trailer()["last"]; len(got) != 1 || got[0] != "yes" {
		t.Errorf("trailers %v", stream.Trailer())
	}
}

// A handler frees its encoded response once it is sent: it is still whole when it is read.
func TestAStreamInTheProcessOwnsWhatIsSent(t *testing.T) {
	t.Parallel()
	freed := make(chan struct{})
	conn := connInside(t, watched{watch: func(_ *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
		defer close(freed)
		m := encoded.NewAnswer()
		var err error
		if m.Data, err = requests.Marshal(m.Data, &setpointv1.WatchDecisionsResponse{Target: "first"}); err != nil {
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
		m.Free()
		return nil
	}})
	stream, err := conn.NewStream(t.Context(), nil, setpointv1.TargetService_WatchDecisions_FullMethodName)
	fatal.If(t, err)
	fatal.If(t, stream.SendMsg(&setpointv1.WatchDecisionsRequest{}))
	answer := <-stream.(pipeOut).answers
	<-freed
	gateway := pipeOut{&pipe{ctx: t.Context(), answers: make(chan any, 1), ended: make(chan struct{})}}
	gateway.answers <- answer
	got := new(setpointv1.WatchDecisionsResponse)
	fatal.If(t, gateway.RecvMsg(got))
	if whole, err := decoded(got); err != nil || whole.(*setpointv1.WatchDecisionsResponse).GetTarget() != "first" || got.GetTarget() != "" {
		t.Errorf("got %v, %v, and for watchers %v", whole, err, got)
	}
}

func TestAStreamInTheProcessEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]struct {
		watch func() error
		want  codes.Code
	}{
		"by itself":   {func() error { return nil }, codes.OK},
		"refused":     {func() error { return status.Error(codes.PermissionDenied, "no") }, codes.PermissionDenied},
		"out of time": {func() error { return context.DeadlineExceeded }, codes.DeadlineExceeded},
		"in a panic":  {func() error { panic("of a stream") }, codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream, err := watch(t, t.Context(), &setpointv1.WatchDecisionsRequest{}, watched{watch: func(*setpointv1.WatchDecisionsRequest, grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
				return ends.watch()
			}})
			fatal.If(t, err)
			if _, err := stream.Header(); err != nil {
				t.Errorf("headers: %v", err)
			}
			_, err = stream.Recv()
			if ends.want == codes.OK && !errors.Is(err, io.EOF) || ends.want != codes.OK && status.Code(err) != ends.want {
				t.Errorf("got %v, want %v", err, ends.want)
			}
		})
	}
}

// A handler may have refused the call before its request is sent. As with gRPC's streams of one
// request, sending it then is not an error: the call returns the refusal.
func TestARefusalIsQuickerThanTheRequest(t *testing.T) {
	t.Parallel()
	for range 100 { // a select chooses any ready case
		p := &pipe{ctx: t.Context(), requests: make(chan any, 1), ended: make(chan struct{}), err: status.Error(codes.PermissionDenied, "no")}
		close(p.ended)
		fatal.If(t, (pipeOut{p}).SendMsg(&setpointv1.WatchDecisionsRequest{}))
		if err := (pipeOut{p}).RecvMsg(&setpointv1.WatchDecisionsResponse{}); status.Code(err) != codes.PermissionDenied {
			t.Fatal(err)
		}
	}
}

func TestAStreamInTheProcessEndsWhenItsCallerHasGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	stream, err := watch(t, ctx, &setpointv1.WatchDecisionsRequest{}, watched{watch: func(_ *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
		for {
			if err := stream.Send(&setpointv1.WatchDecisionsResponse{}); err != nil {
				ended <- err
				return err
			}
		}
	}})
	fatal.If(t, err)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the handler was told %v, want CANCELLED", err)
	}
	for err == nil { // earlier responses may still arrive
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("the caller was told %v, want CANCELLED", err)
	}
}

func TestWhatIsCalledInTheProcessHasTheLimitsOfGRPC(t *testing.T) {
	t.Parallel()
	client := clientInside(t, watched{})
	long := strings.Repeat("n", 1<<10)
	if _, err := client.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: long}); !strings.Contains(err.Error(), "more than 1024") {
		t.Errorf("a call with a message over the limit: %v", err)
	}
	stream, err := client.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: long})
	fatal.If(t, err)
	if _, err := stream.Recv(); err == nil || !strings.Contains(err.Error(), "more than 1024") {
		t.Errorf("a stream with a message over the limit: %v", err)
	}
	if _, err := client.GetTarget(t.Context(), &setpointv1.GetTargetRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("a method that panics: %v, want INTERNAL", err)
	}
}
