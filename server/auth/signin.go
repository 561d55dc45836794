package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Accepted are the kinds of credentials that an Authenticator accepts.
type Accepted struct {
	Certificates, Tokens, Issuers, Anonymous bool
}

// Accepts returns the accepted kinds of credentials.
func (a *Authenticator) Accepts() Accepted {
	return Accepted{a.certificates != nil, a.tokens != nil, a.oidc != nil, a.options.AllowAnonymous}
}

// Endpoints are the addresses for signing in with an issuer.
type Endpoints struct {
	// Authorization is where browsers are sent, and Token where codes are exchanged for
	// tokens.
	Authorization, Token string
	// NamesItself reports that the issuer's responses contain its name (RFC 9207).
	NamesItself bool
	// SecretInForm reports that the issuer accepts a client's secret only in the form, not
	// in the header.
	SecretInForm bool
	// Client returns what sends requests to the issuer, with the CAs to trust for it now. It limits responses
	// and follows no redirects, because its requests carry secrets for the issuer only.
	Client func() (*http.Client, error)
}

// Names returns the names of callers that are known one by one, and what the names of all others begin with.
func (a *Authenticator) Names() (known, prefixes []string) {
	if a.options.AllowAnonymous {
		known = append(known, AnonymousName)
	}
	if a.tokens != nil {
		for _, holder := range a.tokens.Load() {
			known = append(known, holder.identity.Name)
		}
	}
	if a.certificates != nil {
		prefixes = append(prefixes, string(MethodCertificate)+":")
	}
	if a.oidc != nil {
		for _, config := range a.oidc.Load() {
			prefixes = append(prefixes, string(MethodOIDC)+":"+config.Prefix)
		}
	}
	return known, prefixes
}

// Issuers returns the accepted issuers in the order of their names, each with its accepted
// audiences.
func (a *Authenticator) Issuers() (issuers []string, audiences map[string][]string) {
	audiences = make(map[string][]string)
	if set := a.issuers.Load(); set != nil {
		for url, running := range set.byURL {
			issuers = append(issuers, url)
			audiences[url] = slices.Clone(running.config.Audiences)
		}
	}
	slices.Sort(issuers)
	return issuers, audiences
}

// Endpoints asks an accepted issuer for its endpoints, for as long as ctx allows.
func (a *Authenticator) Endpoints(ctx context.Context, issuer string) (Endpoints, error) {
	set := a.issuers.Load()
	if set == nil || set.byURL[issuer] == nil {
		return Endpoints{}, noIssuer(issuer)
	}
	running := set.byURL[issuer]
	client, err := newClient(running.config, running.pool)
	if err != nil {
		return Endpoints{}, err
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return Endpoints{}, fmt.Errorf("discovery: %w", clipped(err))
	}
	var found struct {
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&found); err != nil {
		return Endpoints{}, fmt.Errorf("discovery: %w", clipped(err))
	}
	e := Endpoints{
		Authorization: provider.Endpoint().AuthURL, Token: provider.Endpoint().TokenURL, NamesItself: found.NamesItself,
		SecretInForm: len(found.Methods) > 0 && !slices.Contains(found.Methods, "client_secret_basic"),
		Client: func() (*http.Client, error) {
			now := a.issuers.Load().byURL[issuer] // the file may have changed
			if now == nil {
				return nil, noIssuer(issuer)
			}
			client, err := newClient(now.config, now.pool)
			if err == nil {
				client.CheckRedirect = func(*http.Request, []*http.Request) error {
					return errors.New("redirected, which a token endpoint must not do")
				}
			}
			return client, err
		},
	}
	for name, address := range map[string]string{"authorization_endpoint": e.Authorization, "token_endpoint": e.Token} {
		if problem := checkKeysURL(address, running.config.Insecure); problem != "" {
			return Endpoints{}, fmt.Errorf("discovery: %s %s", name, problem)
		}
	}
	return e, nil
}

func noIssuer(issuer string) error { return fmt.Errorf("issuer %s is no longer accepted", issuer) }

// pool returns the CAs to trust for an issuer's server; nil: the system's.
type pool func() (*x509.CertPool, error)
