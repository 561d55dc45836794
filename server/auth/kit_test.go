package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts a file into a folder of the test and returns its path.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, content)
	return path
}

// rewrite replaces a file at once, as careful programs do.
func rewrite(t testing.TB, path, content string) {
	t.Helper()
	temporary := path + ".new"
	fatal.If(t, os.WriteFile(temporary, []byte(content), 0o600))
	fatal.If(t, os.Rename(temporary, path))
}

// start returns an Authenticator that is closed with the test.
func start(t testing.TB, o auth.Options) *auth.Authenticator {
	t.Helper()
	a, err := auth.New(o)
	fatal.If(t, err)
	t.Cleanup(a.Close)
	return a
}

func bearer(token string) auth.Credentials {
	return auth.Credentials{Authorization: []string{"Bearer " + token}}
}

// wantName authenticates and compares the name.
func wantName(t testing.TB, a *auth.Authenticator, c auth.Credentials, want string) {
	t.Helper()
	identity, err := a.Authenticate(t.Context(), c)
	if err != nil {
		t.Errorf("refused: %v (%s: %v)", err, auth.ReasonOf(err), errors.Unwrap(err))
		return
	}
	if identity.Name != want {
		t.Errorf("got %q, want %q", identity.Name, want)
	}
}

// wantReason authenticates and compares why that failed.
func wantReason(t testing.TB, a *auth.Authenticator, c auth.Credentials, want auth.Reason) {
	t.Helper()
	_ = refusal(t, a, c, want)
}

func refusal(t testing.TB, a *auth.Authenticator, c auth.Credentials, want auth.Reason) *auth.Error {
	t.Helper()
	before := a.Stats().Refused[want]
	identity, err := a.Authenticate(t.Context(), c)
	if err == nil {
		t.Errorf("let in as %q, want %s", identity.Name, want)
		return &auth.Error{}
	}
	if a.Stats().Refused[want] == before {
		t.Errorf("%s is not counted", want)
	}
	var failure *auth.Error
	if !errors.As(err, &failure) {
		t.Fatalf("%T is no *auth.Error: %v", err, err)
	}
	if failure.Reason != want {
		t.Errorf("got %s (%v: %v), want %s", failure.Reason, err, failure.Detail, want)
	}
	return failure
}

// entry is a file of one token.
func entry(identity, token, more string) string {
	sum := sha256.Sum256([]byte(token))
	return fmt.Sprintf("tokens:\n  - identity: %s\n    sha256: %q\n%s", identity, hex.EncodeToString(sum[:]), more)
}

// key is a key pair of an issuer.
type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func newKey(t testing.TB, id string, algorithm jose.SignatureAlgorithm) key {
	t.Helper()
	var private crypto.Signer
	var err error
	switch algorithm {
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	fatal.If(t, err)
	return key{id, algorithm, private}
}

func (k key) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"}
}

// sign returns a JWT with the claims.
func (k key) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if k.id != "" {
		options = options.WithHeader("kid", k.id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options)
	fatal.If(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	fatal.If(t, err)
	return token
}

// issuer is an OpenID Connect issuer with a real server.
type issuer struct {
	*httptest.Server
	discoveries, fetches atomic.Int64

	mu       sync.Mutex
	keys     []any
	down     bool
	document map[string]any // replaces the discovery document
}

// newIssuer starts an issuer. It must be started outside of a synctest bubble.
func newIssuer(t testing.TB, keys ...key) *issuer {
	t.Helper()
	i := &issuer{}
	i.publish(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.discoveries.Add(1)
		i.answer(w, func() any {
			if i.document != nil {
				return i.document
			}
			return map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys?version=1", "authorization_endpoint": i.URL + "/a", "token_endpoint": i.URL + "/t"}
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		i.answer(w, func() any { return map[string]any{"keys": i.keys} })
	})
	i.Server = quietServer(mux)
	t.Cleanup(i.Close)
	return i
}

// quietServer serves TLS, and does not log that clients do not trust it.
func quietServer(handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return server
}

func (i *issuer) answer(w http.ResponseWriter, body func() any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body())
}

func (i *issuer) publish(keys ...key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, k.public())
	}
}

// publishToo adds something to the keys as it is.
func (i *issuer) publishToo(what ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, what...)
}

// serves replaces the discovery document, and returns the one before.
func (i *issuer) serves(document map[string]any) (before map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, i.document = i.document, document
	return before
}

func (i *issuer) setDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// caFile is a file with the certificate of the issuer's server.
func (i *issuer) caFile(t testing.TB) string {
	return write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})))
}

// entry is the issuer's entry in a file of issuers.
func (i *issuer) entry(t testing.TB, more ...string) string {
	return fmt.Sprintf("  - issuer: %s\n    audiences: [setpoint, other]\n    caFile: %s\n    %s\n", i.URL, i.caFile(t), strings.Join(more, "\n    "))
}

// file is a file of this issuer alone.
func (i *issuer) file(t testing.TB, more ...string) string {
	return write(t, "oidc.yaml", "issuers:\n"+i.entry(t, more...))
}

// claims are those of a token that is right now, changed by what follows: names and
// values in turn, nil removes.
func (i *issuer) claims(changes ...any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": "setpoint", "sub": "alice",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for c := 0; c < len(changes); c += 2 {
		claims[changes[c].(string)] = changes[c+1]
		if changes[c+1] == nil {
			delete(claims, changes[c].(string))
		}
	}
	return claims
}

func contextUntil(t testing.TB, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), timeout)
}
