package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/bounded"
)

// MaxTokenBytes limits a bearer token. Longer ones are not examined.
const MaxTokenBytes = 16 << 10

// DefaultCachedTokens is the default of Options.CachedTokens.
const DefaultCachedTokens = 10000

// Options are the settings of an Authenticator. The zero value regards every caller as
// Anonymous.
type Options struct {
	// Certificates reports whether verified client certificates are credentials.
	Certificates bool
	// Clients checks client certificates again with every call. Nil: the result of the
	// handshake counts for as long as the certificate is valid.
	Clients Clients
	// CertificateNames are the kinds of names that identify the holder of a certificate:
	// the first kind that the certificate has. Nil: URIName, DNSName, CommonName.
	CertificateNames []NameKind
	// TokensFile and OIDCFile are the files of tokens and issuers. "": none.
	TokensFile, OIDCFile string
	// AllowAnonymous regards callers without credentials as Anonymous, instead of
	// refusing them. Invalid credentials are refused nevertheless.
	AllowAnonymous bool
	// CachedTokens limits the JWTs that are cached after verification, about 500 bytes
	// each. One with more than 4 KiB of groups counts as several. Zero: DefaultCachedTokens.
	CachedTokens int
	// Files configures how the files are watched. Its OnChange is called for both.
	Files files.Options
	// OnIssuer is called with an error when an issuer's keys could not be fetched, once for each cause, and with
	// nil when they could for the first time or again. It must not block. Nil: not called.
	OnIssuer func(issuer string, err error)
}

// Clients knows which client certificates are valid now; see certs.Source.
type Clients interface {
	// CheckClient returns why the certificate of a connection, which its handshake
	// verified, is no longer valid. It must be fast, because every call calls it.
	CheckClient(state *tls.ConnectionState) error
	// Generation grows when results of CheckClient may change.
	Generation() uint64
}

// Authenticator authenticates callers. It is safe for concurrent use.
type Authenticator struct {
	options      Options
	certificates *certificates                  // nil: not accepted
	tokens       *files.Watched[tokens]         // nil: there are none
	oidc         *files.Watched[[]IssuerConfig] // nil: JWTs are not accepted
	issuers      atomic.Pointer[issuerSet]      // the running issuers of oidc
	ctx          context.Context                // context of all goroutines
	stop         context.CancelFunc
	running      sync.WaitGroup
	hits, misses atomic.Uint64 // of the cache of JWTs
	changes      atomic.Uint64 // of files and issuers' keys
	refused      [len(reasons)]atomic.Uint64
}

// issuerSet is the issuers of one version of the file, with their verified tokens.
type issuerSet struct {
	byURL map[string]*runningIssuer
	cache *bounded.Map[[sha256.Size]byte, verified]
}

type runningIssuer struct {
	*issuer
	pool pool
	stop context.CancelFunc
}

// New returns an Authenticator. The error lists all errors in the files. An unreachable
// issuer is not an error. Close it after use.
func New(o Options) (*Authenticator, error) {
	if o.CertificateNames == nil {
		o.CertificateNames = []NameKind{URIName, DNSName, CommonName}
	}
	o.CachedTokens = cmp.Or(o.CachedTokens, DefaultCachedTokens)
	if o.OnIssuer == nil {
		o.OnIssuer = func(string, error) {}
	}
	a := &Authenticator{options: o}
	if o.Certificates {
		a.certificates = &certificates{kinds: o.CertificateNames}
	}
	if err := a.open(); err != nil {
		return nil, err
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	if a.tokens != nil {
		a.running.Go(func() { a.tokens.Run(a.ctx) })
	}
	if a.oidc != nil {
		a.useIssuers(a.oidc.Load())
		a.running.Go(func() { a.oidc.Run(a.ctx) })
	}
	return a, nil
}

// open reads the files and checks the options.
func (a *Authenticator) open() error {
	var problems []error
	o := &a.options
	for _, kind := range o.CertificateNames {
		if !slices.Contains([]NameKind{URIName, DNSName, CommonName}, kind) {
			problems = append(problems, fmt.Errorf("certificate name %q: must be one of uri, dns, cn", kind))
		}
	}
	var err error
	if o.TokensFile != "" {
		watched := o.Files
		watched.OnChange = a.fileChanged
		a.tokens, err = files.Open(func(contents [][]byte) (tokens, error) {
			return parseTokens(o.TokensFile, contents[0])
		}, watched, o.TokensFile)
		problems = append(problems, err)
	}
	if o.OIDCFile != "" {
		watched := o.Files
		watched.OnChange = a.issuersChanged
		a.oidc, err = files.Open(func(contents [][]byte) ([]IssuerConfig, error) {
			return parseIssuers(o.OIDCFile, filepath.Dir(o.OIDCFile), contents[0])
		}, watched, o.OIDCFile)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// AllowsAnonymous reports whether callers without credentials count as Anonymous.
func (a *Authenticator) AllowsAnonymous() bool { return a.options.AllowAnonymous }

// Close stops all goroutines and waits for them. JWTs can't be verified afterwards.
func (a *Authenticator) Close() {
	a.stop()
	a.running.Wait()
}

// Reload reads the files now, whether or not they seem to have changed. The error joins
// all errors in them; an invalid file's previous content remains in use.
func (a *Authenticator) Reload() error {
	var problems []error
	if a.tokens != nil {
		problems = append(problems, a.tokens.Reload())
	}
	if a.oidc != nil {
		problems = append(problems, a.oidc.Reload())
	}
	return errors.Join(problems...)
}

// issuersChanged applies a changed file of issuers.
func (a *Authenticator) issuersChanged(e files.Event) {
	if e.Err == nil {
		a.useIssuers(a.oidc.Load())
	}
	a.fileChanged(e)
}

// fileChanged records and logs the reload of a file.
func (a *Authenticator) fileChanged(e files.Event) {
	a.changes.Add(1)
	if a.options.Files.OnChange != nil {
		a.options.Files.OnChange(e)
	}
}

// Generation grows whenever callers must be checked again: a file, an issuer's keys, or
// the state of client certificates has changed. A result of Authenticate is valid while
// Generation is the same as before the call and Identity.Expires has not passed. The
// exception is an unreachable issuer: its keys expire a day after they were fetched.
func (a *Authenticator) Generation() uint64 {
	n := a.changes.Load()
	if a.options.Clients != nil {
		n += a.options.Clients.Generation()
	}
	return n
}

// useIssuers replaces the issuers. Those whose keys are fetched as before keep them, whatever else of their entries has changed:
// they may be away now. It must not be called concurrently.
func (a *Authenticator) useIssuers(configs []IssuerConfig) {
	last := cmp.Or(a.issuers.Load(), new(issuerSet))
	next := &issuerSet{
		byURL: make(map[string]*runningIssuer, len(configs)),
		cache: bounded.NewWeighted[[sha256.Size]byte](a.options.CachedTokens, func(v verified) int { return v.identity.Groups.Weight() }),
	}
	for _, c := range configs {
		if old := last.byURL[c.Issuer]; old != nil && old.config.CAFile == c.CAFile && old.config.Insecure == c.Insecure {
			next.byURL[c.Issuer] = &runningIssuer{issuer: &issuer{config: c, keys: old.keys}, pool: old.pool, stop: old.stop}
		} else {
			next.byURL[c.Issuer] = a.start(c)
		}
	}
	a.issuers.Store(next)
	for url, old := range last.byURL {
		if now := next.byURL[url]; now == nil || now.keys != old.keys {
			old.stop()
		}
	}
}

// start starts fetching an issuer's keys.
func (a *Authenticator) start(c IssuerConfig) *runningIssuer {
	var told printable.Causes // of the outage
	first := true
	report := func(err error) {
		a.changes.Add(1)
		if err != nil && told.New(err.Error()) || err == nil && (first || told.Any()) {
			a.options.OnIssuer(c.Issuer, err)
		}
		if first = false; err == nil {
			told = printable.Causes{}
		}
	}
	authorities := a.authorities(c)
	keys := newKeySet(func(ctx context.Context) ([]jose.JSONWebKey, error) { return fetchKeys(ctx, c, authorities.pool) }, report)
	authorities.changed = keys.fetchNow
	ctx, stop := context.WithCancel(a.ctx)
	a.running.Go(func() { authorities.run(ctx) })
	a.running.Go(func() {
		defer stop()
		keys.run(ctx)
	})
	return &runningIssuer{issuer: &issuer{config: c, keys: keys}, pool: authorities.pool, stop: stop}
}

// Credentials are the credentials of a call.
type Credentials struct {
	// Authorization has the values of that header, or of gRPC's metadata of that name.
	Authorization []string
	// TLS is the state of the caller's connection; nil: plain text.
	TLS *tls.ConnectionState
	// Waits, unless it is nil, is called at least once before Authenticate waits for an
	// issuer, so that the call can release resources meanwhile.
	Waits func()
}

// Authenticate returns the caller, or an *Error. It uses the network only for keys that
// it does not have, for as long as ctx allows.
//
// For streams: call it again before each message when Generation has changed, so that a
// revoked token ends the stream.
func (a *Authenticator) Authenticate(ctx context.Context, c Credentials) (*Identity, error) {
	identity, failure := a.authenticate(ctx, c, time.Now())
	if failure != nil {
		a.countRefused(failure.Reason)
		return nil, failure
	}
	return identity, nil
}

func (a *Authenticator) authenticate(ctx context.Context, c Credentials, now time.Time) (*Identity, *Error) {
	// Authentication is off: credentials are ignored.
	if a.certificates == nil && a.tokens == nil && a.oidc == nil {
		return Anonymous, nil
	}
	// Nothing counts on a connection whose handshake would fail now.
	if a.options.Clients != nil && c.TLS != nil && len(c.TLS.PeerCertificates) > 0 {
		if err := a.options.Clients.CheckClient(c.TLS); err != nil {
			return nil, refuse(ReasonRevoked, "the client certificate is no longer valid: it was revoked, or its CA is no longer trusted; connect again with another one", err)
		}
	}
	takesTokens := a.tokens != nil || a.oidc != nil
	if takesTokens && len(c.Authorization) > 0 {
		return a.bearer(ctx, c, now)
	}
	if a.certificates != nil {
		if identity, failure := a.certificates.authenticate(c.TLS, now); identity != nil || failure != nil {
			return identity, failure
		}
	}
	switch {
	case a.options.AllowAnonymous:
		return Anonymous, nil
	case !takesTokens:
		return nil, refuse(ReasonMissing, "a client certificate is needed", nil)
	case a.certificates == nil:
		return nil, refuse(ReasonMissing, "a bearer token is needed: authorization: Bearer TOKEN", nil)
	}
	return nil, refuse(ReasonMissing, "credentials are needed: a bearer token (authorization: Bearer TOKEN) or a client certificate", nil)
}

// bearer authenticates by a bearer token.
func (a *Authenticator) bearer(ctx context.Context, c Credentials, now time.Time) (*Identity, *Error) {
	token, failure := bearerToken(c.Authorization)
	if failure != nil {
		return nil, failure
	}
	digest := sha256.Sum256([]byte(token))
	if a.tokens != nil {
		if identity, failure := a.tokens.Load().authenticate(digest, now); identity != nil || failure != nil {
			return identity, failure
		}
	}
	if a.oidc != nil && looksLikeJWT(token) {
		return a.jwt(ctx, token, digest, now, c.Waits)
	}
	var detail error
	if a.tokens != nil && a.tokens.Load().withLineBreak(token) {
		detail = errors.New("the file has the SHA-256 of the token and a line break: use printf %s, not echo")
	}
	return nil, refuse(ReasonUnknownToken, "unknown token: it was never valid here, or has been revoked", detail)
}

// bearerToken extracts the token from the header.
func bearerToken(authorization []string) (string, *Error) {
	if len(authorization) > 1 {
		return "", refuse(ReasonMalformed, "the authorization header is repeated", nil)
	}
	value := authorization[0]
	if len(value) > MaxTokenBytes+len("Bearer ") {
		return "", refuse(ReasonTooLarge, fmt.Sprintf("the bearer token is longer than %d bytes", MaxTokenBytes), nil)
	}
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", refuse(ReasonMalformed, "the authorization header must be of the form: Bearer TOKEN", nil)
	}
	return token, nil
}

// jwt authenticates by a JWT, which it verifies unless the result is cached.
func (a *Authenticator) jwt(ctx context.Context, token string, digest [sha256.Size]byte, now time.Time, waits func()) (*Identity, *Error) {
	set := a.issuers.Load()
	if known, ok := set.cache.Get(digest); ok {
		if known.counts(now) {
			a.hits.Add(1)
			return known.identity, nil
		}
		set.cache.Delete(digest)
	}
	a.misses.Add(1)
	name, err := claimedIssuer(token)
	if err != nil {
		return nil, refuse(ReasonMalformed, "the bearer token is not a valid JWT", err)
	}
	from, trusted := set.byURL[name]
	if !trusted {
		return nil, wrongIssuer()
	}
	result, failure := from.verify(ctx, token, now, waits)
	if failure != nil {
		return nil, failure
	}
	set.cache.Put(digest, result)
	return result.identity, nil
}

// counts reports whether a cached verification is still valid: the token has not
// expired, and the issuer's keys have not changed.
func (v *verified) counts(now time.Time) bool {
	state := v.issuer.keys.state.Load()
	return !now.After(v.until) && state.generation == v.generation && state.unusable(now) == nil
}
