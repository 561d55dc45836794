//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// issuer is an OpenID Connect issuer, which may hang.
type issuer struct {
	server  *httptest.Server
	key     *ecdsa.PrivateKey
	hanging atomic.Bool
	release chan struct{}
	asked   atomic.Int64
}

// trusts has the service trust an issuer, beside the honest caller's token.
func trusts(i **issuer) func(*site) error {
	return func(s *site) error {
		if err := asksWho()(s); err != nil {
			return err
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		made := &issuer{key: key, release: make(chan struct{})}
		made.server = httptest.NewUnstartedServer(made)
		made.server.Config.ErrorLog = log.New(io.Discard, "", 0)
		made.server.StartTLS()
		s.ends = append(s.ends, func() { close(made.release); made.server.CloseClientConnections(); made.server.Close() })
		ca, err := s.write("issuer.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.server.Certificate().Raw}))
		if err != nil {
			return err
		}
		path, err := s.write("oidc.yaml", fmt.Appendf(nil, "issuers:\n  - {issuer: %q, audiences: [setpoint], prefix: \"corp:\", groupsClaim: groups, caFile: %q}\n", made.server.URL, ca))
		s.flags = append(s.flags, "--auth-oidc-file="+path)
		*i = made
		return err
	}
}

// ServeHTTP implements http.Handler.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	if i.hanging.Load() {
		select {
		case <-i.release:
		case <-r.Context().Done():
		}
		return
	}
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}}
	default:
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "first", Algorithm: string(jose.ES256), Use: "sig"}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// token signs a token under a key id.
func (i *issuer) token(id, subject string, groups []string) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", id))
	if err != nil {
		return "", err
	}
	claims := jwt.Claims{Issuer: i.server.URL, Subject: subject, Audience: jwt.Audience{"setpoint"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}
	return jwt.Signed(signer).Claims(claims).Claims(map[string]any{"groups": groups}).Serialize()
}

// unknownAttacks use invalid credentials.
func unknownAttacks() []*attack {
	var i *issuer
	unknown := func(n int) func() string {
		var next atomic.Int64
		return func() string {
			text, err := i.token(fmt.Sprint("unknown-", next.Add(1)%int64(n)), "mallory", nil)
			if err != nil {
				return "x"
			}
			return text
		}
	}
	flood := bounds{memory: 320, processor: 30 * time.Second, limit: 25 * time.Second}
	nothing := bounds{memory: 256, processor: 15 * time.Second, limit: 3 * time.Minute, worst: 5 * time.Second}
	// Fewer connections than are tried.
	strangers := func(s *site) error {
		s.flags = append(s.flags, "--max-connections=300")
		return asksWho()(s)
	}
	// Keys are fetched at intervals only: no attacker waits before that.
	hang := func(ctx context.Context) {
		i.hanging.Store(true)
		pause(ctx, 11*time.Second)
	}
	return []*attack{
		{name: "unknown-keys", item: "3", about: "10,000 calls at once with unknown key ids while the issuer hangs; honest callers have file tokens", prepare: trusts(&i), steps: []step{
			{name: "issuer-answers", bounds: flood, run: func(ctx context.Context, s *scene) error {
				i.hanging.Store(false)
				before := i.asked.Load()
				err := credentialed(ctx, s, 2000, 5*time.Second, unknown(1000))
				if asked := i.asked.Load() - before; err == nil && asked > 6 {
					return fmt.Errorf("the issuer was asked %d times in 5 s", asked)
				}
				return err
			}},
			{name: "issuer-hangs", short: true, bounds: flood, run: func(ctx context.Context, s *scene) error {
				hang(ctx)
				return credentialed(ctx, s, 10_000, 6*time.Second, unknown(1000))
			}},
			{name: "issuer-hangs-rest", bounds: flood, run: func(ctx context.Context, s *scene) error {
				hang(ctx)
				return credentialedREST(ctx, s, 2000, 6*time.Second, unknown(1000))
			}},
		}},
		{name: "bad-tokens", about: "calls with tokens that are random, unsigned, of 16 KiB, or of another algorithm, as fast as can be", prepare: trusts(&i), steps: []step{
			{name: "grpc", short: true, bounds: bounds{memory: 256, processor: 8 * time.Second, limit: 6 * time.Second}, run: func(ctx context.Context, s *scene) error {
				var n atomic.Int64
				b64 := base64.RawURLEncoding.EncodeToString
				return credentialed(ctx, s, 100, 3*time.Second, func() string {
					k := n.Add(1)
					switch k % 5 {
					case 0:
						return "sp_" + fmt.Sprint(k)
					case 1:
						return b64([]byte(`{"alg":"none"}`)) + "." + b64(fmt.Appendf(nil, `{"iss":%q,"sub":"a","aud":"setpoint","exp":9999999999}`, i.server.URL)) + "."
					case 2:
						return strings.Repeat("a", 12<<10)
					case 3:
						return b64([]byte(`{"alg":"HS256","kid":"first"}`)) + "." + b64([]byte(strings.Repeat("[", 8000))) + ".AAAA"
					default:
						return b64([]byte(`{"alg":"ES256","kid":"`+strings.Repeat("k", 6000)+`"}`)) + "." + b64(fmt.Appendf(nil, `{"iss":%q}`, i.server.URL)) + ".AAAA"
					}
				})
			}},
		}},
		{name: "strangers", about: "callers without credentials, or with a wrong token, that take what others need: calls, streams, bodies, connections", prepare: strangers, steps: []step{
			{name: "calls", short: true, bounds: nothing, run: lasting(2*attackTime, anything, begunCalls(recommendMethod))},
			{name: "calls-with-a-token", short: true, bounds: nothing, run: lasting(2*attackTime, anything, begunCalls(recommendMethod, "authorization", "Bearer sp_unknown"))},
			{name: "streams", short: true, bounds: nothing, run: lasting(2*attackTime, anything, begunCalls(streamMethod))},
			{name: "slow-bodies", short: true, bounds: nothing, run: slowBodies(5000)},
			{name: "withheld-rest", short: true, bounds: nothing, run: connections(60, onREST, unfinishedBody(), "", 4*time.Second)},
			{name: "withheld-grpc", short: true, bounds: nothing, run: withheld(recommendMethod, 60, 1, 15<<20, false)},
			{name: "health", short: true, bounds: nothing, run: probedHealth},
		}},
		{name: "groups", item: "7", about: "a caller of 250 groups, over gRPC and REST", prepare: trusts(&i), steps: []step{{name: "both", short: true, run: func(ctx context.Context, s *scene) error { return manyGroups(ctx, s, i) }}}},
	}
}

// credentialed keeps as many calls in flight, each with another token, for some time.
func credentialed(ctx context.Context, s *scene, n int, during time.Duration, token func() string) error {
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	conns := make([]*grpc.ClientConn, 16)
	for i := range conns {
		var err error
		if conns[i], err = s.dial(); err != nil {
			return err
		}
		defer conns[i].Close()
	}
	data := base().wire
	var callers sync.WaitGroup
	for k := range n {
		callers.Go(func() {
			for ctx.Err() == nil {
				err := conns[k%len(conns)].Invoke(withToken(ctx, token()), recommendMethod, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
				s.sent(1, len(data))
				s.met.Add(codeOf(err))
				if err == nil {
					return
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	callers.Wait()
	return nil
}

func credentialedREST(ctx context.Context, s *scene, n int, during time.Duration, token func() string) error {
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			for ctx.Err() == nil {
				sent, err := post(ctx, s.site, "/v1/"+hostileTarget+":recommend", base().json, "Authorization", "Bearer "+token())
				s.sent(1, sent)
				s.met.Add(codeOf(err))
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	callers.Wait()
	return nil
}

func manyGroups(ctx context.Context, s *scene, i *issuer) error {
	i.hanging.Store(false)
	var groups []string
	for k := range 250 {
		groups = append(groups, fmt.Sprintf("team-%03d-of-the-corporation", k))
	}
	text, err := i.token("first", "alice", groups)
	if err != nil {
		return err
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	overGRPC := conn.Invoke(withToken(ctx, text), recommendMethod, &hostile.Raw{Data: base().wire}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
	if strings.Contains(status.Convert(overGRPC).Message(), "header") {
		overGRPC = status.Error(codes.ResourceExhausted, "the token is larger than headers may be")
	}
	_, overREST := post(ctx, s.site, "/v1/"+hostileTarget+":recommend", base().json, "Authorization", "Bearer "+text)
	s.met.Add("grpc " + codeOf(overGRPC))
	s.met.Add("rest " + codeOf(overREST))
	s.sent(2, len(text))
	// A query parameter selects the slow path.
	_, slowPath := post(ctx, s.site, "/v1/"+hostileTarget+":recommend?dryRun=true", base().json, "Authorization", "Bearer "+text)
	s.met.Add("rest, slow path " + codeOf(slowPath))
	if status.Code(overGRPC) != status.Code(overREST) || status.Code(slowPath) == codes.Internal || status.Code(slowPath) == codes.Unknown {
		return fmt.Errorf("over gRPC %s; over REST %s; with a parameter %s", codeOf(overGRPC), codeOf(overREST), codeOf(slowPath))
	}
	return nil
}
