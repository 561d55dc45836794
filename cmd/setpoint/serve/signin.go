package serve

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/signin"
)

// signInSettings say how users of the web page sign in with an OpenID Connect issuer.
type signInSettings struct {
	signin.Options
	SecretFile string
}

func (s *signInSettings) list() []config.Setting {
	return []config.Setting{
		config.String(&s.ClientID, "ui-oidc-client-id", "`id` by which an issuer of --auth-oidc-file knows the service, one of the issuer's audiences there; users of the web page then sign in with the issuer. Empty: they need a token"),
		config.String(&s.SecretFile, "ui-oidc-client-secret-file", "`file` with the client's secret; reloaded when it changes; none for a public client"),
		config.String(&s.Issuer, "ui-oidc-issuer", "`URL` of the issuer to sign in with; empty means the only one of --auth-oidc-file"),
		config.String(&s.RedirectURL, "ui-oidc-redirect-url", "`URL` that the issuer sends browsers back to: the REST address as browsers know it, and "+signin.CallbackPath),
		config.Strings(&s.Scopes, "ui-oidc-scopes", "`scopes` to ask the issuer for, openid among them"),
		config.String(&s.DisplayName, "ui-oidc-display-name", "`name` of the issuer on the button \"Sign in with …\"; empty means the host of its URL"),
	}
}

// used reports whether users sign in with an issuer.
func (s *signInSettings) used() bool { return s.ClientID != "" }

func (s *signInSettings) validate(refuse config.Refuse, ui bool, oidcFile string) {
	if !s.used() {
		for _, given := range []struct{ flag, value string }{
			{"ui-oidc-issuer", s.Issuer}, {"ui-oidc-client-secret-file", s.SecretFile}, {"ui-oidc-redirect-url", s.RedirectURL}, {"ui-oidc-display-name", s.DisplayName},
		} {
			if given.value != "" {
				refuse(given.flag, "only applies to sign-in with an issuer: give --ui-oidc-client-id")
			}
		}
		return
	}
	if !ui {
		refuse("ui-oidc-client-id", "the web page is off: give --ui")
	}
	if oidcFile == "" {
		refuse("ui-oidc-client-id", "no issuers are accepted: give --auth-oidc-file")
	}
	if s.RedirectURL == "" {
		refuse("ui-oidc-redirect-url", "is required with --ui-oidc-client-id: the REST address as browsers reach it, followed by %s", signin.CallbackPath)
	}
}

// open reads the secret, follows it until the edge is closed, and checks the settings with the issuers that are
// accepted; nil: users don't sign in with one.
func (s *signInSettings) open(e *edge, log *zap.Logger) (*signin.Options, error) {
	if !s.used() {
		return nil, nil
	}
	o := s.Options
	if s.SecretFile != "" {
		secret, err := files.Open(parseSecret, files.Options{MaxBytes: files.MaxSecretBytes, OnChange: logReload(log)}, s.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("--ui-oidc-client-secret-file: %s: %w", s.SecretFile, err)
		}
		o.ClientSecret, e.counts.signIn = secret.Load, secret.Stats
		e.follow(secret.Run)
	}
	if _, err := signin.New(o, e.access.Authenticator, nil, zap.NewNop()); err != nil {
		return nil, fmt.Errorf("--ui-oidc-client-id: %w", err)
	}
	return &o, nil
}
