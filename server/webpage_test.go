package server_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/server/servertest"
)

// noRedirects has redirects answered as they come.
func noRedirects(s *servertest.Service) *servertest.Service {
	s.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

// Relative, so that they stay below a path that a proxy takes away.
func TestTheFirstPage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, want string
		page             func(*servertest.Setup)
	}{
		{"the page", "/", "ui/", servertest.WithPage},
		{"the page without its slash", "/ui", "ui/", servertest.WithPage},
		{"the API's description where there is no page", "/", "docs/", func(*servertest.Setup) {}},
		{"the description without its slash", "/docs", "docs/", servertest.WithPage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := noRedirects(servertest.Start(t, tt.page)).Ask(t, http.MethodGet, tt.path, nil)
			if got := a.Header.Get("Location"); a.Code != http.StatusFound || got != tt.want {
				t.Errorf("%s: %d to %q, want %q", tt.path, a.Code, got, tt.want)
			}
		})
	}
}

func TestThePageIsServed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.WithPage)
	for _, path := range []string{"/ui/", "/ui/playground", "/ui/clusters/demo/namespaces/shop/targets/web.js"} {
		if a := s.Ask(t, http.MethodGet, path, nil); a.Code != http.StatusOK || !strings.Contains(string(a.Raw), "<title>Setpoint") {
			t.Errorf("%s: %d %s", path, a.Code, a.Raw)
		}
	}
	s.Ask(t, http.MethodGet, "/ui/assets/gone-K2VQ7XWA.js", nil).Expect(t, http.StatusNotFound)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		for _, path := range []string{"/ui", "/ui/", "/ui/playground"} {
			a := s.Ask(t, method, path, nil)
			if a.Code != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD" || servertest.At(a.Body, "code") != float64(codes.Unimplemented) {
				t.Errorf("%s %s: %d, allowed %q, %s", method, path, a.Code, a.Header.Get("Allow"), a.Raw)
			}
		}
	}
}

// Whatever a browser may show has headers that keep it from being abused.
func TestPagesAreGuarded(t *testing.T) {
	t.Parallel()
	s := noRedirects(servertest.Start(t, servertest.WithPage))
	for _, path := range []string{"/", "/ui", "/ui/", "/ui/x", "/ui/assets/none.js", "/docs", "/docs/", "/docs/page.js", "/docs/page.css", "/docs/swagger-ui.css", "/docs/none"} {
		a := s.Ask(t, http.MethodGet, path, nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := a.Header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %s", path, name, got, want)
			}
		}
		if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self';") {
			t.Errorf("%s: %q allows scripts of others", path, policy)
		}
	}
	// What the description consists of has no script within.
	if text := string(s.Ask(t, http.MethodGet, "/docs/", nil).Raw); strings.Contains(text, "<script>") || strings.Contains(text, "<style>") {
		t.Errorf("a script or style is in the page: %s", text)
	}
}
