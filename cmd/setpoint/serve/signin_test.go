package serve

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/signin"
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

// The secret is replaced while the service runs, as all files are.
func TestTheSecretOfSignInIsFollowed(t *testing.T) {
	t.Parallel()
	secret := clitest.File(t, "secret", "one\n")
	s := defaultSettings()
	s.Edge.Auth.OIDCFile = clitest.File(t, "oidc.yaml", "issuers:\n  - {issuer: \"http://127.0.0.1:1\", audiences: [setpoint]}\n")
	s.SignIn.ClientID, s.SignIn.SecretFile, s.SignIn.RedirectURL = "setpoint", secret, "http://127.0.0.1:1"+signin.CallbackPath
	edge, err := s.Edge.open(zap.NewNop(), 0)
	fatal.If(t, err)
	defer edge.close()
	o, err := s.SignIn.open(edge, zap.NewNop())
	if err != nil || o.ClientSecret() != "one" {
		t.Fatalf("%+v, %v", o, err)
	}
	fatal.If(t, os.WriteFile(secret, []byte("two\n"), 0o600))
	for began := time.Now(); o.ClientSecret() != "two"; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 10*files.DefaultInterval {
			t.Fatal("the secret is not followed")
		}
	}
	if got := gathered(t, edge.counts)["setpoint_file_last_reload_successful{file=ui_oidc_client_secret}"]; got != 1 {
		t.Errorf("the metric is %v", got)
	}
	fatal.If(t, os.WriteFile(secret, nil, 0o600))
	if _, err := s.SignIn.open(edge, zap.NewNop()); err == nil || err.Error() != "--ui-oidc-client-secret-file: "+secret+": the file is empty" {
		t.Errorf("an empty secret: %v", err)
	}
}
