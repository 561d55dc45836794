//go:build linux

package edge

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer is an OpenID Connect issuer over HTTPS.
type issuer struct {
	t      testing.TB
	server *httptest.Server

	mu        sync.Mutex
	published []signingKey // guarded by mu
	away      bool         // guarded by mu
	asked     int          // guarded by mu; how often for keys
}

// signingKey is a key pair that signs by ES256.
type signingKey struct {
	id      string
	private crypto.Signer
}

func newSigningKey(t testing.TB, id string) signingKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return signingKey{id, private}
}

// newIssuer starts an issuer with a certificate of the CA.
func newIssuer(t testing.TB, ca *authority, keys ...signingKey) *issuer {
	t.Helper()
	i := &issuer{t: t, published: keys}
	i.server = httptest.NewUnstartedServer(i)
	i.server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issueNow("").TLS()}}
	i.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	i.server.StartTLS()
	t.Cleanup(i.server.Close)
	return i
}

// publish replaces the published keys.
func (i *issuer) publish(keys ...signingKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published = keys
}

// setAway has it fail, or answer again.
func (i *issuer) setAway(away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away = away
}

// fetches returns how often keys were asked for.
func (i *issuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// ServeHTTP implements http.Handler.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys",
			"authorization_endpoint": i.server.URL + "/auth", "token_endpoint": i.server.URL + "/token",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"ES256"},
		}
	case "/keys":
		i.asked++
		var set jose.JSONWebKeySet
		for _, k := range i.published {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(jose.ES256), Use: "sig"})
		}
		answer = set
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// token returns a JWT for setpoint that is valid for an hour, with changes.
func (i *issuer) token(key signingKey, subject string, changes ...func(*jwt.Claims)) string {
	i.t.Helper()
	now := time.Now()
	claims := jwt.Claims{
		Issuer: i.server.URL, Subject: subject, Audience: jwt.Audience{"setpoint"},
		IssuedAt: jwt.NewNumericDate(now.Add(-time.Hour)), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
	}
	for _, change := range changes {
		change(&claims)
	}
	return i.sign(jose.ES256, key.private, key.id, claims)
}

// sign signs claims.
func (i *issuer) sign(algorithm jose.SignatureAlgorithm, key any, id string, claims jwt.Claims) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", id))
	must(i.t, err)
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	must(i.t, err)
	return text
}

// file returns the file of issuers that names this one.
func (i *issuer) file(caFile string) []byte {
	return fmt.Appendf(nil, "issuers:\n  - issuer: %s\n    audiences: [setpoint]\n    prefix: \"corp:\"\n    caFile: %s\n", i.server.URL, caFile)
}
