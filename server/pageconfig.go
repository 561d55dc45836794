package server

import (
	"encoding/json"
	"net/http"

	"github.com/setpoint-dev/setpoint/server/page"
	"github.com/setpoint-dev/setpoint/server/signin"
)

// configPath is the path that the page requests before a user has signed in.
const configPath = pagePath + "/config.json"

// pageConfig tells the page which service it is from, and how users may sign in. It is
// public.
type pageConfig struct {
	// Version of the program.
	Version string `json:"version"`
	// Authentication reports that callers must authenticate; SignIn lists the ways.
	Authentication bool         `json:"authentication"`
	SignIn         signInConfig `json:"signIn"`
	// Links are shown with each target.
	Links []PageLink `json:"links,omitempty"`
}

type signInConfig struct {
	// Anonymous: without credentials; Token: by a token that the user has; Certificate: by one
	// that the browser presents itself.
	Anonymous   bool `json:"anonymous"`
	Token       bool `json:"token"`
	Certificate bool `json:"certificate"`
	// OIDC: by navigating to Path, with the parameter to for the page's path to return to; a
	// POST to EndPath with the page's header ends the session. Absent: not offered.
	OIDC *oidcConfig `json:"oidc,omitempty"`
}

type oidcConfig struct {
	Issuer  string `json:"issuer"`
	Name    string `json:"name,omitempty"`
	Path    string `json:"path"`
	EndPath string `json:"endPath"`
}

// signInRoutes serves what the page needs before signing in, and the sign-in itself.
func (s *Server) signInRoutes(mux *http.ServeMux) {
	config := pageConfig{Version: s.options.Version, Links: s.options.PageLinks}
	if access := s.options.Access; access != nil {
		accepted := access.Authenticator.Accepts()
		config.Authentication = accepted.Tokens || accepted.Issuers || accepted.Certificates
		config.SignIn = signInConfig{Anonymous: accepted.Anonymous, Token: accepted.Tokens || accepted.Issuers, Certificate: accepted.Certificates}
	}
	if s.signIn != nil {
		config.SignIn.OIDC = &oidcConfig{Issuer: s.signIn.Issuer(), Name: s.options.SignIn.DisplayName, Path: signin.StartPath, EndPath: signin.EndPath}
		for pattern, handler := range map[string]http.HandlerFunc{
			http.MethodGet + " " + signin.StartPath: s.signIn.Start, http.MethodGet + " " + signin.CallbackPath: s.signIn.Callback, http.MethodPost + " " + signin.EndPath: s.signIn.End,
		} {
			mux.Handle(pattern, s.observer.REST(handler))
		}
	}
	body, err := json.Marshal(config)
	mux.Handle("GET "+configPath, s.observer.REST(page.WithHeaders(page.Policy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body)
	}))))
}
