package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/server/servertest"
)

// A header that REST accepts must not be too long for gRPC.
func TestLongHeadersOverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.RequestFor(servertest.ShopTarget))
	for _, header := range []string{"User-Agent", "Tracestate", "X-Forwarded-For", "X-Forwarded-Host", "Traceparent", "Authorization"} {
		req := s.Request(t, http.MethodGet, "/v1/"+servertest.ShopTarget, nil)
		req.Header.Set(header, strings.Repeat("x", 17<<10))
		a := s.MustSend(t, req)
		if a.Code >= 500 && a.Code != http.StatusServiceUnavailable {
			t.Errorf("%s of 17 KiB: %d %s", header, a.Code, a.Raw)
		}
	}
}

// A header that would be ignored, although the caller counts on it, is refused.
func TestHeadersThatAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, tt := range []struct {
		header, value string
		code          int
	}{
		{"If-Match", `"bad"`, http.StatusBadRequest},
		{"If-None-Match", "*", http.StatusBadRequest},
		{"Content-Encoding", "gzip", http.StatusUnsupportedMediaType},
		{"Content-Encoding", "identity", http.StatusOK},
	} {
		req := s.Request(t, http.MethodPut, "/v1/"+servertest.Web+"/spec", servertest.QueueSpec(1, 10))
		req.Header.Set(tt.header, tt.value)
		a := s.MustSend(t, req)
		a.Expect(t, tt.code)
		if tt.code == http.StatusOK {
			continue
		}
		if got := a.Problem(t); got.Reason != "INVALID_REQUEST" || !strings.Contains(got.Message, tt.header) {
			t.Errorf("%s: %s: %s", tt.header, tt.value, a.Raw)
		}
		s.Ask(t, http.MethodGet, "/v1/"+servertest.Web+"/spec", nil).Expect(t, http.StatusNotFound)
	}
}
