package server_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/grpc/codes"
)

// aPage is a page of two files.
var aPage = fstest.MapFS{
	"index.html":              {Data: []byte("<!doctype html><title>Setpoint</title>")},
	"assets/main-K2VQ7XWA.js": {Data: []byte("export {};")},
}

func withPage(su *setup) { su.options.Page = aPage }

// noRedirects has redirects answered as they come.
func (s *service) noRedirects() *service {
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

func TestTheFirstPage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, want string
		page             func(*setup)
	}{
		{"the page", "/", "/ui/", withPage},
		{"the page without its slash", "/ui", "/ui/", withPage},
		{"the API's description where there is no page", "/", "/docs/", func(*setup) {}},
		{"the description without its slash", "/docs", "/docs/", withPage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := start(t, tt.page).noRedirects().ask(t, http.MethodGet, tt.path, nil)
			if got := a.header.Get("Location"); a.code != http.StatusFound || got != tt.want {
				t.Errorf("%s: %d to %q, want %q", tt.path, a.code, got, tt.want)
			}
		})
	}
}

func TestThePageIsServed(t *testing.T) {
	t.Parallel()
	s := start(t, withPage)
	for _, path := range []string{"/ui/", "/ui/playground", "/ui/clusters/demo/namespaces/shop/targets/web.js"} {
		if a := s.ask(t, http.MethodGet, path, nil); a.code != http.StatusOK || !strings.Contains(string(a.raw), "<title>Setpoint") {
			t.Errorf("%s: %d %s", path, a.code, a.raw)
		}
	}
	s.ask(t, http.MethodGet, "/ui/assets/gone-K2VQ7XWA.js", nil).expect(t, http.StatusNotFound)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		for _, path := range []string{"/ui", "/ui/", "/ui/playground"} {
			a := s.ask(t, method, path, nil)
			if a.code != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD" || at(a.body, "code") != float64(codes.Unimplemented) {
				t.Errorf("%s %s: %d, allowed %q, %s", method, path, a.code, a.header.Get("Allow"), a.raw)
			}
		}
	}
}

// Whatever a browser may show has headers that keep it from being abused.
func TestPagesAreGuarded(t *testing.T) {
	t.Parallel()
	s := start(t, withPage).noRedirects()
	for _, path := range []string{"/", "/ui", "/ui/", "/ui/x", "/ui/assets/none.js", "/docs", "/docs/", "/docs/page.js", "/docs/page.css", "/docs/swagger-ui.css", "/docs/none"} {
		a := s.ask(t, http.MethodGet, path, nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := a.header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %s", path, name, got, want)
			}
		}
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self';") {
			t.Errorf("%s: %q allows scripts of others", path, policy)
		}
	}
	// What the description consists of has no script within.
	if text := string(s.ask(t, http.MethodGet, "/docs/", nil).raw); strings.Contains(text, "<script>") || strings.Contains(text, "<style>") {
		t.Errorf("a script or style is in the page: %s", text)
	}
}
