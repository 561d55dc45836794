package calls_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// expectFields fails the test unless the line has those fields.
func expectFields(tb testing.TB, line, want map[string]any) {
	tb.Helper()
	for name, value := range want {
		if fmt.Sprint(line[name]) != fmt.Sprint(value) {
			tb.Errorf("%s is %v, want %v", name, line[name], value)
		}
	}
}

func TestAChangeOfACountIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		ask  func(*testing.T, *servertest.Service, *setpointv1.RecommendRequest)
	}{
		{"gRPC", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) {
			_, _ = s.Recommendations.Recommend(servertest.Named(servertest.As(t.Context(), servertest.ScalerToken), "call-7"), req)
		}},
		{"batch", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) {
			_, _ = s.Recommendations.BatchRecommend(servertest.Named(servertest.As(t.Context(), servertest.ScalerToken), "call-7"), &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{req}})
		}},
		{"stream", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) {
			stream, err := s.Recommendations.StreamRecommend(servertest.Named(servertest.As(t.Context(), servertest.ScalerToken), "call-7"))
			fatal.If(t, err)
			servertest.Send(t, stream, "1", req)
			servertest.Receive(t, stream)
		}},
		{"REST", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) {
			r := s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), req)
			r.Header.Set("Authorization", "Bearer "+servertest.ScalerToken)
			r.Header.Set("X-Request-Id", "call-7")
			s.MustSend(t, r)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var logs *observer.ObservedLogs
			s := servertest.Guarded(t, servertest.Logged(zap.InfoLevel, server.LogNoCalls, &logs))
			tt.ask(t, s, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("body-1")))
			tt.ask(t, s, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("body-1"))) // answered as before
			tt.ask(t, s, servertest.With(servertest.Queue(servertest.Web, 3, 90), servertest.DryRun))
			tt.ask(t, s, servertest.Queue(servertest.Web, 5, 50)) // nothing to change
			scaled := servertest.Lines(logs, "scaled")
			if len(scaled) != 1 {
				t.Fatalf("%d lines, want 1: %v", len(scaled), scaled)
			}
			expectFields(t, scaled[0], map[string]any{
				"level": "info", "target": servertest.Web, "from": 3, "to": 5, "action": "SCALE_UP",
				"reason": "external metric queue-depth(nil) above target", "requestId": "call-7", "bodyRequestId": "body-1",
				"identity": "token:scaler", "profile": "v1.36", "dryRun": false, "attempts": 1,
			})
			if id, _ := scaled[0]["recommendation"].(string); len(id) != 32 {
				t.Errorf("recommendation is %q", id)
			}
			for _, message := range []string{"call", "recommended"} {
				if n := len(servertest.Lines(logs, message)); n != 0 {
					t.Errorf("%d lines %q at the level info", n, message)
				}
			}
		})
	}
}

// A caller that asks and never scales, as a shadow does, writes one line an hour.
func TestAChangeThatNobodyMakesIsLoggedOnceAnHour(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := servertest.Start(t, servertest.Logged(zap.InfoLevel, server.LogNoCalls, &logs))
	ask := func(replicas, length int32, want int) {
		t.Helper()
		s.Recommend(t, servertest.Queue(servertest.Web, replicas, length))
		s.Clock.Advance(servertest.Period)
		if n := len(servertest.Lines(logs, "scaled")); n != want {
			t.Errorf("%d lines, want %d", n, want)
		}
	}
	ask(3, 50, 1)
	ask(3, 50, 1)
	ask(3, 50, 1)
	ask(3, 60, 2) // another count
	ask(3, 60, 2)
	s.Clock.Advance(time.Hour)
	ask(3, 60, 3)
}

func TestWhichCallsAreLogged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		level   zapcore.Level
		which   server.CallLog
		ok, bad bool
	}{
		{zap.InfoLevel, server.LogNoCalls, false, false},
		{zap.InfoLevel, "", false, false},
		{zap.InfoLevel, server.LogFailedCalls, false, true},
		{zap.InfoLevel, server.LogAllCalls, true, true},
		{zap.DebugLevel, server.LogNoCalls, true, true},
		{zap.WarnLevel, server.LogAllCalls, false, false},
	} {
		t.Run(fmt.Sprintf("%s of %s", tt.level, tt.which), func(t *testing.T) {
			t.Parallel()
			var logs *observer.ObservedLogs
			s := servertest.Start(t, servertest.Logged(tt.level, tt.which, &logs))
			counted := func() int { return len(servertest.Lines(logs, "call")) }
			s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
			if got := counted() == 1; got != tt.ok {
				t.Errorf("a call that went well is logged: %v, want %v", got, tt.ok)
			}
			before := counted()
			_, _ = s.Recommendations.Recommend(t.Context(), &setpointv1.RecommendRequest{Target: servertest.Web})
			if got := counted() == before+1; got != tt.bad {
				t.Errorf("a call that failed is logged: %v, want %v", got, tt.bad)
			}
			before = counted()
			_, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: "clusters/demo/namespaces/shop/targets/new"})
			if got := counted() == before+1; got != tt.ok || status.Code(err) != codes.NotFound {
				t.Errorf("a delete that found nothing (%v) is logged: %v, want %v", err, got, tt.ok)
			}
			before = counted()
			s.SetSpec(t, servertest.QueueSpec(1, 100))
			if changes := servertest.Lines(logs, "call")[before:]; len(changes) != 1 && tt.level <= zap.InfoLevel {
				t.Errorf("a change is logged %d times, want once", len(changes))
			} else if len(changes) == 1 {
				expectFields(t, changes[0], map[string]any{"level": "info", "method": "setpoint.v1.TargetService/SetTargetSpec", "target": servertest.Polled, "code": "OK"})
			}
			before = counted()
			s.Ask(t, http.MethodGet, "/v1/nothing", nil)
			if got := counted() == before+1; got != tt.bad {
				t.Errorf("a path that is not served is logged: %v, want %v", got, tt.bad)
			}
		})
	}
}

// Whatever a caller does wrong is not the server's error, and is logged within the same rate.
func TestACallersMistakeIsNoErrorOfTheServer(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := servertest.Start(t, servertest.Logged(zap.InfoLevel, server.LogFailedCalls, &logs), func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 10 })
	large := strings.Repeat(" ", 2<<10)
	for _, tt := range []struct {
		method, path string
		body         any
		http         int
		code         codes.Code
	}{
		{"POST", servertest.RecommendPath(servertest.Web), "{", 400, codes.InvalidArgument},
		{"POST", servertest.RecommendPath(servertest.Web), "", 400, codes.InvalidArgument},
		{"GET", "/v1/" + servertest.Web + "?view=ALL", nil, 400, codes.InvalidArgument},
		{"POST", "/v1/" + servertest.Web + ":recomend", "{}", 400, codes.InvalidArgument},
		{"GET", "/v1/nothing", nil, 404, codes.NotFound},
		{"GET", "/v1/" + servertest.Web, nil, 404, codes.NotFound},
		{"POST", "/v1/integrations/nobodys/clusters/demo", "{}", 404, codes.NotFound},
		{"PUT", servertest.RecommendPath(servertest.Web), "{}", 405, codes.Unimplemented},
		{"POST", "/v1/" + servertest.Web, nil, 405, codes.Unimplemented},
		{"POST", "/docs/", nil, 405, codes.Unimplemented},
		{"GET", "/v1/integrations/gpa/clusters/demo", nil, 405, codes.Unimplemented},
		{"POST", servertest.RecommendPath(servertest.Web), large, 413, codes.ResourceExhausted},
		{"POST", servertest.RecommendPath(servertest.Web), io.MultiReader(strings.NewReader(large)), 413, codes.ResourceExhausted},
		{"PUT", "/v1/" + servertest.Web + "/spec", large, 413, codes.ResourceExhausted},
		{"POST", "/v1/integrations/gpa/clusters/demo", large, 413, codes.ResourceExhausted},
	} {
		before := len(servertest.Lines(logs, "call"))
		a := s.Ask(t, tt.method, tt.path, tt.body)
		all := servertest.Lines(logs, "call")[before:]
		if a.Code != tt.http || len(all) != 1 {
			t.Errorf("%s %s: HTTP %d, %d lines, want %d and one: %s", tt.method, tt.path, a.Code, len(all), tt.http, a.Raw)
			continue
		}
		expectFields(t, all[0], map[string]any{"level": "info", "code": tt.code})
	}
	began, before := time.Now(), len(servertest.Lines(logs, "call"))
	for range 300 {
		s.Ask(t, http.MethodPut, servertest.RecommendPath(servertest.Web), nil).Expect(t, http.StatusMethodNotAllowed)
	}
	if n, most := len(servertest.Lines(logs, "call"))-before, 101+int(100*time.Since(began).Seconds()); n > most {
		t.Errorf("300 calls were logged in %d lines, want at most %d", n, most)
	}
}

// Why a caller is refused is logged at one level, whichever way it came, and with one code.
func TestRefusalsAreLoggedAlikeOverBothTransports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, token, target, code string
	}{
		{"without credentials", "", servertest.ShopTarget, "Unauthenticated"},
		{"with an unknown token", servertest.UnknownToken, servertest.ShopTarget, "Unauthenticated"},
		{"who may do nothing", servertest.NobodyToken, servertest.ShopTarget, "PermissionDenied"},
		{"who may recommend elsewhere", servertest.ScalerToken, servertest.OtherTarget, "PermissionDenied"},
	} {
		for _, which := range server.CallLogs() {
			t.Run(fmt.Sprintf("%s, of %s", tt.name, which), func(t *testing.T) {
				t.Parallel()
				var logs *observer.ObservedLogs
				s := servertest.Guarded(t, servertest.Logged(zap.DebugLevel, which, &logs))
				_, err := s.Recommendations.Recommend(servertest.As(t.Context(), tt.token), servertest.RequestFor(tt.target))
				if got := status.Code(err).String(); got != tt.code {
					t.Fatalf("refused as %s", got)
				}
				req := s.Request(t, http.MethodPost, servertest.RecommendPath(tt.target), servertest.WebBody)
				if tt.token != "" {
					req.Header.Set("Authorization", "Bearer "+tt.token)
				}
				s.MustSend(t, req)
				calls := servertest.Lines(logs, "call")
				if len(calls) != 2 {
					t.Fatalf("%d lines, want one of each: %v", len(calls), calls)
				}
				want := "info"
				if which == server.LogNoCalls {
					want = "debug"
				}
				for i, transport := range []string{"grpc", "rest"} {
					expectFields(t, calls[i], map[string]any{"level": want, "transport": transport, "code": tt.code, "error": calls[0]["error"]})
				}
				if text, _ := calls[0]["error"].(string); text == "" {
					t.Error("the lines don't say why")
				}
			})
		}
	}
}

func TestTheServersOwnFaultsAreLoggedAsErrors(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := servertest.Start(t, func(su *servertest.Setup) {
		logs = panicky(su)
		su.Options.LogCalls = server.LogNoCalls
	})
	_, _ = s.Recommendations.Recommend(t.Context(), servertest.Queue(boom, 3, 50))
	if calls := servertest.Lines(logs, "call"); len(calls) != 1 {
		t.Fatalf("%d lines, want 1", len(calls))
	} else {
		expectFields(t, calls[0], map[string]any{"level": "error", "code": "Internal", "target": boom, "method": servertest.RecommendMethod})
	}
}

func TestWhatALineOfACallHolds(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := servertest.Guarded(t, servertest.Logged(zap.InfoLevel, server.LogAllCalls, &logs))
	last := func() map[string]any {
		all := servertest.Lines(logs, "call")
		if len(all) == 0 {
			t.Fatal("nothing is logged")
		}
		return all[len(all)-1]
	}
	ctx := servertest.Named(servertest.As(t.Context(), servertest.ScalerToken), "call-1")
	if _, err := s.Recommendations.Recommend(ctx, servertest.Queue(servertest.Web, 3, 50)); err != nil {
		t.Fatal(err)
	}
	line := last()
	expectFields(t, line, map[string]any{
		"requestId": "call-1", "transport": "grpc", "method": servertest.RecommendMethod, "identity": "token:scaler", "target": servertest.Web, "code": "OK",
	})
	for _, name := range []string{"requestBytes", "responseBytes"} {
		if n, _ := line[name].(int64); n < 50 {
			t.Errorf("%s is %v", name, line[name])
		}
	}
	fromHere := func(line map[string]any) {
		t.Helper()
		if peer, _ := line["peer"].(string); !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("peer is %q", peer)
		}
	}
	fromHere(line)
	_, _ = s.Recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{servertest.Queue(servertest.Web, 3, 50), {}}})
	expectFields(t, last(), map[string]any{"method": servertest.BatchMethod, "items": 2, "failedItems": 1, "code": "OK"})
	_, _ = s.Recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: strings.Repeat("0", 32), Outcome: "APPLIED"})
	expectFields(t, last(), map[string]any{"target": servertest.Web, "code": "NotFound", "identity": "token:scaler"})
	_, _ = s.Targets.GetTarget(servertest.As(t.Context(), servertest.NobodyToken), &setpointv1.GetTargetRequest{Name: servertest.Web})
	expectFields(t, last(), map[string]any{"code": "PermissionDenied", "identity": "token:nobody", "target": servertest.Web})
	_, _ = s.Targets.GetTarget(servertest.As(t.Context(), servertest.UnknownToken), &setpointv1.GetTargetRequest{Name: servertest.Web})
	expectFields(t, last(), map[string]any{"code": "Unauthenticated", "identity": ""})

	for _, forwarded := range []string{"10.9.8.7", "caf\u00e9"} { // which gRPC's metadata take, and do not
		for _, r := range []*http.Request{
			s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.Queue(servertest.Web, 3, 50)),
			s.Request(t, http.MethodGet, "/v1/"+servertest.Web+"/recommendation", nil),
		} {
			r.Header.Set("Authorization", "Bearer "+servertest.ScalerToken)
			r.Header.Set("X-Forwarded-For", forwarded)
			s.MustSend(t, r)
			expectFields(t, last(), map[string]any{"transport": "rest", "identity": "token:scaler", "target": servertest.Web})
			fromHere(last())
		}
	}
	s.Ask(t, http.MethodGet, "/v1/nothing?key=secret", nil)
	line = last()
	expectFields(t, line, map[string]any{"transport": "rest", "method": "GET /v1/nothing", "httpCode": 401})

	stream, err := s.Recommendations.StreamRecommend(ctx)
	fatal.If(t, err)
	servertest.Send(t, stream, "1", servertest.Queue(servertest.Web, 3, 50))
	servertest.Receive(t, stream)
	expectFields(t, last(), map[string]any{"method": servertest.StreamMethod, "streamed": true, "target": servertest.Web, "requestId": "call-1", "identity": "token:scaler"})
	fatal.If(t, stream.CloseSend())
	_, _ = servertest.ReceiveAll(t, stream)
	servertest.Eventually(t, func() bool { return last()["messagesSent"] != nil })
	expectFields(t, last(), map[string]any{"method": servertest.StreamMethod, "messagesReceived": 1, "messagesSent": 1, "code": "OK"})
}

// An outage, or callers without credentials, must not fill the disk.
func TestLinesOfFailedCallsAreBounded(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := servertest.Start(t, servertest.Logged(zap.InfoLevel, server.LogFailedCalls, &logs))
	begun := time.Now()
	for range 400 {
		_, _ = s.Recommendations.Recommend(t.Context(), &setpointv1.RecommendRequest{Target: servertest.Web})
	}
	most := 101 + 100*time.Since(begun).Seconds()
	if n := len(servertest.Lines(logs, "call")); n < 100 || float64(n) > most {
		t.Errorf("%d lines, want 100 at once and 100 a second, %.0f", n, most)
	}
	const changes = 20
	for range changes {
		s.SetSpec(t, servertest.QueueSpec(1, 100))
	}
	if n := logs.FilterMessage("call").FilterField(zap.Stringer("code", codes.OK)).Len(); n != changes {
		t.Errorf("%d lines of %d changes among the failed calls", n, changes)
	}
	// A peer may cause some of the server's own faults.
	s = servertest.Start(t, func(su *servertest.Setup) { logs = panicky(su) })
	begun = time.Now()
	for range 400 {
		_, _ = s.Recommendations.Recommend(t.Context(), servertest.Queue(boom, 3, 50))
	}
	most = 101 + 100*time.Since(begun).Seconds()
	if n := len(servertest.Lines(logs, "call")); n < 100 || float64(n) > most {
		t.Errorf("%d lines of faults, want 100 at once and 100 a second, %.0f", n, most)
	}
}

func TestARequestIDIsSentBack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	for _, tt := range []struct {
		sent string
		kept bool
	}{
		{"abc-123", true}, {strings.Repeat("x", 128), true}, {"~!@#$%^&*()", true},
		{long, false}, {"a b", false}, {"", false},
	} {
		t.Run(tt.sent[:min(12, len(tt.sent))], func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			check := func(transport string, got []string) {
				t.Helper()
				switch {
				case len(got) != 1:
					t.Errorf("%s: got %q, want one id", transport, got)
				case tt.kept && got[0] != tt.sent:
					t.Errorf("%s: got %q, want %q", transport, got[0], tt.sent)
				case !tt.kept && (len(got[0]) != 32 || got[0] == tt.sent):
					t.Errorf("%s: got %q, want one of ours", transport, got[0])
				}
			}
			var header metadata.MD
			_, err := s.Recommendations.Recommend(servertest.Named(t.Context(), tt.sent), servertest.Queue(servertest.Web, 3, 50), grpc.Header(&header))
			fatal.If(t, err)
			check("gRPC", header.Get("x-request-id"))
			_, err = s.Targets.GetTarget(servertest.Named(t.Context(), tt.sent), &setpointv1.GetTargetRequest{Name: "bad"}, grpc.Header(&header))
			if err == nil {
				t.Fatal("no error")
			}
			check("gRPC, refused", header.Get("x-request-id"))
			stream, err := s.Recommendations.StreamRecommend(servertest.Named(t.Context(), tt.sent))
			fatal.If(t, err)
			servertest.Send(t, stream, "1", servertest.Queue(servertest.Web, 3, 50))
			servertest.Receive(t, stream)
			header, err = stream.Header()
			fatal.If(t, err)
			check("stream", header.Get("x-request-id"))
			for path, body := range map[string]any{servertest.RecommendPath(servertest.Web): servertest.Queue(servertest.Web, 3, 50), "/v1/nothing": "{}"} {
				r := s.Request(t, http.MethodPost, path, body)
				r.Header.Set("X-Request-Id", tt.sent)
				a := s.MustSend(t, r)
				check("REST "+path, a.Header.Values("X-Request-Id"))
				if others := a.Header.Values("Grpc-Metadata-X-Request-Id"); others != nil {
					t.Errorf("REST answers %q too", others)
				}
			}
		})
	}
}

// What nothing is logged of costs no id.
func TestACallWithoutIDThatNothingIsLoggedOfGetsNone(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	var header metadata.MD
	if _, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 30), grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := header.Get("x-request-id"); got != nil {
		t.Errorf("got %q", got)
	}
}
