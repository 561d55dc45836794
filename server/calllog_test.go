package server_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/setpoint-dev/setpoint/server"
)

// logged keeps the lines of a service from that level on.
func logged(level zapcore.Level, which server.CallLog, logs **observer.ObservedLogs) func(*setup) {
	core, observed := observer.New(level)
	*logs = observed
	return func(su *setup) { su.options.Log, su.options.LogCalls = zap.New(core), which }
}

// lines are those with a message, as their fields; each with its level.
func lines(logs *observer.ObservedLogs, message string) []map[string]any {
	var all []map[string]any
	for _, entry := range logs.FilterMessage(message).All() {
		fields := entry.ContextMap()
		fields["level"] = entry.Level.String()
		all = append(all, fields)
	}
	return all
}

// expectFields fails the test unless the line has those fields.
func expectFields(tb testing.TB, line, want map[string]any) {
	tb.Helper()
	for name, value := range want {
		if fmt.Sprint(line[name]) != fmt.Sprint(value) {
			tb.Errorf("%s is %v, want %v", name, line[name], value)
		}
	}
}

// named is a call with an id of the caller's.
func named(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-request-id", id)
}

func TestAChangeOfACountIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		ask  func(*testing.T, *service, *setpointv1.RecommendRequest)
	}{
		{"gRPC", func(t *testing.T, s *service, req *setpointv1.RecommendRequest) {
			_, _ = s.recommendations.Recommend(named(as(t.Context(), scalerToken), "call-7"), req)
		}},
		{"batch", func(t *testing.T, s *service, req *setpointv1.RecommendRequest) {
			_, _ = s.recommendations.BatchRecommend(named(as(t.Context(), scalerToken), "call-7"), &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{req}})
		}},
		{"stream", func(t *testing.T, s *service, req *setpointv1.RecommendRequest) {
			stream, err := s.recommendations.StreamRecommend(named(as(t.Context(), scalerToken), "call-7"))
			if err != nil {
				t.Fatal(err)
			}
			send(t, stream, "1", req)
			receive(t, stream)
		}},
		{"REST", func(t *testing.T, s *service, req *setpointv1.RecommendRequest) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+recommendPath(web), reader(t, req))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+scalerToken)
			r.Header.Set("X-Request-Id", "call-7")
			if _, err := s.send(r); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var logs *observer.ObservedLogs
			s := guarded(t, logged(zap.InfoLevel, server.LogNoCalls, &logs))
			tt.ask(t, s, with(queue(web, 3, 50), withID("body-1")))
			tt.ask(t, s, with(queue(web, 3, 50), withID("body-1"))) // answered as before
			tt.ask(t, s, with(queue(web, 3, 90), dryRun))
			tt.ask(t, s, queue(web, 5, 50)) // nothing to change
			scaled := lines(logs, "scaled")
			if len(scaled) != 1 {
				t.Fatalf("%d lines, want 1: %v", len(scaled), scaled)
			}
			expectFields(t, scaled[0], map[string]any{
				"level": "info", "target": web, "from": 3, "to": 5, "action": "SCALE_UP",
				"reason": "external metric queue-depth(nil) above target", "requestId": "call-7", "bodyRequestId": "body-1",
				"identity": "token:scaler", "profile": "v1.36", "dryRun": false, "attempts": 1,
			})
			if id, _ := scaled[0]["recommendation"].(string); len(id) != 32 {
				t.Errorf("recommendation is %q", id)
			}
			for _, message := range []string{"call", "recommended"} {
				if n := len(lines(logs, message)); n != 0 {
					t.Errorf("%d lines %q at the level info", n, message)
				}
			}
		})
	}
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
			s := start(t, logged(tt.level, tt.which, &logs))
			counted := func() int { return len(lines(logs, "call")) }
			s.recommend(t, queue(web, 3, 30))
			if got := counted() == 1; got != tt.ok {
				t.Errorf("a call that went well is logged: %v, want %v", got, tt.ok)
			}
			before := counted()
			_, _ = s.recommendations.Recommend(t.Context(), &setpointv1.RecommendRequest{Target: web})
			if got := counted() == before+1; got != tt.bad {
				t.Errorf("a call that failed is logged: %v, want %v", got, tt.bad)
			}
			before = counted()
			_, err := s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: "clusters/demo/namespaces/shop/targets/new"})
			if got := counted() == before+1; got != tt.ok || status.Code(err) != codes.NotFound {
				t.Errorf("a delete that found nothing (%v) is logged: %v, want %v", err, got, tt.ok)
			}
			before = counted()
			s.ask(t, http.MethodGet, "/v1/nothing", nil)
			if got := counted() == before+1; got != tt.bad {
				t.Errorf("a path that is not served is logged: %v, want %v", got, tt.bad)
			}
		})
	}
}

// Why a caller is refused is logged at one level, whichever way it came, and with one code.
func TestRefusalsAreLoggedAlikeOverBothTransports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, token, target, code string
	}{
		{"without credentials", "", shopTarget, "Unauthenticated"},
		{"with an unknown token", unknownToken, shopTarget, "Unauthenticated"},
		{"who may do nothing", nobodyToken, shopTarget, "PermissionDenied"},
		{"who may recommend elsewhere", scalerToken, otherTarget, "PermissionDenied"},
	} {
		for _, which := range server.CallLogs() {
			t.Run(fmt.Sprintf("%s, of %s", tt.name, which), func(t *testing.T) {
				t.Parallel()
				var logs *observer.ObservedLogs
				s := guarded(t, logged(zap.DebugLevel, which, &logs))
				_, err := s.recommendations.Recommend(as(t.Context(), tt.token), requestFor(tt.target))
				if got := status.Code(err).String(); got != tt.code {
					t.Fatalf("refused as %s", got)
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+recommendPath(tt.target), strings.NewReader(webBody))
				if err != nil {
					t.Fatal(err)
				}
				if tt.token != "" {
					req.Header.Set("Authorization", "Bearer "+tt.token)
				}
				if _, err := s.send(req); err != nil {
					t.Fatal(err)
				}
				calls := lines(logs, "call")
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
	s := start(t, func(su *setup) {
		logs = panicky(su)
		su.options.LogCalls = server.LogNoCalls
	})
	_, _ = s.recommendations.Recommend(t.Context(), queue(boom, 3, 50))
	if calls := lines(logs, "call"); len(calls) != 1 {
		t.Fatalf("%d lines, want 1", len(calls))
	} else {
		expectFields(t, calls[0], map[string]any{"level": "error", "code": "Internal", "target": boom, "method": recommendMethod})
	}
}

func TestWhatALineOfACallHolds(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := guarded(t, logged(zap.InfoLevel, server.LogAllCalls, &logs))
	last := func() map[string]any {
		all := lines(logs, "call")
		if len(all) == 0 {
			t.Fatal("nothing is logged")
		}
		return all[len(all)-1]
	}
	ctx := named(as(t.Context(), scalerToken), "call-1")
	if _, err := s.recommendations.Recommend(ctx, queue(web, 3, 50)); err != nil {
		t.Fatal(err)
	}
	line := last()
	expectFields(t, line, map[string]any{
		"requestId": "call-1", "transport": "grpc", "method": recommendMethod, "identity": "token:scaler", "target": web, "code": "OK",
	})
	for _, name := range []string{"requestBytes", "responseBytes"} {
		if n, _ := line[name].(int64); n < 50 {
			t.Errorf("%s is %v", name, line[name])
		}
	}
	if peer, _ := line["peer"].(string); !strings.HasPrefix(peer, "127.0.0.1:") {
		t.Errorf("peer is %q", peer)
	}
	_, _ = s.recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{queue(web, 3, 50), {}}})
	expectFields(t, last(), map[string]any{"method": batchMethod, "items": 2, "failedItems": 1, "code": "OK"})
	_, _ = s.recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: web, RecommendationId: strings.Repeat("0", 32), Outcome: "APPLIED"})
	expectFields(t, last(), map[string]any{"target": web, "code": "NotFound", "identity": "token:scaler"})
	_, _ = s.targets.GetTarget(as(t.Context(), nobodyToken), &setpointv1.GetTargetRequest{Name: web})
	expectFields(t, last(), map[string]any{"code": "PermissionDenied", "identity": "token:nobody", "target": web})
	_, _ = s.targets.GetTarget(as(t.Context(), unknownToken), &setpointv1.GetTargetRequest{Name: web})
	expectFields(t, last(), map[string]any{"code": "Unauthenticated", "identity": ""})

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+recommendPath(web), reader(t, queue(web, 3, 50)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+scalerToken)
	r.Header.Set("X-Forwarded-For", "10.9.8.7")
	if _, err := s.send(r); err != nil {
		t.Fatal(err)
	}
	expectFields(t, last(), map[string]any{"transport": "rest", "method": recommendMethod, "peer": "127.0.0.1", "identity": "token:scaler", "code": "OK"})
	s.ask(t, http.MethodGet, "/v1/nothing?key=secret", nil)
	line = last()
	expectFields(t, line, map[string]any{"transport": "rest", "method": "GET /v1/nothing", "httpCode": 401})

	stream, err := s.recommendations.StreamRecommend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, "1", queue(web, 3, 50))
	receive(t, stream)
	expectFields(t, last(), map[string]any{"method": streamedMethod, "streamed": true, "target": web, "requestId": "call-1", "identity": "token:scaler"})
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, _ = receiveAll(t, stream)
	eventually(t, func() bool { return last()["messagesSent"] != nil })
	expectFields(t, last(), map[string]any{"method": streamedMethod, "messagesReceived": 1, "messagesSent": 1, "code": "OK"})
}

// An outage, or callers without credentials, must not fill the disk.
func TestLinesOfFailedCallsAreBounded(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	s := start(t, logged(zap.InfoLevel, server.LogFailedCalls, &logs))
	begun := time.Now()
	for range 400 {
		_, _ = s.recommendations.Recommend(t.Context(), &setpointv1.RecommendRequest{Target: web})
	}
	most := 101 + 100*time.Since(begun).Seconds()
	if n := len(lines(logs, "call")); n < 100 || float64(n) > most {
		t.Errorf("%d lines, want 100 at once and 100 a second, %.0f", n, most)
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
			s := start(t)
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
			_, err := s.recommendations.Recommend(named(t.Context(), tt.sent), queue(web, 3, 50), grpc.Header(&header))
			if err != nil {
				t.Fatal(err)
			}
			check("gRPC", header.Get("x-request-id"))
			_, err = s.targets.GetTarget(named(t.Context(), tt.sent), &setpointv1.GetTargetRequest{Name: "bad"}, grpc.Header(&header))
			if err == nil {
				t.Fatal("no error")
			}
			check("gRPC, refused", header.Get("x-request-id"))
			stream, err := s.recommendations.StreamRecommend(named(t.Context(), tt.sent))
			if err != nil {
				t.Fatal(err)
			}
			send(t, stream, "1", queue(web, 3, 50))
			receive(t, stream)
			if header, err = stream.Header(); err != nil {
				t.Fatal(err)
			}
			check("stream", header.Get("x-request-id"))
			for path, body := range map[string]any{recommendPath(web): queue(web, 3, 50), "/v1/nothing": "{}"} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, reader(t, body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Request-Id", tt.sent)
				a, err := s.send(r)
				if err != nil {
					t.Fatal(err)
				}
				check("REST "+path, a.header.Values("X-Request-Id"))
				if others := a.header.Values("Grpc-Metadata-X-Request-Id"); others != nil {
					t.Errorf("REST answers %q too", others)
				}
			}
		})
	}
}

// What nothing is logged of costs no id.
func TestACallWithoutIDThatNothingIsLoggedOfGetsNone(t *testing.T) {
	t.Parallel()
	s := start(t)
	var header metadata.MD
	if _, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 30), grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := header.Get("x-request-id"); got != nil {
		t.Errorf("got %q", got)
	}
}

// Whatever goes wrong, credentials are not in the log.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	const planted = "sp_planted-SECRET-0123456789abcdefghij"
	var logs *observer.ObservedLogs
	s := guarded(t, logged(zap.DebugLevel, server.LogAllCalls, &logs))
	for _, token := range []string{planted, scalerToken, "Basic " + planted, planted + "\u00ff"} {
		for _, r := range rpcs() {
			_ = r.call(as(t.Context(), token), t, s, web)
		}
		for _, path := range []string{recommendPath(web), "/v1/" + web, "/v1/nothing?access_token=" + planted, "/docs", "/healthz"} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				for _, body := range []any{queue(web, 3, 50), "{", nil} {
					r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, reader(t, body))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Proxy-Authorization", planted)
					r.Header.Set("Cookie", "session="+planted)
					r.Header.Set("X-Api-Key", planted)
					r.Header.Set("Grpc-Metadata-Authorization", "Bearer "+planted)
					if _, err := s.send(r); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if logs.Len() < 100 {
		t.Errorf("%d lines: the test looks at nothing", logs.Len())
	}
	for _, entry := range logs.All() {
		text, err := json.Marshal(entry.ContextMap())
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"SECRET", scalerToken} {
			if strings.Contains(entry.Message+string(text), secret) {
				t.Errorf("%s: %s", entry.Message, text)
			}
		}
	}
}
