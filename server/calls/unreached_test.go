package calls_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// Calls that reach no handler are counted, and logged, like all failed calls.
func TestCallsThatReachNoHandlerAreCountedOnce(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s, r := servertest.Measured(t, servertest.Logged(zap.InfoLevel, server.LogFailedCalls, &logs), func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 10 })
	giant := make([]byte, 10<<10)
	for _, tt := range []struct {
		name, method string
		body         []byte
		code         codes.Code
		label        string
		timed        bool // it is as long as a call with a handler
	}{
		{"a giant message", servertest.RecommendMethod, giant, codes.ResourceExhausted, servertest.RecommendMethod, false},
		{"a giant message to another service", "grpc.health.v1.Health/Check", giant, codes.ResourceExhausted, "grpc.health.v1.Health/Check", false},
		{"a message that can't be read", "setpoint.v1.TargetService/GetTarget", []byte("\x0a\x02\xff\xfe"), codes.InvalidArgument, "setpoint.v1.TargetService/GetTarget", false},
		{"an unknown method", "setpoint.v1.TargetService/Nothing", nil, codes.Unimplemented, "other", true},
		{"an unknown service", "nothing.v1.Nothing/Nothing", nil, codes.Unimplemented, "other", true},
		{"a giant message to it", "nothing.v1.Nothing/Nothing", giant, codes.Unimplemented, "other", true},
	} {
		before, lined := servertest.Read(t, r), len(servertest.Lines(logs, "call"))
		if _, err := s.SendRaw(t.Context(), "/"+tt.method, tt.body); status.Code(err) != tt.code {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.code)
		}
		want := servertest.Reading{"requests_total{code=" + tt.code.String() + ",method=" + tt.label + "}": 1}
		if tt.timed {
			want["request_duration_seconds{method="+tt.label+"}"] = 1
		}
		settled := func() servertest.Reading {
			return servertest.Read(t, r).Since(before, "requests_", "request_", "rest_")
		}
		settled().Expect(t, want)
		if all := servertest.Lines(logs, "call"); len(all) != lined+1 || all[lined]["code"] != tt.code.String() || all[lined]["method"] != tt.label {
			t.Errorf("%s: the lines are %v", tt.name, all[lined:])
		}
	}
}

// A call without its message is counted when it ends, and is none of the server's own faults: strangers make such calls of
// health checks.
func TestACallWithoutItsMessageIsCounted(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s, r := servertest.Measured(t, servertest.Logged(zap.InfoLevel, server.LogFailedCalls, &logs))
	for i, method := range []string{servertest.RecommendMethod, "grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"} {
		stream, err := s.Conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+method)
		fatal.If(t, err)
		fatal.If(t, stream.CloseSend())
		if err := stream.RecvMsg(new(setpointv1.RecommendResponse)); status.Code(err) == codes.OK {
			t.Errorf("%s: it is answered", method)
		}
		servertest.Eventually(t, func() bool { return len(servertest.Lines(logs, "call")) > i })
		expectFields(t, servertest.Lines(logs, "call")[i], map[string]any{"level": "info", "method": method, "code": "InvalidArgument"})
		if n := servertest.Read(t, r)["requests_total{code=InvalidArgument,method="+method+"}"]; n != 1 {
			t.Errorf("%s is counted %v times", method, n)
		}
	}
}

// Calls of unknown methods need no credentials, and reveal nothing else.
func TestUnknownMethodsAreAnsweredAlikeToEverybody(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	for _, token := range []string{"", servertest.UnknownToken, servertest.ScalerToken, servertest.AdminToken} {
		ctx := t.Context()
		if token != "" {
			ctx = servertest.As(ctx, token)
		}
		err := s.Conn.Invoke(ctx, "/nothing.v1.Nothing/"+strings.Repeat("x", 5000), servertest.RequestFor(servertest.ShopTarget), &setpointv1.RecommendResponse{})
		if status.Code(err) != codes.Unimplemented || len(status.Convert(err).Message()) > 1000 {
			t.Errorf("with the token %q: %.200v", token, err)
		}
	}
}

// A call that a limit refuses is one call, wherever it is refused: at once, or, if its
// deadline is far, in its goroutine.
func TestACallThatALimitRefusesIsCountedOnce(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}, 1), make(chan struct{})
	s, r := servertest.Measured(t, func(su *servertest.Setup) {
		su.Store.OnLoad, su.Options.Limits.InFlight = waitingLoad(reached, release), 1
	})
	answered := make(chan error, 1)
	go func() {
		_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
		answered <- err
	}()
	<-reached
	far, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
	defer cancel()
	for name, ctx := range map[string]context.Context{"answered at once": t.Context(), "answered later": far} {
		before := servertest.Read(t, r)
		if _, err := s.Recommendations.Recommend(ctx, servertest.Queue(servertest.Web, 3, 50)); status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("%s: got %v", name, err)
		}
		stream, err := s.Recommendations.StreamRecommend(ctx)
		fatal.If(t, err)
		if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("%s: of the stream got %v", name, err)
		}
		t.Log(name)
		servertest.Read(t, r).Since(before, "requests_", "calls_refused").Expect(t, servertest.Reading{
			"requests_total{code=ResourceExhausted,method=" + servertest.RecommendMethod + "}": 1,
			"requests_total{code=ResourceExhausted,method=" + servertest.StreamMethod + "}":    1,
			"calls_refused_total{limit=global_in_flight}":                                      2,
		})
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
}
