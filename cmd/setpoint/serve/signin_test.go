package serve

import (
	"strings"
	"testing"
)

func TestSettingsOfSignIn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, problem string
		change        func(*settings)
	}{
		{"nothing without a client", "--ui-oidc-redirect-url: only applies to sign-in", func(s *settings) { s.SignIn.RedirectURL = "https://a.example/ui/sign-in/callback" }},
		{"no name without a client", "--ui-oidc-display-name: only applies to sign-in", func(s *settings) { s.SignIn.DisplayName = "Okta" }},
		{"no issuers", "--ui-oidc-client-id: no issuers are accepted", func(s *settings) { s.SignIn.ClientID = "a" }},
		{"no page", "--ui-oidc-client-id: the web page is off", func(s *settings) { s.SignIn.ClientID, s.UI = "a", false }},
		{"no way back", "--ui-oidc-redirect-url: is required", func(s *settings) { s.SignIn.ClientID = "a" }},
	} {
		s := defaultSettings()
		tt.change(&s)
		if err := s.validate(); err == nil || !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.problem)
		}
	}
}
