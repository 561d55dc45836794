package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// browse makes a call with headers as a browser sends them.
func browse(t *testing.T, s *servertest.Service, method, path, host string, headers ...string) *servertest.Answer {
	t.Helper()
	var body any
	if method == http.MethodPost {
		body = servertest.WebBody
	}
	req := s.Request(t, method, path, body)
	req.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	a := s.MustSend(t, req)
	return a
}

// What a browser is made to send by a page of another web site is refused before anything is
// decided; our own page, and callers that are no browser, go on as ever.
func TestPagesOfOtherSitesMayNotCall(t *testing.T) {
	t.Parallel()
	const form, text, json = "application/x-www-form-urlencoded", "text/plain", "application/json"
	const evil = "https://evil.example"
	for _, tt := range []struct {
		name    string
		refused bool
		headers []string
	}{
		{"the README's curl", false, []string{"Content-Type", form}},
		{"a client of JSON", false, []string{"Content-Type", json}},
		{"the page at /docs", false, []string{"Content-Type", json, "Origin", "OWN", "Sec-Fetch-Site", "same-origin"}},
		{"the page at /docs in an old browser", false, []string{"Content-Type", json, "Origin", "OWN"}},
		{"an address that was typed", false, []string{"Sec-Fetch-Site", "none"}},
		{"a form of another site", true, []string{"Content-Type", form, "Origin", evil, "Sec-Fetch-Site", "cross-site"}},
		{"text of another site", true, []string{"Content-Type", text, "Origin", evil, "Sec-Fetch-Site", "cross-site"}},
		{"JSON of another site", true, []string{"Content-Type", json, "Origin", evil, "Sec-Fetch-Site", "cross-site"}},
		{"a site beside ours", true, []string{"Content-Type", text, "Origin", "https://wiki.example", "Sec-Fetch-Site", "same-site"}},
		{"another port of this machine", true, []string{"Content-Type", text, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}},
		{"an old browser", true, []string{"Content-Type", text, "Origin", evil}},
		{"a sandboxed frame", true, []string{"Content-Type", text, "Origin", "null"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var logs *observer.ObservedLogs
			s := servertest.Start(t, servertest.Logged(zap.InfoLevel, server.LogFailedCalls, &logs))
			for i, h := range tt.headers {
				if h == "OWN" {
					tt.headers[i] = s.URL
				}
			}
			for _, method := range []string{http.MethodPost, http.MethodDelete} {
				path := servertest.RecommendPath(servertest.Web)
				if method == http.MethodDelete {
					path = "/v1/" + servertest.Web
				}
				a := browse(t, s, method, path, "", tt.headers...)
				for name := range a.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s: pages of other sites may see the answer: %s", method, name)
					}
				}
				if !tt.refused {
					a.Expect(t, http.StatusOK)
					continue
				}
				a.Expect(t, http.StatusForbidden)
				if message, _ := a.Body["message"].(string); a.Body["code"] != float64(codes.PermissionDenied) ||
					servertest.At(a.Body, "details", 0, "reason") != "PERMISSION_DENIED" || !strings.Contains(message, "another web site") ||
					strings.Contains(message, "the Host here "+strings.TrimPrefix(s.URL, "http://")) == slices.Contains(tt.headers, "Sec-Fetch-Site") {
					t.Errorf("%s: told %s", method, a.Raw)
				}
			}
			if tt.refused {
				if s.Stored(t, servertest.Web) != nil {
					t.Error("it was decided all the same")
				}
				if calls := servertest.Lines(logs, "call"); len(calls) != 2 || calls[0]["code"] != "PermissionDenied" || calls[0]["httpCode"] == nil {
					t.Errorf("logged %v", calls)
				}
			}
			// A page may ask whether it may: it is given no leave.
			leave := browse(t, s, http.MethodOptions, servertest.RecommendPath(servertest.Web), "", "Origin", evil, "Access-Control-Request-Method", "POST")
			if leave.Code < 400 || leave.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("OPTIONS: %d %v", leave.Code, leave.Header)
			}
		})
	}
}

// A name that resolves to 127.0.0.1 gives a page of that name the service's own origin, as
// far as the browser can see.
func TestOnLoopbackNoNameButItsOwnIsServed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names []string
		host  string
		ok    bool
	}{
		{nil, "", true}, // the address
		{nil, "localhost:8080", true},
		{nil, "LOCALHOST", true},
		{nil, "localhost.", true},
		{nil, "setpoint.localhost:1", true},
		{nil, "127.0.0.1", true},
		{nil, "127.8.9.10:8080", true},
		{nil, "[::1]:8080", true},
		{nil, "10.1.2.3", true}, // an address can't be rebound
		{nil, "setpoint:8080", true},
		{nil, "evil.example", false},
		{nil, "evil.example.", false},
		{nil, "evil.example:8080", false},
		{nil, "localhost.evil.example", false},
		{nil, "127.0.0.1.evil.example", false},
		{[]string{"setpoint.example"}, "setpoint.example:443", true},
		{[]string{"Setpoint.Example"}, "setpoint.example", true},
		{[]string{"setpoint.example"}, "evil.example", false},
		{[]string{connections.AnyHost}, "evil.example", true},
	} {
		t.Run(tt.host, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Options.AllowedHosts = tt.names })
			for _, path := range []string{servertest.RecommendPath(servertest.Web), "/v1/" + servertest.Web, "/docs/", "/openapi.json", "/healthz"} {
				method := http.MethodGet
				if strings.HasSuffix(path, ":recommend") {
					method = http.MethodPost
				}
				// Of the same origin, as the browser sees it.
				a := browse(t, s, method, path, tt.host, "Origin", "http://"+tt.host, "Sec-Fetch-Site", "same-origin")
				if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[tt.ok]; a.Code != want {
					t.Errorf("%s: HTTP %d %s, want %d", path, a.Code, a.Raw, want)
				}
				if message, _ := a.Body["message"].(string); !tt.ok && !strings.Contains(message, "--allowed-hosts") {
					t.Errorf("%s: told %s", path, a.Raw)
				}
			}
		})
	}
}

// Who must show credentials that no browser has by itself may come by any name.
func TestCallersWithCredentialsComeByAnyName(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	a := browse(t, s, http.MethodPost, servertest.RecommendPath(servertest.ShopTarget), "setpoint.example", "Authorization", "Bearer "+servertest.ScalerToken)
	a.Expect(t, http.StatusOK)
	a = browse(t, s, http.MethodPost, servertest.RecommendPath(servertest.ShopTarget), "setpoint.example", "Authorization", "Bearer "+servertest.ScalerToken, "Origin", "https://evil.example")
	a.Expect(t, http.StatusForbidden)
}
