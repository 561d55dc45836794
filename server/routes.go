package server

import (
	"net/http"
	"strings"

	"github.com/setpoint-dev/setpoint/api/openapi"
	"github.com/setpoint-dev/setpoint/server/page"
	"github.com/setpoint-dev/setpoint/server/rest"
)

// Paths outside the API.
const (
	pagePath    = "/ui"
	docsPath    = "/docs"
	openapiPath = "/openapi.json"
	livePath    = "/healthz"
	readyPath   = "/readyz"
)

// routes adds the web page, the API's description and the health checks to the gateway.
func (s *Server) routes(gateway http.Handler) (http.Handler, error) {
	mux, refused := http.NewServeMux(), s.observer.REST(rest.RefuseMethod(http.MethodGet, http.MethodHead))
	contract := s.observer.REST(uncached(withoutWebsites(gateway)))
	mux.Handle("/", contract)
	first := docsPath + "/"
	if s.options.Page != nil {
		files, err := page.New(s.options.Page)
		if err != nil {
			return nil, err
		}
		first = pagePath + "/"
		s.signInRoutes(mux)
		mux.Handle("GET "+first, http.StripPrefix(pagePath, files))
		mux.Handle("GET "+pagePath, redirect(first))
		for _, path := range []string{pagePath, first} {
			mux.Handle(path, refused)
		}
	}
	mux.Handle("GET /{$}", redirect(first))
	mux.Handle("/{$}", refused)
	mux.Handle("GET "+docsPath+"/", docs())
	mux.Handle("GET "+docsPath, redirect(docsPath+"/"))
	mux.HandleFunc("GET "+openapiPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openapi.Document())
	})
	health := s.Health()
	mux.Handle("GET "+livePath, health)
	mux.Handle("GET "+readyPath, health)
	for _, path := range []string{docsPath, docsPath + "/", openapiPath, livePath, readyPath} {
		mux.Handle(path, refused)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect a path with an empty segment to another resource, which a client then deletes.
		if strings.HasPrefix(r.URL.Path, "/v1/") || strings.Contains(r.URL.Path, "//") {
			contract.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// uncached keeps caches from storing answers to reads, which are one caller's and of one moment. They store none to other
// methods (RFC 9111, 3).
func uncached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			w.Header().Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, r)
	})
}

// redirect redirects to another path of the server, temporarily: it may change with the next
// version. It is relative to the asked one, a segment of the root, so that it stays below the path that a proxy takes away.
func redirect(path string) http.Handler {
	return page.WithHeaders(page.Policy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(path, "/"))
		w.WriteHeader(http.StatusFound)
	}))
}

// Health serves /healthz, for liveness, and /readyz, for readiness.
func (s *Server) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+livePath, func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET "+readyPath, func(w http.ResponseWriter, _ *http.Request) {
		if s.health.Ended() {
			answerHealth(w, http.StatusServiceUnavailable, "draining")
			return
		}
		ready, why := s.targets.Watch.Ready()
		if !ready {
			answerHealth(w, http.StatusServiceUnavailable, why)
			return
		}
		answerHealth(w, http.StatusOK, why)
	})
	return mux
}

func answerHealth(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}
