// Package signintest has a strict OpenID Connect issuer for tests: it accepts nothing beyond
// the code flow with PKCE, and each code once.
package signintest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The client that the issuer accepts.
const (
	ClientID     = "setpoint-page"
	ClientSecret = "the secret of the page's client / with = and +"
)

// Issuer signs every user in at once, as alice.
type Issuer struct {
	URL string

	tb     testing.TB
	server *httptest.Server
	key    *ecdsa.PrivateKey

	mu sync.Mutex
	// Guarded by mu.
	redirectURL string
	codes       map[string]grant
	claims      func(map[string]any)
	answer      func(url.Values)
	refusals    []string
	lifetime    time.Duration
	down        bool
	keyless     bool
	slow        time.Duration
	exchanges   int
}

// grant is the state behind a code, which is valid once.
type grant struct{ challenge, nonce string }

// Start starts an issuer that redirects browsers to redirectURL only. It stops with the test.
func Start(tb testing.TB) *Issuer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal.If(tb, err)
	i := &Issuer{tb: tb, key: key, codes: make(map[string]grant), claims: func(map[string]any) {}, answer: func(url.Values) {}, lifetime: time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	i.server = httptest.NewServer(mux)
	i.URL = i.server.URL
	tb.Cleanup(i.server.Close)
	return i
}

// File is a configuration file with this issuer.
func (i *Issuer) File() string {
	return fmt.Sprintf("issuers:\n  - issuer: %s\n    audiences: [%s, other]\n    prefix: 'corp:'\n    groupsClaim: groups\n    clockSkew: 1s\n", i.URL, ClientID)
}

// LeadsTo sets where browsers are redirected to.
func (i *Issuer) LeadsTo(redirectURL string) { i.set(func() { i.redirectURL = redirectURL }) }

// Claims changes the claims of ID tokens before they are signed.
func (i *Issuer) Claims(change func(map[string]any)) { i.set(func() { i.claims = change }) }

// Answer changes the response that browsers are redirected with.
func (i *Issuer) Answer(change func(url.Values)) { i.set(func() { i.answer = change }) }

// Lifetime sets how long ID tokens are valid.
func (i *Issuer) Lifetime(d time.Duration) { i.set(func() { i.lifetime = d }) }

// Down makes the token endpoint respond with 503.
func (i *Issuer) Down(down bool) { i.set(func() { i.down = down }) }

// Keyless makes the address of its keys respond with 503.
func (i *Issuer) Keyless() { i.set(func() { i.keyless = true }) }

// Slow makes the token endpoint take that long.
func (i *Issuer) Slow(d time.Duration) { i.set(func() { i.slow = d }) }

// Exchanges returns how many codes the token endpoint was asked to exchange.
func (i *Issuer) Exchanges() (n int) {
	i.set(func() { n = i.exchanges })
	return n
}

// Refusals returns the reasons of refusals.
func (i *Issuer) Refusals() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.refusals...)
}

func (i *Issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	code := http.StatusOK
	i.set(func() {
		if i.keyless {
			code = http.StatusServiceUnavailable
		}
	})
	reply(w, code, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
}

// authorize redirects the browser with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q := r.URL.Query()
	for name, want := range map[string]string{"client_id": ClientID, "redirect_uri": i.redirectURL, "response_type": "code", "code_challenge_method": "S256"} {
		if got := q[name]; len(got) != 1 || got[0] != want {
			i.refuse(w, "invalid_request", fmt.Sprintf("%s is %q, want %q", name, got, want))
			return
		}
	}
	if !strings.Contains(" "+q.Get("scope")+" ", " openid ") || len(q.Get("state")) < 32 || len(q.Get("nonce")) < 32 || len(q.Get("code_challenge")) != 43 {
		i.refuse(w, "invalid_request", "scope, state, nonce or code_challenge: "+r.URL.RawQuery)
		return
	}
	code := rand.Text()
	i.codes[code] = grant{q.Get("code_challenge"), q.Get("nonce")}
	answer := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}
	i.answer(answer)
	http.Redirect(w, r, i.redirectURL+"?"+answer.Encode(), http.StatusFound)
}

// token exchanges a code for an ID token.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	var slow time.Duration
	i.set(func() { slow = i.slow; i.exchanges++ })
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	id, secret, _ := r.BasicAuth()
	if id != url.QueryEscape(ClientID) || secret != url.QueryEscape(ClientSecret) {
		i.refuse(w, "invalid_client", "the client is unknown")
		return
	}
	granted, known := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case !known:
		i.refuse(w, "invalid_grant", "the code is unknown, or was used before")
		return
	case r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != i.redirectURL:
		i.refuse(w, "invalid_grant", "grant_type or redirect_uri")
		return
	case base64.RawURLEncoding.EncodeToString(sum[:]) != granted.challenge:
		i.refuse(w, "invalid_grant", "code_verifier")
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": ClientID, "sub": "alice", "groups": []string{"sre"}, "nonce": granted.nonce,
		"iat": now.Unix(), "exp": now.Add(i.lifetime).Unix(),
	}
	i.claims(claims)
	reply(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "id_token": i.sign(claims)})
}

func (i *Issuer) sign(claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err == nil {
		var token string
		if token, err = jwt.Signed(signer).Claims(claims).Serialize(); err == nil {
			return token
		}
	}
	i.tb.Errorf("sign an ID token: %v", err)
	return ""
}

// Token returns a token of alice's, as callers without a browser have one.
func (i *Issuer) Token() string {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": ClientID, "sub": "alice", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	i.set(func() { i.claims(claims) })
	return i.sign(claims)
}

// refuse records and sends an error. The caller has locked mu.
func (i *Issuer) refuse(w http.ResponseWriter, code, why string) {
	i.refusals = append(i.refusals, why)
	reply(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": why})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
