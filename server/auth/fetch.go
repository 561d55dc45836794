package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/bounded"
)

const (
	// fetchTimeout limits discovery and keys together.
	fetchTimeout = 10 * time.Second
	// maxDocument limits an issuer's response, in bytes.
	maxDocument = 1 << 20
	// maxRedirects and minRSABits are common values.
	maxRedirects = 5
	minRSABits   = 2048
	// maxKeys limits the keys of an issuer: a token without a key id is tried with
	// each.
	maxKeys = 100
	// maxDetail limits the logged part of an error, which may contain a response.
	maxDetail = 300
)

// fetchKeys discovers the address of the issuer's keys and fetches them. It does both
// every time, because the address may change, too.
func fetchKeys(ctx context.Context, c IssuerConfig, authorities func() (*x509.CertPool, error)) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client, err := newClient(c, authorities)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), c.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", clipped(err))
	}
	var discovered struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&discovered); err != nil {
		return nil, fmt.Errorf("discovery: %w", clipped(err))
	}
	if problem := checkKeysURL(discovered.Keys, c.Insecure); problem != "" {
		return nil, fmt.Errorf("discovery: jwks_uri %s", problem)
	}
	body, err := get(ctx, client, discovered.Keys)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", clipped(err))
	}
	return parseKeys(body)
}

// checkKeysURL is checkURL for an address that may have a query.
func checkKeysURL(text string, insecure bool) string {
	address, _, _ := strings.Cut(text, "?")
	return checkURL(address, insecure)
}

// newClient returns a client for one fetch: fetches are rare, and the CAs may have changed
// since the last one.
func newClient(c IssuerConfig, authorities func() (*x509.CertPool, error)) (*http.Client, error) {
	pool, err := authorities()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true,
		TLSHandshakeTimeout: fetchTimeout / 2, ResponseHeaderTimeout: fetchTimeout / 2,
	}
	return &http.Client{
		Transport: boundedTransport{transport},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return errors.New("too many redirects")
			}
			if problem := checkKeysURL(r.URL.String(), c.Insecure); problem != "" {
				return errors.New("redirected: " + problem)
			}
			return nil
		},
	}, nil
}

// boundedTransport limits the responses, which go-oidc reads to their end.
type boundedTransport struct{ *http.Transport }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = bounded.Body(response.Body, maxDocument, fmt.Errorf("the answer is longer than %d bytes", maxDocument))
	return response, nil
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", address, response.Status)
	}
	return body, nil
}

// parseKeys returns the public keys for signatures of a JWKS. As RFC 7517 requires, it
// ignores keys that it cannot use.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("keys: not a JWKS: %w", clipped(err))
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && verifies(&key) {
			keys = append(keys, key)
		}
	}
	switch {
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("keys: more than %d", maxKeys)
	case len(keys) == 0:
		return nil, fmt.Errorf("keys: none of %d keys can verify signatures", len(set.Keys))
	}
	return keys, nil
}

// verifies reports whether a key may verify signatures: it is public (never a shared
// secret), for signatures, and not too short.
func verifies(key *jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// clipped is an error whose text fits a log line.
func clipped(err error) error {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, err.Error())
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "..."
	}
	return errors.New(text)
}
