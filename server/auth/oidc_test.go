package auth_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/auth"
)

// encode is a part of a JWT.
func encode(part any) string {
	data, _ := json.Marshal(part)
	return base64.RawURLEncoding.EncodeToString(data)
}

// withMAC is a JWT that is signed with a shared secret.
func withMAC(header, claims any, secret []byte) string {
	signed := encode(header) + "." + encode(claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestJWTs(t *testing.T) {
	rsaKey, ecKey, edKey := newKey(t, "rsa", jose.RS256), newKey(t, "ec", jose.ES256), newKey(t, "ed", jose.EdDSA)
	stranger := newKey(t, "rsa", jose.RS256)
	i := newIssuer(t, rsaKey, ecKey, edKey)
	a := start(t, auth.Options{OIDCFile: i.file(t, "groupsClaim: groups", `prefix: "corp:"`)})
	now := time.Now()
	publicDER, err := x509.MarshalPKIXPublicKey(rsaKey.private.Public())
	fatal.If(t, err)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	good := rsaKey.sign(t, i.claims())
	parts := strings.Split(good, ".")
	tests := []struct {
		name  string
		token string
		want  auth.Reason // "": let in as alice
	}{
		{"by RSA", good, ""},
		{"by ECDSA", ecKey.sign(t, i.claims()), ""},
		{"by Ed25519", edKey.sign(t, i.claims()), ""},
		{"without key id, all keys are tried", key{"", jose.RS256, rsaKey.private}.sign(t, i.claims()), ""},
		{"one audience of several is ours", rsaKey.sign(t, i.claims("aud", []string{"x", "other"})), ""},
		{"without nbf and iat", rsaKey.sign(t, i.claims("nbf", nil, "iat", nil)), ""},
		{"expired within the clock skew", rsaKey.sign(t, i.claims("exp", now.Add(-20*time.Second).Unix())), ""},
		{"not yet valid within the clock skew", rsaKey.sign(t, i.claims("nbf", now.Add(20*time.Second).Unix())), ""},
		{"expired", rsaKey.sign(t, i.claims("exp", now.Add(-40*time.Second).Unix())), auth.ReasonExpired},
		{"not yet valid", rsaKey.sign(t, i.claims("nbf", now.Add(40*time.Second).Unix())), auth.ReasonNotYetValid},
		{"issued in the future", rsaKey.sign(t, i.claims("iat", now.Add(40*time.Second).Unix())), auth.ReasonNotYetValid},
		{"without exp", rsaKey.sign(t, i.claims("exp", nil)), auth.ReasonWrongClaims},
		{"wrong audience", rsaKey.sign(t, i.claims("aud", "grafana")), auth.ReasonWrongAudience},
		{"without audience", rsaKey.sign(t, i.claims("aud", nil)), auth.ReasonWrongAudience},
		{"audience that ours begins with", rsaKey.sign(t, i.claims("aud", "setp")), auth.ReasonWrongAudience},
		{"wrong issuer", rsaKey.sign(t, i.claims("iss", "https://evil.example")), auth.ReasonWrongIssuer},
		{"issuer with a slash more", rsaKey.sign(t, i.claims("iss", i.URL+"/")), auth.ReasonWrongIssuer},
		{"without issuer", rsaKey.sign(t, i.claims("iss", nil)), auth.ReasonWrongIssuer},
		{"wrong key of the same id", stranger.sign(t, i.claims()), auth.ReasonWrongKey},
		{"wrong key without id", key{"", jose.RS256, stranger.private}.sign(t, i.claims()), auth.ReasonWrongKey},
		{"signature of another token", parts[0] + "." + encode(i.claims("sub", "root")) + "." + parts[2], auth.ReasonWrongKey},
		{"another algorithm than the key is for", key{"rsa", jose.PS256, rsaKey.private}.sign(t, i.claims()), auth.ReasonWrongKey},
		{"key of another kind", key{"ec", jose.RS256, rsaKey.private}.sign(t, i.claims()), auth.ReasonWrongKey},
		{"alg none", encode(map[string]any{"alg": "none"}) + "." + encode(i.claims()) + ".", auth.ReasonWrongAlgorithm},
		{"alg none with a signature", encode(map[string]any{"alg": "none", "kid": "rsa"}) + "." + encode(i.claims()) + "." + parts[2], auth.ReasonWrongAlgorithm},
		{"HS256 with the public key (PEM) as secret", withMAC(map[string]any{"alg": "HS256", "kid": "rsa"}, i.claims(), publicPEM), auth.ReasonWrongAlgorithm},
		{"HS256 with the public key (DER) as secret", withMAC(map[string]any{"alg": "HS256", "kid": "rsa"}, i.claims(), publicDER), auth.ReasonWrongAlgorithm},
		{"RS256 that is a MAC", withMAC(map[string]any{"alg": "RS256", "kid": "rsa"}, i.claims(), publicPEM), auth.ReasonWrongKey},
		{"a critical header that is unknown", withHeader(t, rsaKey, i.claims(), "crit", []string{"x"}), auth.ReasonWrongKey},
		{"key within the token", withHeader(t, stranger, i.claims(), "jwk", stranger.public()), auth.ReasonWrongKey},
		{"without name", rsaKey.sign(t, i.claims("sub", nil)), auth.ReasonWrongClaims},
		{"empty name", rsaKey.sign(t, i.claims("sub", "")), auth.ReasonWrongClaims},
		{"name of another type", rsaKey.sign(t, i.claims("sub", 7)), auth.ReasonWrongClaims},
		{"name that would break log lines", rsaKey.sign(t, i.claims("sub", "alice\nroot")), auth.ReasonWrongClaims},
		{"groups of another type", rsaKey.sign(t, i.claims("groups", map[string]any{"a": 1})), auth.ReasonWrongClaims},
		{"group that would be two", rsaKey.sign(t, i.claims("groups", []string{"a\noidc:corp:sre"})), auth.ReasonWrongClaims},
		{"payload is no base64", parts[0] + ".!!!." + parts[2], auth.ReasonMalformed},
		{"payload is no object", parts[0] + "." + encode("x") + "." + parts[2], auth.ReasonMalformed},
		{"header is no object", encode("x") + "." + parts[1] + "." + parts[2], auth.ReasonMalformed},
		{"issuer spelt otherwise", parts[0] + "." + encode(map[string]any{"ISS": i.URL}) + "." + parts[2], auth.ReasonWrongIssuer},
		{"four parts", good + ".x", auth.ReasonUnknownToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // A refused token is refused again, and an accepted one is cached.
				if tt.want == "" {
					wantName(t, a, bearer(tt.token), "oidc:corp:alice")
				} else {
					wantReason(t, a, bearer(tt.token), tt.want)
				}
			}
		})
	}
}

func withHeader(t *testing.T, k key, claims map[string]any, name string, value any) string {
	t.Helper()
	payload, _ := json.Marshal(claims)
	options := (&jose.SignerOptions{}).WithHeader(jose.HeaderKey(name), value).WithHeader("kid", k.id)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options)
	fatal.If(t, err)
	object, err := signer.Sign(payload)
	fatal.If(t, err)
	token, err := object.CompactSerialize()
	fatal.If(t, err)
	return token
}

func TestIdentityOfAJWT(t *testing.T) {
	k := newKey(t, "1", jose.ES256)
	i := newIssuer(t, k)
	expiry := time.Now().Add(time.Hour).Truncate(time.Second)
	tests := []struct {
		name     string
		settings []string
		claims   []any
		want     string
		groups   []string
	}{
		{"the default prefix is the issuer", nil, []any{"groups", []string{"sre"}}, "oidc:" + i.URL + "#alice", nil},
		{"an empty prefix", []string{`prefix: ""`}, nil, "oidc:alice", nil},
		{"another claim", []string{`prefix: "c:"`, "usernameClaim: email"}, []any{"email", "a@b.c"}, "oidc:c:a@b.c", nil},
		{"a verified address", []string{`prefix: "c:"`, "usernameClaim: email"}, []any{"email", "a@b.c", "email_verified", true}, "oidc:c:a@b.c", nil},
		{"groups", []string{`prefix: "c:"`, "groupsClaim: roles"}, []any{"roles", []string{"sre", "dev", "sre"}}, "oidc:c:alice", []string{"oidc:c:dev", "oidc:c:sre"}},
		{"a single group", []string{`prefix: "c:"`, "groupsClaim: roles"}, []any{"roles", "sre"}, "oidc:c:alice", []string{"oidc:c:sre"}},
		{"a claim without a name is no groupsClaim", []string{`prefix: "c:"`}, []any{"", []string{"sre"}}, "oidc:c:alice", nil},
		{"no groups", []string{`prefix: "c:"`, "groupsClaim: roles"}, nil, "oidc:c:alice", nil},
		{"a name with a wildcard is but a name", []string{`prefix: "c:"`}, []any{"sub", "*"}, "oidc:c:*", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := start(t, auth.Options{OIDCFile: i.file(t, tt.settings...)})
			got, err := a.Authenticate(t.Context(), bearer(k.sign(t, i.claims(append(tt.claims, "exp", expiry.Unix())...))))
			fatal.If(t, err)
			if got.Name != tt.want || !slices.Equal(got.Groups.Names(), tt.groups) || got.Method != auth.MethodOIDC || !got.Expires.Equal(expiry.Add(auth.DefaultClockSkew)) {
				t.Errorf("got %+v, want %s of %q", got, tt.want, tt.groups)
			}
		})
	}
	t.Run("an unverified address identifies no caller", func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: i.file(t, "usernameClaim: email")})
		for _, verified := range []any{false, "true", "false", "yes", 1, 0, []bool{true}, map[string]any{}, json.RawMessage("null")} {
			wantReason(t, a, bearer(k.sign(t, i.claims("email", "a@b.c", "email_verified", verified))), auth.ReasonWrongClaims)
		}
	})
	t.Run("algorithms may be fewer", func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: i.file(t, "algorithms: [RS256]")})
		wantReason(t, a, bearer(k.sign(t, i.claims())), auth.ReasonWrongAlgorithm)
	})
}

func TestIssuersAreKeptApart(t *testing.T) {
	k, other := newKey(t, "1", jose.ES256), newKey(t, "1", jose.ES256)
	i, j := newIssuer(t, k), newIssuer(t, other)
	a := start(t, auth.Options{OIDCFile: write(t, "oidc.yaml", "issuers:\n"+i.entry(t, `prefix: "i:"`)+j.entry(t, `prefix: "j:"`, "usernameClaim: name"))})
	wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:i:alice")
	wantName(t, a, bearer(other.sign(t, j.claims("name", "bob"))), "oidc:j:bob")
	wantReason(t, a, bearer(other.sign(t, i.claims())), auth.ReasonWrongKey)
}

// TestUselessKeys checks that keys which can't or must not verify signatures are left
// out, and do no harm to others.
func TestUselessKeys(t *testing.T) {
	k := newKey(t, "good", jose.RS256)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	fatal.If(t, err)
	encryption := newKey(t, "encryption", jose.RS256)
	forEncryption := encryption.public()
	forEncryption.Use = "enc"
	i := newIssuer(t, k)
	i.publishToo(
		jose.JSONWebKey{Key: []byte("a shared secret"), KeyID: "shared"}, forEncryption,
		jose.JSONWebKey{Key: &short.PublicKey, KeyID: "short"},
		map[string]any{"kty": "OKP", "crv": "Ed448", "x": "AAAA", "kid": "unknown"}, "nonsense",
	)
	a := start(t, auth.Options{OIDCFile: i.file(t, `prefix: ""`)})
	wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:alice")
	wantReason(t, a, bearer(encryption.sign(t, i.claims())), auth.ReasonWrongKey)
	wantReason(t, a, bearer(key{"short", jose.RS256, short}.sign(t, i.claims())), auth.ReasonWrongKey)
	wantReason(t, a, bearer(withMAC(map[string]any{"alg": "HS256", "kid": "shared"}, i.claims(), []byte("a shared secret"))), auth.ReasonWrongAlgorithm)
}

// The tests of time run in a synctest bubble, and the issuer's server outside of it:
// time passes while no fetch is under way.

func TestRotatedKeys(t *testing.T) {
	old, young := newKey(t, "old", jose.ES256), newKey(t, "young", jose.ES256)
	i := newIssuer(t, old)
	file := i.file(t, `prefix: ""`)
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: file})
		byOld := bearer(old.sign(t, i.claims()))
		wantName(t, a, byOld, "oidc:alice")
		time.Sleep(time.Minute)

		i.publish(young, old)
		wantName(t, a, bearer(young.sign(t, i.claims("sub", "bob"))), "oidc:bob") // fetched at once
		wantName(t, a, byOld, "oidc:alice")

		i.publish(young)
		wantName(t, a, byOld, "oidc:alice") // remembered, and not yet known to be gone
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		wantReason(t, a, byOld, auth.ReasonWrongKey)
		wantReason(t, a, bearer(old.sign(t, i.claims("sub", "carol"))), auth.ReasonWrongKey)
		wantName(t, a, bearer(young.sign(t, i.claims())), "oidc:alice")
	})
}

// A key that was published right after a fetch is not known until the next one may follow: its tokens are told to come again.
func TestAKeyOfThisMoment(t *testing.T) {
	old, young, stranger := newKey(t, "old", jose.ES256), newKey(t, "young", jose.ES256), newKey(t, "stranger", jose.ES256)
	i := newIssuer(t, old)
	file := i.file(t, `prefix: ""`)
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: file})
		time.Sleep(time.Hour) // so that tokens may be older than the keys
		wantName(t, a, bearer(old.sign(t, i.claims())), "oidc:alice")
		by := func(k key, changes ...any) auth.Credentials { return bearer(k.sign(t, i.claims(changes...))) }
		hourAgo := time.Now().Add(-time.Hour).Unix()
		wantLater := func(name string, c auth.Credentials, want bool) {
			t.Helper()
			if got := refusal(t, a, c, auth.ReasonWrongKey).Unavailable(); got != want {
				t.Errorf("%s: UNAVAILABLE is %t, want %t", name, got, want)
			}
		}
		wantLater("the keys are fetched for this token", by(stranger), false)
		i.publish(young, old)
		wantLater("issued since the keys were fetched", by(young), true)
		wantLater("issued before", by(stranger, "iat", hourAgo), false)
		wantLater("without the time of its issue", by(stranger, "iat", nil), false)
		wantLater("a known key that did not sign", by(key{"old", jose.ES256, stranger.private}), false)
		time.Sleep(10 * time.Second)
		wantName(t, a, by(young), "oidc:alice")
	})
}

func TestStormsOfUnknownKeys(t *testing.T) {
	k := newKey(t, "known", jose.ES256)
	i := newIssuer(t, k)
	file := i.file(t, `prefix: ""`)
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: file})
		wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:alice")
		before := i.fetches.Load()
		for n := range 300 { // a minute's worth
			garbage := key{fmt.Sprint("garbage-", n), jose.ES256, k.private}
			wantReason(t, a, bearer(garbage.sign(t, i.claims())), auth.ReasonWrongKey)
			time.Sleep(200 * time.Millisecond)
		}
		if n := i.fetches.Load() - before; n < 5 || n > 6 {
			t.Errorf("%d fetches in a minute, want one every 10 s", n)
		}
		// A key that is known and did not sign is no reason to ask at all.
		time.Sleep(30 * time.Second)
		synctest.Wait()
		before = i.fetches.Load()
		stranger := newKey(t, "known", jose.ES256)
		wantReason(t, a, bearer(stranger.sign(t, i.claims())), auth.ReasonWrongKey)
		if n := i.fetches.Load() - before; n != 0 {
			t.Errorf("%d fetches for a wrong signature", n)
		}
		wantName(t, a, bearer(k.sign(t, i.claims("sub", "bob"))), "oidc:bob")
	})
}

func TestIssuerDownThenUp(t *testing.T) {
	k := newKey(t, "1", jose.ES256)
	i := newIssuer(t, k)
	i.setDown(true)
	file := i.file(t, `prefix: ""`)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		a := start(t, auth.Options{OIDCFile: file, OnIssuer: func(issuer string, err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(issuer == i.URL, err != nil))
		}})
		token := bearer(k.sign(t, i.claims("exp", time.Now().Add(100*time.Hour).Unix())))
		failure := refusal(t, a, token, auth.ReasonIssuerUnreachable)
		if !failure.Unavailable() || !strings.Contains(fmt.Sprint(failure.Detail), "503") || strings.Contains(failure.Error(), i.URL) {
			t.Errorf("got %v: %v", failure, failure.Detail)
		}
		// Tokens that are wrong whatever the keys are not the issuer's fault.
		wantReason(t, a, bearer(k.sign(t, i.claims("iss", "https://evil.example"))), auth.ReasonWrongIssuer)
		time.Sleep(10 * time.Minute)
		wantReason(t, a, token, auth.ReasonIssuerUnreachable)
		if n := i.discoveries.Load(); n < 20 || n > 60 {
			t.Errorf("%d attempts in 10 minutes, want some every half minute", n)
		}

		i.setDown(false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wantName(t, a, token, "oidc:alice")
		byUnknown, byUnnamed := bearer(newKey(t, "2", jose.ES256).sign(t, i.claims())), bearer(newKey(t, "", jose.ES256).sign(t, i.claims()))
		wantReason(t, a, byUnknown, auth.ReasonWrongKey)
		wantReason(t, a, byUnnamed, auth.ReasonWrongKey)

		// Down again: known keys still count. An unknown key may be a new one.
		i.setDown(true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		wantName(t, a, token, "oidc:alice")
		wantReason(t, a, byUnknown, auth.ReasonIssuerUnreachable)
		wantReason(t, a, byUnnamed, auth.ReasonIssuerUnreachable)

		// It comes back with another mistake, which is told, and once though the first one returns.
		document := i.serves(map[string]any{"issuer": "https://other.example"})
		for range 3 {
			i.setDown(false)
			time.Sleep(2 * time.Minute)
			i.setDown(true)
			time.Sleep(2 * time.Minute)
		}

		i.serves(document)
		i.setDown(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantName(t, a, token, "oidc:alice")
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(told); got != "[true true true false true true true true true false]" {
			t.Errorf("told %s", got)
		}
		stats := a.Stats()
		if len(stats.Issuers) != 1 || stats.Issuers[0].Err != nil || stats.Issuers[0].Fetched.IsZero() || stats.Issuers[0].Failures == 0 || stats.Issuers[0].Keys != 1 {
			t.Errorf("stats %+v", stats.Issuers)
		}
	})
}

func TestARememberedJWTExpires(t *testing.T) {
	k := newKey(t, "1", jose.ES256)
	i := newIssuer(t, k)
	file := i.file(t, `prefix: ""`)
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: file})
		token := bearer(k.sign(t, i.claims("exp", time.Now().Add(time.Minute).Unix())))
		for range 3 {
			wantName(t, a, token, "oidc:alice")
		}
		if s := a.Stats(); s.CacheHits != 2 || s.CacheMisses != 1 || s.Cached != 1 {
			t.Errorf("%d hits, %d misses, %d cached", s.CacheHits, s.CacheMisses, s.Cached)
		}
		time.Sleep(time.Minute + auth.DefaultClockSkew + time.Second)
		wantReason(t, a, token, auth.ReasonExpired)
		if s := a.Stats(); s.Cached != 0 {
			t.Errorf("%d cached, want none", s.Cached)
		}
	})
}

func TestRememberedJWTsAreBounded(t *testing.T) {
	k := newKey(t, "1", jose.EdDSA)
	i := newIssuer(t, k)
	a := start(t, auth.Options{OIDCFile: i.file(t, `prefix: ""`), CachedTokens: 10})
	for n := range 100 {
		wantName(t, a, bearer(k.sign(t, i.claims("sub", fmt.Sprint(n)))), "oidc:"+fmt.Sprint(n))
	}
	if n := a.Stats().Cached; n > 10 {
		t.Errorf("%d are remembered, want at most 10", n)
	}
	var groups []string // whose prefix makes them larger than the token
	for n := range 1000 {
		groups = append(groups, fmt.Sprint(n))
	}
	a = start(t, auth.Options{OIDCFile: i.file(t, `prefix: "a prefix of 30 characters, or s"`, "groupsClaim: groups"), CachedTokens: 100})
	for n := range 100 {
		_, err := a.Authenticate(t.Context(), bearer(k.sign(t, i.claims("sub", fmt.Sprint(n), "groups", groups))))
		fatal.If(t, err)
	}
	if n := a.Stats().Cached; n == 0 || n > 10 {
		t.Errorf("%d of 38 KB are remembered, want some, and 10 at most", n)
	}
}

func TestNoCallerWaitsLongerThanItWants(t *testing.T) {
	k := newKey(t, "1", jose.EdDSA)
	block := make(chan struct{})
	server := quietServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer server.Close()
	defer close(block)
	i := &issuer{Server: server}
	a := start(t, auth.Options{OIDCFile: i.file(t)})
	ctx, cancel := contextUntil(t, 20*time.Millisecond)
	defer cancel()
	_, err := a.Authenticate(ctx, bearer(k.sign(t, i.claims())))
	if auth.ReasonOf(err) != auth.ReasonIssuerUnreachable {
		t.Errorf("got %v", err)
	}
}

func TestIssuersThatAreNotWhatTheySay(t *testing.T) {
	k := newKey(t, "1", jose.EdDSA)
	tests := []struct {
		name     string
		document func(i *issuer) map[string]any
		want     string
	}{
		{"another issuer's document", func(i *issuer) map[string]any {
			return map[string]any{"issuer": "https://other.example", "jwks_uri": i.URL + "/keys"}
		}, "did not match"},
		{"keys over plain http", func(*issuer) map[string]any { return map[string]any{"jwks_uri": "http://keys.example/"} }, "jwks_uri must be an https URL"},
		{"no keys", func(*issuer) map[string]any { return map[string]any{} }, "jwks_uri must be a URL"},
		{"keys elsewhere that are not there", func(i *issuer) map[string]any { return map[string]any{"jwks_uri": i.URL + "/nowhere"} }, "404"},
		{"keys that are none", func(i *issuer) map[string]any {
			return map[string]any{"jwks_uri": i.URL + "/.well-known/openid-configuration"}
		}, "none of 0 keys"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := newIssuer(t, k)
			document := tt.document(i)
			if document["issuer"] == nil {
				document["issuer"] = i.URL
			}
			i.serves(document)
			a := start(t, auth.Options{OIDCFile: i.file(t)})
			failure := refusal(t, a, bearer(k.sign(t, i.claims())), auth.ReasonIssuerUnreachable)
			if !strings.Contains(fmt.Sprint(failure.Detail), tt.want) {
				t.Errorf("got %v, want %s", failure.Detail, tt.want)
			}
		})
	}
	t.Run("a server that is not trusted", func(t *testing.T) {
		i := newIssuer(t, k)
		a := start(t, auth.Options{OIDCFile: write(t, "oidc.yaml", "issuers: [{issuer: "+i.URL+", audiences: [setpoint]}]")})
		failure := refusal(t, a, bearer(k.sign(t, i.claims())), auth.ReasonIssuerUnreachable)
		if !strings.Contains(fmt.Sprint(failure.Detail), "certificate") {
			t.Errorf("got %v", failure.Detail)
		}
	})
	t.Run("an answer without end", func(t *testing.T) {
		var written atomic.Int64
		server := quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				n, _ := w.Write(bytes.Repeat([]byte(" "), 1<<16))
				written.Add(int64(n))
			}
		}))
		defer server.Close()
		i := &issuer{Server: server}
		a := start(t, auth.Options{OIDCFile: i.file(t)})
		failure := refusal(t, a, bearer(k.sign(t, i.claims())), auth.ReasonIssuerUnreachable)
		if !strings.Contains(fmt.Sprint(failure.Detail), "longer than 1048576 bytes") {
			t.Errorf("got %v", failure.Detail)
		}
		if n := written.Load(); n > 64<<20 { // buffers contain more than was read
			t.Errorf("%d bytes were sent", n)
		}
	})
	t.Run("keys that are too long", func(t *testing.T) {
		i := newIssuer(t, k)
		i.publishToo(strings.Repeat("x", 1<<20))
		a := start(t, auth.Options{OIDCFile: i.file(t)})
		failure := refusal(t, a, bearer(k.sign(t, i.claims())), auth.ReasonIssuerUnreachable)
		if !strings.Contains(fmt.Sprint(failure.Detail), "keys: the answer is longer than 1048576 bytes") {
			t.Errorf("got %v", failure.Detail)
		}
	})
	t.Run("a redirection to plain http", func(t *testing.T) {
		server := quietServer(http.RedirectHandler("http://keys.example/", http.StatusFound))
		defer server.Close()
		i := &issuer{Server: server}
		a := start(t, auth.Options{OIDCFile: i.file(t)})
		failure := refusal(t, a, bearer(k.sign(t, i.claims())), auth.ReasonIssuerUnreachable)
		if !strings.Contains(fmt.Sprint(failure.Detail), "redirected: must be an https URL") {
			t.Errorf("got %v", failure.Detail)
		}
	})
}

func TestIssuersFileReloads(t *testing.T) {
	k := newKey(t, "1", jose.EdDSA)
	i, j := newIssuer(t, k), newIssuer(t, k)
	one := i.entry(t, `prefix: "i:"`)
	both := one + j.entry(t, `prefix: "j:"`)
	file := write(t, "oidc.yaml", "issuers:\n"+one)
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{OIDCFile: file})
		wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:i:alice")
		wantReason(t, a, bearer(k.sign(t, j.claims())), auth.ReasonWrongIssuer)
		fetches := i.fetches.Load()

		rewrite(t, file, "issuers:\n"+both)
		fatal.If(t, a.Reload())
		wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:i:alice")
		remembered := bearer(k.sign(t, j.claims()))
		wantName(t, a, remembered, "oidc:j:alice")
		if n := i.fetches.Load() - fetches; n != 0 {
			t.Errorf("the keys of an issuer that did not change were fetched again")
		}
		i.setDown(true) // another setting than those for fetching its keys leaves them what they are
		rewrite(t, file, "issuers:\n"+strings.Replace(both, `"i:"`, `"k:"`, 1))
		fatal.If(t, a.Reload())
		wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:k:alice")
		i.setDown(false)

		rewrite(t, file, "issuers:\n"+one)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantReason(t, a, remembered, auth.ReasonWrongIssuer)
		fetches = j.fetches.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := j.fetches.Load() - fetches; n != 0 {
			t.Errorf("an issuer that is gone was asked %d times", n)
		}

		rewrite(t, file, "issuers: [{}]\n")
		if err := a.Reload(); err == nil || !strings.Contains(err.Error(), "oidc.yaml:1: issuers[0]: issuer is missing") {
			t.Errorf("got %v", err)
		}
		wantName(t, a, bearer(k.sign(t, i.claims())), "oidc:i:alice")
	})
}

// TestCloseWaits checks that nothing is reported after Close has returned.
func TestCloseWaits(t *testing.T) {
	i := newIssuer(t, newKey(t, "1", jose.EdDSA))
	file := i.file(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a, err := auth.New(auth.Options{OIDCFile: file, OnIssuer: func(string, error) { <-release }})
		fatal.If(t, err)
		time.Sleep(time.Second)
		var closed atomic.Bool
		go func() {
			a.Close()
			closed.Store(true)
		}()
		synctest.Wait()
		if closed.Load() {
			t.Error("closed, and somebody is still told")
		}
		close(release)
		synctest.Wait()
		if !closed.Load() {
			t.Error("not closed")
		}
	})
}

func TestPrefixesOfIssuers(t *testing.T) {
	tests := []struct {
		first, second string
		right         bool
	}{
		{"a:", "b:", true}, {"a:", "a", false}, {"a", "a:", false}, {"a", "a", false}, {"", "a", false}, {"a", "", false},
	}
	for _, tt := range tests {
		file := write(t, "oidc.yaml", fmt.Sprintf(`issuers:
  - {issuer: "https://127.0.0.1:1", audiences: [x], prefix: %q}
  - {issuer: "https://127.0.0.1:2", audiences: [x], prefix: %q}
`, tt.first, tt.second))
		a, err := auth.New(auth.Options{OIDCFile: file})
		if err == nil {
			a.Close()
		}
		if (err == nil) != tt.right {
			t.Errorf("%q and %q: %v", tt.first, tt.second, err)
		}
	}
}

func TestIssuersFileProblems(t *testing.T) {
	folder := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(folder, "empty.pem"), nil, 0o600))
	path := filepath.Join(folder, "oidc.yaml")
	rewrite(t, path, `issuers:
  - issuer: http://login.example.com
    audiences: []
    algorithms: [RS256, HS256, none]
    clockSkew: 1h
    caFile: empty.pem
    jwksUri: https://x
  - issuer: https://user:sesame@a.example
    audience: [setpoint]
    prefix: "x\n"
  - issuer: https://b.example
    audiences: [setpoint]
    prefix: ""
  - issuer: https://b.example
    audiences: [setpoint]
    caFile: nowhere.pem
    insecure: "yes"
  - issuer: http://127.0.0.1:5556/dex
    audiences: [setpoint]
    prefix: dex
  - issuer: http://dex:5556
    audiences: [setpoint]
    prefix: x
    insecure: true
`)
	_, err := auth.New(auth.Options{OIDCFile: path})
	if err == nil {
		t.Fatal("accepted")
	}
	got := strings.Split(strings.ReplaceAll(err.Error(), folder+"/", ""), "\n")
	want := []string{
		`oidc.yaml:3: issuers[0].audiences: must have at least one element`,
		`oidc.yaml:4: issuers[0].algorithms[1]: must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA (asymmetric algorithms only)`,
		`oidc.yaml:4: issuers[0].algorithms[2]: must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA (asymmetric algorithms only)`,
		`oidc.yaml:5: issuers[0].clockSkew: is 1h, must be between 0s and 10m`,
		`oidc.yaml:6: issuers[0].caFile: empty.pem must be certificates in PEM: no PEM block "CERTIFICATE"`,
		`oidc.yaml:7: issuers[0]: unknown key jwksUri; known are issuer, audiences, usernameClaim, groupsClaim, prefix, algorithms, clockSkew, caFile, insecure`,
		`oidc.yaml:2: issuers[0]: issuer: must be an https URL: over plain http anybody between could put in keys (insecure: true allows it)`,
		`oidc.yaml:9: issuers[1]: unknown key audience, did you mean audiences?`,
		`oidc.yaml:10: issuers[1].prefix: must be printable text of at most 1024 bytes`,
		`oidc.yaml:8: issuers[1]: audiences is missing`,
		`oidc.yaml:8: issuers[1]: issuer: must be a URL without user, query and fragment`,
		`oidc.yaml:11: issuers[2]: prefix "" and prefix "http://login.example.com#" of http://login.example.com: neither may begin with the other, or callers of one issuer could pass for those of the other`,
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range []string{"oidc.yaml:14: issuers[3]: is a duplicate: https://b.example", "oidc.yaml:16: issuers[3].caFile: open nowhere.pem: no such file or directory", "oidc.yaml:17: issuers[3].insecure: must be true or false, is a string"} {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if strings.Contains(line, "issuers[4]: issuer") || strings.Contains(line, "issuers[5]: issuer") {
			t.Errorf("http is allowed to loopback, and where it is said so: %s", line)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}
