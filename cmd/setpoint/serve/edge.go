package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/certs"
)

// edgeSettings are the settings of TLS, authentication and authorization.
type edgeSettings struct {
	TLS        certs.Options
	Auth       auth.Options
	PolicyFile string
	Insecure   bool
}

func (s *edgeSettings) list(kedaTokens *bool) config.Group {
	return config.Group{Title: "Callers and TLS", Settings: []config.Setting{
		config.String(&s.TLS.CertFile, "tls-cert-file", "PEM `file` of the certificate of gRPC and REST, followed by intermediate ones; reloaded when it changes; empty: no TLS").OfProgram("serve"),
		config.String(&s.TLS.KeyFile, "tls-key-file", "PEM `file` of the certificate's key").OfProgram("serve"),
		config.String(&s.TLS.CAFile, "tls-client-ca-file", "`file` with the PEM certificates of the CAs whose client certificates are credentials"),
		config.String(&s.TLS.CRLFile, "tls-client-crl-file", "`file` with PEM revocation lists of those CAs"),
		config.String((*string)(&s.TLS.ClientAuth), "tls-client-auth", "client certificates: none, optional or require; empty means optional with --tls-client-ca-file, else none"),
		config.String(&s.Auth.TokensFile, "auth-tokens-file", "`file` with the SHA-256 of bearer tokens and their owners; reloaded when it changes"),
		config.String(&s.Auth.OIDCFile, "auth-oidc-file", "`file` with the OpenID Connect issuers whose JWTs are accepted as bearer tokens; reloaded when it changes"),
		config.Bool(kedaTokens, "keda-metadata-tokens", "accept a token in a trigger's metadata (token, tokenFromEnv) from KEDA's calls without other credentials; reads up to 64 KiB before authentication"),
		config.Bool(&s.Auth.AllowAnonymous, "auth-allow-anonymous", "accept callers without credentials as \"anonymous\"; the policy decides what they may do"),
		config.String(&s.PolicyFile, "policy-file", "`file` with the rights, limits and options of callers; reloaded when it changes; empty: every authenticated caller may do everything"),
	}}
}

// asks reports whether callers are authenticated.
func (s *edgeSettings) asks() bool {
	return s.Auth.TokensFile != "" || s.Auth.OIDCFile != "" || s.certOptions().ClientAuth != certs.None
}

// certOptions are those of TLS, with the default of ClientAuth.
func (s *edgeSettings) certOptions() certs.Options {
	o := s.TLS
	switch {
	case o.ClientAuth != "":
	case o.CAFile != "":
		o.ClientAuth = certs.Optional
	default:
		o.ClientAuth = certs.None
	}
	return o
}

func (s *edgeSettings) validate(refuse config.Refuse, kedaTokens bool) {
	o := s.certOptions()
	if o.CRLFile != "" && o.CAFile == "" {
		refuse("tls-client-crl-file", "revocation lists need the CAs that signed them: give --tls-client-ca-file")
		o.CRLFile = ""
	}
	if err := o.Validate(); err != nil {
		refuse("tls-cert-file", "%v", err)
	}
	if o.CertFile == "" && (o.CAFile != "" || o.ClientAuth != certs.None) {
		refuse("tls-client-ca-file", "client certificates need TLS: give --tls-cert-file and --tls-key-file")
	}
	if s.Auth.AllowAnonymous && !s.asks() {
		refuse("auth-allow-anonymous", "authentication is off: give --auth-tokens-file, --auth-oidc-file or --tls-client-ca-file")
	}
	if s.Auth.AllowAnonymous && s.PolicyFile == "" {
		refuse("auth-allow-anonymous", "must come with --policy-file, which says what anonymous callers may do")
	}
	if kedaTokens && s.Auth.TokensFile == "" && s.Auth.OIDCFile == "" {
		refuse("keda-metadata-tokens", "there are no tokens: give --auth-tokens-file or --auth-oidc-file")
	}
	if s.PolicyFile != "" && !s.asks() {
		refuse("policy-file", "authentication is off: give --auth-tokens-file, --auth-oidc-file or --tls-client-ca-file")
	}
}

// validateReach refuses addresses of gRPC and REST that other machines can reach without
// authentication or TLS.
func (s *edgeSettings) validateReach(refuse config.Refuse, addresses []flagAddress) {
	for _, a := range addresses {
		if s.Insecure || setpoint.OnLoopback(a.address) {
			continue
		}
		if !s.asks() {
			refuse(a.flag, "other machines can reach %s without authentication: give --auth-tokens-file, --auth-oidc-file or --tls-client-ca-file, or allow it with --allow-insecure-addresses", a.address)
		}
		if s.TLS.CertFile == "" {
			refuse(a.flag, "other machines can reach %s without TLS: give --tls-cert-file and --tls-key-file, or allow it with --allow-insecure-addresses", a.address)
		}
	}
}

// edge is the running part of the settings.
type edge struct {
	access *server.Access
	tls    *tls.Config
	source *certs.Source
	stop   context.CancelFunc
	done   sync.WaitGroup
	// follow follows a file until close.
	follow func(run func(context.Context))
	// counts has the sources of metrics.
	counts edgeCollector
	// notes are worth a word at the start.
	notes []string
}

// open reads the files; kept is how long, 0: for ever, histories are kept. Close the result.
func (s *edgeSettings) open(log *zap.Logger, kept time.Duration) (*edge, error) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &edge{stop: cancel}
	e.follow = func(run func(context.Context)) { e.done.Go(func() { run(ctx) }) }
	if err := errors.Join(s.openTLS(e, log), s.openAccess(e, log, kept)); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (s *edgeSettings) openTLS(e *edge, log *zap.Logger) error {
	o := s.certOptions()
	if o.CertFile == "" {
		return nil
	}
	o.OnChange = logReload(log)
	o.OnWarning = func(warning string) { log.Warn(warning) }
	o.OnExpiring = logExpiry(log, "the certificate")
	var err error
	if e.source, err = certs.New(o); err != nil {
		return s.withFlags(err)
	}
	if e.tls, err = e.source.ServerConfig(); err != nil {
		return fmt.Errorf("--tls-cert-file: %w", err)
	}
	e.notes = e.source.Status().Warnings
	e.counts.certs = e.source.Status
	e.follow(e.source.Run)
	return nil
}

func (s *edgeSettings) openAccess(e *edge, log *zap.Logger, kept time.Duration) error {
	if !s.asks() {
		return nil
	}
	watched := files.Options{OnChange: logReload(log)}
	options := s.Auth
	options.Certificates, options.Files = s.certOptions().ClientAuth != certs.None, watched
	options.OnIssuer = func(issuer string, err error) {
		if err != nil {
			log.Warn("fetching issuer keys failed", zap.String("issuer", issuer), zap.Error(err))
			return
		}
		log.Info("issuer keys fetched", zap.String("issuer", issuer))
	}
	if e.source != nil && options.Certificates {
		options.Clients = e.source
	}
	authenticator, err := auth.New(options)
	if err != nil {
		return s.withFlags(err)
	}
	e.counts.auth, e.counts.tokens, e.counts.issuers = authenticator.Stats, options.TokensFile != "", options.OIDCFile != ""
	e.access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(policy.Default(false))}
	if s.PolicyFile == "" {
		e.notes = append(e.notes, "no policy file: every caller with credentials may do everything, also delete, override, operate and simulate: give --policy-file")
		return nil
	}
	var p *files.Watched[*policy.Policy]
	watched.OnChange = func(event files.Event) {
		logReload(log)(event)
		if event.Err == nil {
			for _, warning := range p.Load().Warnings {
				log.Warn(warning)
			}
		}
	}
	if p, err = policy.OpenWithin(s.PolicyFile, kept, watched); err != nil {
		return s.withFlags(err)
	}
	e.access.Policy, e.counts.policy, e.notes = p, p.Stats, append(e.notes, p.Load().Warnings...)
	if unknown := p.Load().Unknown(authenticator.Names()); len(unknown) > 0 {
		e.notes = append(e.notes, s.PolicyFile+": nobody can be "+strings.Join(unknown, ", ")+
			": no token has such an identity, no issuer such a prefix, or such callers are not accepted")
	}
	e.follow(p.Run)
	return nil
}

// logReload logs the reloads of files.
func logReload(log *zap.Logger) func(files.Event) {
	return func(event files.Event) {
		if event.Err != nil {
			log.Error("reload failed, keeping the previous contents", zap.Strings("files", event.Paths), zap.Error(event.Err))
			return
		}
		log.Info("files loaded", zap.Strings("files", event.Paths))
	}
}

// logExpiry is an error once the certificate has expired: what fails then does not name it.
func logExpiry(log *zap.Logger, certificate string) func(time.Time) {
	return func(notAfter time.Time) {
		if time.Now().Before(notAfter) {
			log.Warn(certificate+" expires soon", zap.Time("notAfter", notAfter))
			return
		}
		log.Error(certificate+" has expired: new connections are refused by those who verify it", zap.Time("notAfter", notAfter))
	}
}

// withFlags prefixes the error of an unreadable file, or of one of TLS, with its flag; an error within
// another file has its path and line.
func (s *edgeSettings) withFlags(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, each := range joined.Unwrap() {
			all = append(all, s.withFlags(each))
		}
		return errors.Join(all...)
	}
	var path string
	if unread, is := errors.AsType[*fs.PathError](err); is {
		path = unread.Path
	} else if wrong, is := errors.AsType[*certs.FileError](err); is {
		path = wrong.Path
	}
	for _, named := range []struct{ flag, path string }{
		{"tls-cert-file", s.TLS.CertFile}, {"tls-key-file", s.TLS.KeyFile}, {"tls-client-ca-file", s.TLS.CAFile}, {"tls-client-crl-file", s.TLS.CRLFile},
		{"auth-tokens-file", s.Auth.TokensFile}, {"auth-oidc-file", s.Auth.OIDCFile}, {"policy-file", s.PolicyFile},
	} {
		if path != "" && named.path == path {
			return fmt.Errorf("--%s: %w", named.flag, err)
		}
	}
	return err
}

func (e *edge) close() {
	e.stop()
	e.done.Wait()
	if e.access != nil {
		e.access.Authenticator.Close()
	}
}
