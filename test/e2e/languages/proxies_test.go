//go:build linux

package languages

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// eachOverREST runs a test with each library that speaks REST.
func eachOverREST(t *testing.T, test func(t *testing.T, l language)) {
	t.Helper()
	each(t, func(t *testing.T, l language) {
		if l.rest {
			test(t, l)
		}
	})
}

// A proxy that loses its connection to the service may end an answer as if that was all of it. Such a call is
// retried, and counts once; a text that is no JSON at all is of something else, and is quoted.
func TestAnswersThatAProxyCutsOff(t *testing.T) {
	s := service.Start(t)
	eachOverREST(t, func(t *testing.T, l language) {
		behind, err := url.Parse(at(l, s))
		fatal.If(t, err)
		web := target(t, "web")
		for _, tt := range []struct {
			name  string
			shown func(whole string) string
			// code is that of the call, attempts how many are made.
			code, says string
			attempts   int64
		}{
			{"half of it", func(whole string) string { return whole[:len(whole)/2] }, "OK", "", 2},
			{"nothing of it", func(string) string { return "" }, "OK", "", 2},
			{"a page", func(string) string { return "<html>Sign in</html>" }, "INTERNAL", "<html>Sign in", 1},
		} {
			var attempts atomic.Int64
			proxy := httputil.NewSingleHostReverseProxy(behind)
			proxy.ModifyResponse = func(r *http.Response) error {
				if attempts.Add(1) > 1 {
					return nil
				}
				whole, err := io.ReadAll(r.Body)
				shown := tt.shown(string(whole))
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(shown)), -1
				r.Header.Del("Content-Length")
				return err
			}
			front := httptest.NewServer(proxy)
			c := open(t, l, config{Target: front.URL, Retry: fast})
			_, failed := recommend(t, c, queue(web, 3, 50))
			if wantCode(t, failed, tt.code); failed != nil && !strings.Contains(failed.Message, tt.says) {
				t.Errorf("%s: %s, want %q", tt.name, failed.Message, tt.says)
			}
			if attempts.Load() != tt.attempts {
				t.Errorf("%s: %d attempts, want %d", tt.name, attempts.Load(), tt.attempts)
			}
			front.Close()
		}
	})
}

// A watch whose line a proxy cuts off goes on with the token of the line before.
func TestWatchesThatAProxyCutsOff(t *testing.T) {
	eachOverREST(t, func(t *testing.T, l language) {
		var asked atomic.Int64
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := asked.Add(1)
			if token := r.URL.Query().Get("resumeToken"); n > 1 && token != fmt.Sprint("t", n-1) {
				t.Errorf("stream %d began with the token %q", n, token)
			}
			line := fmt.Sprintf("{\"result\":{\"target\":\"clusters/a/namespaces/b/targets/c\",\"decision\":{\"recommendationId\":\"%d\"},\"resumeToken\":\"t%[1]d\"}}\n", n)
			_, _ = io.WriteString(w, line+line[:20])
		}))
		defer front.Close()
		c := open(t, l, config{Target: front.URL, Retry: fast})
		_, err := watch(t, c, &setpointv1.WatchDecisionsRequest{Parent: "clusters/a/namespaces/b/targets/c"})
		wantCode(t, err, "OK")
		for i, r := range next(t, c, 2) { // the first one came with the watch
			if r.GetDecision().GetRecommendationId() != fmt.Sprint(i+2) {
				t.Errorf("decision %d is %v", i+2, r)
			}
		}
		c.do(t, map[string]any{"op": "unwatch"})
	})
}

// A redirect, as to a page to sign in or to https, is no failure that passes: the URL is another's.
func TestRedirectsAreTold(t *testing.T) {
	eachOverREST(t, func(t *testing.T, l language) {
		var attempts atomic.Int64
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			attempts.Add(1)
			http.Redirect(w, r, "/sign-in", http.StatusFound)
		}))
		defer front.Close()
		_, err := recommend(t, open(t, l, config{Target: front.URL, Retry: retry{BaseDelay: time.Hour.Seconds()}}), queue(target(t, "web"), 3, 50))
		if wantCode(t, err, "UNKNOWN"); !strings.Contains(err.Message, "redirect") || attempts.Load() != 1 {
			t.Errorf("%v after %d attempts", err, attempts.Load())
		}
	})
}

// The same over gRPC: a message that ends in the middle, and none at all although the status is that of success.
func TestCallsThatAProxyCutsOff(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		if l.rest {
			return
		}
		message, err := proto.Marshal(&setpointv1.RecommendResponse{DesiredReplicas: 5, Action: "SCALE_UP"})
		fatal.If(t, err)
		framed := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
		for _, tt := range []struct {
			name     string
			first    []byte
			status   bool
			code     string
			attempts int64
		}{
			{"half a message", framed[:len(framed)/2], false, "OK", 2},
			{"a message without a status", framed, false, "OK", 2},
			{"a status without a message", nil, true, "INTERNAL", 1},
		} {
			var attempts atomic.Int64
			front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				body, status := framed, true
				if attempts.Add(1) == 1 {
					body, status = tt.first, tt.status
				}
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Trailer", "Grpc-Status")
				_, _ = w.Write(body)
				if status {
					w.Header().Set("Grpc-Status", "0")
				}
			}))
			front.Config.Protocols = new(http.Protocols)
			front.Config.Protocols.SetUnencryptedHTTP2(true)
			front.Start()
			c := open(t, l, config{Target: front.Listener.Addr().String(), Insecure: true, Retry: fast})
			got, failed := recommend(t, c, queue(target(t, "web"), 3, 50))
			if wantCode(t, failed, tt.code); failed == nil && got.GetDesiredReplicas() != 5 || attempts.Load() != tt.attempts {
				t.Errorf("%s: got %v after %d attempts, want %d", tt.name, got, attempts.Load(), tt.attempts)
			}
			c.do(t, map[string]any{"op": "close"})
			front.Close()
		}
	})
}

// An answer without a status, as of a web server, has no words of gRPC's; nor has an error whose server gave none.
func TestErrorsWithoutAMessageSayWhatToCheck(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		if l.rest {
			return
		}
		for status, code := range map[string]string{"": "UNKNOWN", "13": "INTERNAL"} {
			front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				if status != "" {
					w.Header().Set("Grpc-Status", status)
				}
			}))
			front.Config.Protocols = new(http.Protocols)
			front.Config.Protocols.SetUnencryptedHTTP2(true)
			front.Start()
			_, failed := recommend(t, open(t, l, config{Target: front.Listener.Addr().String(), Retry: fast}), queue(target(t, "web"), 3, 50))
			if wantCode(t, failed, code); failed != nil && !strings.Contains(failed.Message, "without a message; is the address that of Setpoint's gRPC") {
				t.Errorf("with the status %q: %s", status, failed.Message)
			}
			front.Close()
		}
	})
}
