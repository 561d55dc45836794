package server

import (
	"net/http"

	"github.com/setpoint-dev/setpoint/api/openapi"
)

// Paths beside the API's own.
const (
	docsPath    = "/docs"
	openapiPath = "/openapi.json"
	livePath    = "/healthz"
	readyPath   = "/readyz"
)

// routes puts the API's description and the health checks beside the gateway.
func (s *Server) routes(gateway http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.observer.REST(withoutWebsites(gateway)))
	mux.Handle("GET "+docsPath+"/", docs())
	mux.Handle("GET "+docsPath, http.RedirectHandler(docsPath+"/", http.StatusMovedPermanently))
	mux.HandleFunc("GET "+openapiPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openapi.Document)
	})
	health := s.Health()
	mux.Handle("GET "+livePath, health)
	mux.Handle("GET "+readyPath, health)
	for _, path := range []string{docsPath, docsPath + "/", openapiPath, livePath, readyPath} {
		mux.Handle(path, s.observer.REST(http.HandlerFunc(refuseMethod)))
	}
	return mux
}

// Health serves /healthz, which tells that the process lives, and /readyz, which
// tells whether it is to be sent calls.
func (s *Server) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+livePath, func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET "+readyPath, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-s.drain.Begun:
			answerHealth(w, http.StatusServiceUnavailable, "draining")
		default:
			if s.service.targets.Watch.Away.Load() {
				answerHealth(w, http.StatusServiceUnavailable, "the history store can't be reached")
				return
			}
			answerHealth(w, http.StatusOK, "ok")
		}
	})
	return mux
}

func answerHealth(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}
