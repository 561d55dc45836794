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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/"+servertest.ShopTarget, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, strings.Repeat("x", 17<<10))
		a, err := s.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		if a.Code >= 500 && a.Code != http.StatusServiceUnavailable {
			t.Errorf("%s of 17 KiB: %d %s", header, a.Code, a.Raw)
		}
	}
}
