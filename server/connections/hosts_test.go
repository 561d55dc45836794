package connections_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/setpoint-dev/setpoint/server/connections"
)

// Beyond this machine names are what proxies and name servers make them.
func TestAddressesOfTheNetworkTakeAnyName(t *testing.T) {
	t.Parallel()
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	refused := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for address, guarded := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.1": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://setpoint.example/metrics", nil)
		w := httptest.NewRecorder()
		connections.GuardHost(&net.TCPAddr{IP: net.ParseIP(address), Port: 1}, nil, pages, refused).ServeHTTP(w, r)
		if want := map[bool]int{true: http.StatusForbidden, false: http.StatusTeapot}[guarded]; w.Code != want {
			t.Errorf("%s: HTTP %d, want %d", address, w.Code, want)
		}
	}
}

// A page of a web site can have neither an empty host nor one below localhost; a load balancer's HTTP/1.0 has none.
func TestHostsThatNoWebSiteHas(t *testing.T) {
	t.Parallel()
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	refused := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for host, served := range map[string]bool{"": true, "a.localhost:80": true, "a.b.localhost": true, "localhost.": true, "xlocalhost.example": false, "a.localhost.example": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		connections.GuardHost(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil, pages, refused).ServeHTTP(w, r)
		if want := map[bool]int{true: http.StatusTeapot, false: http.StatusForbidden}[served]; w.Code != want {
			t.Errorf("%q: HTTP %d, want %d", host, w.Code, want)
		}
	}
}
