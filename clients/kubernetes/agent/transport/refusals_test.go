package transport

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// answers is one request's answer.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Status: http.StatusText(int(a))}, nil
}

// What must be watched and is refused for a while is logged once, and told until it is listed or watched again. Without
// the right to watch, lists go on.
func TestRefusalsAreToldOnce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		attempts string // "VERB CODE", two seconds apart
		problem  bool   // after them
		lines    int
	}{
		{"the rights come a little later", "watch 403, list 403, watch 403, list 403, watch 200", false, 0},
		{"the rights do not come", "watch 403, list 403, watch 403, list 403, watch 403, list 403, list 403, list 403", true, 1},
		{"they come at last", "watch 403, list 403, watch 403, list 403, watch 403, list 403, list 403, list 403, watch 200", false, 2},
		{"they come for lists", "list 403, list 403, list 403, list 403, list 403, list 403, list 200", false, 2},
		{"the definition is deleted", "watch 200, watch 404, list 404, list 404, list 404, list 404, list 404, list 404", true, 1},
		{"no right to watch", "watch 403, list 200, watch 403, list 200, watch 403, list 200, watch 403, list 200", false, 1},
		{"the server is busy", "list 429, list 500, list 503, list 410, list 429, list 429, list 429, list 503", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zapcore.InfoLevel)
				r := NewRefusals(zap.New(core), "pods")
				asks := func(path, verb string, code int) {
					req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}
					if verb == "watch" {
						req.URL.RawQuery = "watch=true"
					}
					if _, err := r.Wrap(answers(code)).RoundTrip(req); err != nil {
						t.Error(err)
					}
				}
				for attempt := range strings.SplitSeq(tt.attempts, ", ") {
					verb, code, _ := strings.Cut(attempt, " ")
					n := map[string]int{"200": 200, "403": 403, "404": 404, "410": 410, "429": 429, "500": 500, "503": 503}[code]
					asks("/api/v1/namespaces/shop/pods", verb, n)
					asks("/api/v1/namespaces/shop/pods/web-0", "list", 403) // one pod
					asks("/apis/apps/v1/deployments", "list", 403)          // optional
					time.Sleep(2 * time.Second)
				}
				if got := r.Problem(); (got != "") != tt.problem || tt.problem && !strings.Contains(got, "/api/v1/namespaces/shop/pods since 2000-01-01T00:00:0") {
					t.Errorf("the problem is %q", got)
				}
				if logged.Len() != tt.lines {
					t.Errorf("%d lines, want %d: %v", logged.Len(), tt.lines, logged.All())
				}
			})
		})
	}
}
