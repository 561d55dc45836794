//go:build linux

package edge

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// Bounds of how long changes of files take: a look every 5 or 10 s, as the documents state,
// and much time for a busy machine, for how often is looked is tested where that is done.
const (
	revokedWithin      = 45 * time.Second
	certificatesWithin = 60 * time.Second
)

// newToken has the program make a token, and returns it with its entry for the file.
func newToken(t *testing.T, identity string) (token, entry string) {
	t.Helper()
	code, token, entry := run(t, nil, "token", identity)
	if code != 0 || !strings.HasPrefix(token, "sp_") {
		t.Fatalf("setpoint token: exit code %d, %q", code, entry)
	}
	return strings.TrimSpace(token), entry
}

// Each has a cluster, in which it may do everything.
const ownClusters = `grants:
  - {identities: ["token:red"], clusters: [red], verbs: ["*"]}
  - {identities: ["token:blue"], clusters: [blue], verbs: ["*"]}
`

// secured is a service with TLS and two callers, who share connections.
func secured(t *testing.T, more ...string) (p *instance, f folder, red, blue *caller) {
	t.Helper()
	f = newFolder(t)
	ca := newAuthority("servers")
	redToken, redEntry := newToken(t, "red")
	blueToken, blueEntry := newToken(t, "blue")
	flags := append(f.writePair(ca.issueNow("")),
		"--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+redEntry+blueEntry)),
		"--policy-file="+f.write("policy.yaml", []byte(ownClusters)))
	p = start(t, append(flags, more...)...)
	red = newCaller(t, p, &tls.Config{RootCAs: ca.Pool()}, redToken)
	return p, f, red, red.with(blueToken)
}

// An identity has no permission in the other's cluster, in any way.
func TestAnIdentityHasItsClusterOnly(t *testing.T) {
	t.Parallel()
	_, _, red, blue := secured(t)
	red.expect(codes.OK, targetIn("red"), "the own cluster")
	blue.expect(codes.OK, targetIn("blue"), "the own cluster")
	blue.expect(codes.PermissionDenied, targetIn("red"), "the other's cluster")
	red.with("").expect(codes.Unauthenticated, targetIn("red"), "without a token")
	red.with("sp_unknown").expect(codes.Unauthenticated, targetIn("red"), "an unknown token")

	before := stateOf(t, red, targetIn("red"))
	ctx, cancel := blue.context()
	defer cancel()
	t.Run("a batch fails by item", func(t *testing.T) {
		answer, err := blue.recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{
			requestFor(targetIn("blue")), requestFor(targetIn("red")), requestFor(targetIn("blue")),
		}})
		must(t, err)
		var got []codes.Code
		for _, result := range answer.GetResults() {
			got = append(got, status.Code(status.ErrorProto(result.GetError())))
		}
		if want := []codes.Code{codes.OK, codes.PermissionDenied, codes.OK}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		overREST, err := blue.call(http.MethodPost, "/v1/targets:batchRecommend", batchBody(t, targetIn("red"), targetIn("blue")))
		must(t, err)
		if n := strings.Count(strings.ReplaceAll(string(overREST), " ", ""), `"code":7`); n != 1 {
			t.Errorf("over REST %d of 2 are refused: %s", n, overREST)
		}
	})
	t.Run("a stream fails by item", func(t *testing.T) {
		stream := blue.talk()
		for _, tt := range []struct {
			cluster string
			want    codes.Code
		}{{"blue", codes.OK}, {"red", codes.PermissionDenied}, {"blue", codes.OK}} {
			item, broken := stream.ask(requestFor(targetIn(tt.cluster)))
			must(t, broken)
			if status.Code(item) != tt.want {
				t.Errorf("%s: got %v, want %v", tt.cluster, item, tt.want)
			}
		}
	})
	t.Run("nothing else works either", func(t *testing.T) {
		_, report := blue.recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: targetIn("red"), RecommendationId: strings.Repeat("0", 32), Outcome: "APPLIED"})
		_, get := blue.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: targetIn("red")})
		_, remove := blue.targets.DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: targetIn("red")})
		_, decisions := blue.targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: targetIn("red")})
		_, list := blue.targets.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: "clusters/red/namespaces/-"})
		_, restGet := blue.call(http.MethodGet, "/v1/"+targetIn("red"), nil)
		_, restDelete := blue.call(http.MethodDelete, "/v1/"+targetIn("red"), nil)
		for i, err := range []error{report, get, remove, decisions, list, restGet, restDelete} {
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("call %d: got %v", i, err)
			}
		}
		all, err := blue.targets.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
		must(t, err)
		for _, target := range all.GetTargets() {
			if target.GetName() != targetIn("blue") {
				t.Errorf("the list shows %s", target.GetName())
			}
		}
	})
	if after := stateOf(t, red, targetIn("red")); after != before {
		t.Errorf("the other's target was %s and is %s", before, after)
	}
}

// stateOf returns the record of a target.
func stateOf(t *testing.T, c *caller, target string) string {
	t.Helper()
	text, err := c.call(http.MethodGet, "/v1/"+target, nil)
	must(t, err)
	return string(text)
}

func batchBody(t *testing.T, targets ...string) []byte {
	t.Helper()
	batch := &setpointv1.BatchRecommendRequest{}
	for _, target := range targets {
		batch.Requests = append(batch.Requests, requestFor(target))
	}
	return jsonOf(t, batch)
}

// A token's entry is removed while it is used, on open connections and streams.
func TestARevokedTokenIsRefusedSoon(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	goes, goesEntry := newToken(t, "red")
	stays, staysEntry := newToken(t, "blue")
	p := start(t, "--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+goesEntry+staysEntry)))
	revoked := newCaller(t, p, nil, goes)
	other := revoked.with(stays)
	stream, otherStream := revoked.talk(), other.talk()
	ask := func(s *talk) error {
		item, broken := s.ask(requestFor(targetIn("red")))
		return errors.Join(item, broken)
	}
	must(t, errors.Join(revoked.recommend(requestFor(targetIn("red"))), ask(stream), ask(otherStream)))
	f.write("tokens.yaml", []byte("tokens:\n"+staysEntry))
	refused := func(what string, call func() error) time.Duration {
		return eventually(t, revokedWithin, what+" refused", func() error {
			if code := other.both(targetIn("red")); code != codes.OK {
				t.Fatalf("the other token: %v", code)
			}
			if err := call(); status.Code(err) != codes.Unauthenticated {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})
	}
	took := refused("gRPC", func() error { return revoked.recommend(requestFor(targetIn("red"))) })
	refused("REST", func() error { return revoked.recommendREST(requestFor(targetIn("red"))) })
	refused("an open stream", func() error {
		item, broken := stream.ask(requestFor(targetIn("red")))
		if broken != nil {
			return broken
		}
		return item
	})
	must(t, ask(otherStream))
	t.Logf("refused %v after the file was replaced", took.Round(time.Millisecond))
}

// Policies are read again; one with a mistake is not used.
func TestThePolicyFollowsItsFile(t *testing.T) {
	t.Parallel()
	p, f, red, _ := secured(t)
	red.expect(codes.PermissionDenied, targetIn("green"), "before")
	wait := func(target string, want codes.Code) {
		t.Helper()
		eventually(t, revokedWithin, fmt.Sprintf("%s for %s", want, target), func() error {
			if got := red.both(target); got != want {
				return fmt.Errorf("got %v", got)
			}
			return nil
		})
	}
	f.write("policy.yaml", []byte("grants:\n  - {identities: [\"token:red\"], clusters: [green], verbs: [recommend]}\n"))
	wait(targetIn("green"), codes.OK)
	red.expect(codes.PermissionDenied, targetIn("red"), "what the new policy does not grant")

	f.write("policy.yaml", []byte("grants:\n  - {identities: [\"token:red\"], clusters: [\"*\"], verbs: [recommend, dance]}\n"))
	eventually(t, revokedWithin, "a line about the mistake", func() error {
		if !p.logged(`"level":"error"`, "reload failed, keeping the previous contents", "grants[0].verbs[1]", "policy.yaml:2") {
			return errors.New("not logged")
		}
		return nil
	})
	red.expect(codes.OK, targetIn("green"), "what the last policy without a mistake grants")
	red.expect(codes.PermissionDenied, targetIn("red"), "what only the wrong policy grants")
	f.write("policy.yaml", []byte(ownClusters))
	wait(targetIn("red"), codes.OK)
}

// serial returns the serial number of the certificate that a new connection meets.
func serial(p *instance, address string, config *tls.Config) (int64, error) {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// The server's certificate is replaced: new connections get the new one, and open ones go on.
// Files that do not fit each other change nothing.
func TestTheCertificateFollowsItsFiles(t *testing.T) {
	t.Parallel()
	f, ca := newFolder(t), newAuthority("servers")
	first, second := ca.issueNow(""), ca.issueNow("")
	token, entry := newToken(t, "red")
	p := start(t, append(f.writePair(first), "--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)))...)
	config := &tls.Config{RootCAs: ca.Pool()}
	open := newCaller(t, p, config, token)
	stream := open.talk()
	goesOn := func() {
		t.Helper()
		ctx, cancel := open.context()
		defer cancel()
		var met peer.Peer
		_, err := open.recommendations.Recommend(ctx, requestFor(targetIn("red")), grpcPeer(&met))
		must(t, err)
		info, ok := met.AuthInfo.(credentials.TLSInfo)
		if !ok || info.State.PeerCertificates[0].SerialNumber.Cmp(first.Leaf.SerialNumber) != 0 {
			t.Errorf("the open connection was replaced")
		}
		item, broken := stream.ask(requestFor(targetIn("red")))
		must(t, errors.Join(item, broken))
	}
	goesOn()
	f.writePair(second)
	for _, address := range []string{p.grpc, p.rest} {
		took := eventually(t, certificatesWithin, "the new certificate on "+address, func() error {
			if got, err := serial(p, address, config); err != nil || got != second.Leaf.SerialNumber.Int64() {
				return fmt.Errorf("got %d, %w", got, err)
			}
			return nil
		})
		t.Logf("new connections meet it %v after", took.Round(time.Millisecond))
	}
	goesOn()
	f.write("tls.key", first.KeyPEM())
	eventually(t, certificatesWithin, "a line about files that do not fit", func() error {
		if !p.logged(`"level":"error"`, "certificate reload failed", "private key does not match") {
			return errors.New("not logged")
		}
		return nil
	})
	if got, err := serial(p, p.grpc, config); err != nil || got != second.Leaf.SerialNumber.Int64() {
		t.Errorf("after a key that does not fit: got %d, %v", got, err)
	}
	goesOn()
}

const agents = "spiffe://example.com/ns/shop/sa/"

// withClientCertificates starts a service that wants certificates of the CA.
func withClientCertificates(t *testing.T, clients *authority, more ...string) (p *instance, f folder, config func(...*testpki.Pair) *tls.Config) {
	t.Helper()
	f = newFolder(t)
	servers := newAuthority("servers")
	flags := append(f.writePair(servers.issueNow("")), "--tls-client-ca-file="+f.write("ca.crt", clients.CertPEM()),
		"--policy-file="+f.write("policy.yaml", fmt.Appendf(nil, "grants:\n  - {identities: [\"certificate:uri:%sred\"], clusters: [red], verbs: [\"*\"]}\n", agents)))
	p = start(t, append(flags, more...)...)
	return p, f, func(shown ...*testpki.Pair) *tls.Config {
		// Sent whether or not the server says that it takes its CA.
		config := &tls.Config{RootCAs: servers.Pool()}
		if len(shown) > 0 {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(shown[0].TLS()), nil }
		}
		return config
	}
}

func TestClientCertificatesAreCredentials(t *testing.T) {
	t.Parallel()
	clients := newAuthority("clients")
	p, _, config := withClientCertificates(t, clients, "--tls-client-auth=require")
	newCaller(t, p, config(clients.issueNow(agents+"red")), "").expect(codes.OK, targetIn("red"), "who is granted it")
	newCaller(t, p, config(clients.issueNow(agents+"red")), "").expect(codes.PermissionDenied, targetIn("blue"), "another cluster")
	newCaller(t, p, config(clients.issueNow(agents+"blue")), "").expect(codes.PermissionDenied, targetIn("red"), "who is granted nothing")
	for _, tt := range []struct {
		name  string
		shown []*testpki.Pair
	}{
		{"no certificate", nil},
		{"an expired one", []*testpki.Pair{clients.issue(agents+"red", time.Now().Add(-time.Hour), time.Now().Add(-time.Minute))}},
		{"one of later", []*testpki.Pair{clients.issue(agents+"red", time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))}},
		{"one of another CA", []*testpki.Pair{newAuthority("clients").issueNow(agents + "red")}},
		{"one for servers", []*testpki.Pair{clients.issueNow("")}},
	} {
		// The handshake fails: for gRPC that is a server that can't be reached.
		newCaller(t, p, config(tt.shown...), "").expect(codes.Unavailable, targetIn("red"), tt.name)
	}
}

// Without a certificate one may come in, but is asked for credentials.
func TestOptionalClientCertificates(t *testing.T) {
	t.Parallel()
	clients := newAuthority("clients")
	p, _, config := withClientCertificates(t, clients)
	newCaller(t, p, config(), "").expect(codes.Unauthenticated, targetIn("red"), "no certificate")
	newCaller(t, p, config(clients.issueNow(agents+"red")), "").expect(codes.OK, targetIn("red"), "a good one")
	newCaller(t, p, config(newAuthority("clients").issueNow(agents+"red")), "").expect(codes.Unavailable, targetIn("red"), "one of another CA")
}

// A certificate expires while its connection is open, and another one is revoked.
func TestClientCertificatesEnd(t *testing.T) {
	t.Parallel()
	clients := newAuthority("clients")
	crl := newFolder(t)
	p, _, config := withClientCertificates(t, clients, "--tls-client-crl-file="+crl.write("ca.crl", clients.revoke()))
	revoked, stays := clients.issueNow(agents+"red"), clients.issueNow(agents+"red")
	open := newCaller(t, p, config(revoked), "")
	open.expect(codes.OK, targetIn("red"), "before")
	short := clients.issue(agents+"red", time.Now().Add(-time.Hour), time.Now().Add(20*time.Second))
	expires := newCaller(t, p, config(short), "")
	expires.expect(codes.OK, targetIn("red"), "before")

	crl.write("ca.crl", clients.revoke(revoked))
	took := eventually(t, certificatesWithin, "the revocation", func() error {
		// It may come into force between the two.
		c := newCaller(t, p, config(revoked), "")
		for _, err := range []error{c.recommend(requestFor(targetIn("red"))), c.recommendREST(requestFor(targetIn("red")))} {
			if status.Code(err) != codes.Unavailable {
				return fmt.Errorf("got %v", err)
			}
		}
		return nil
	})
	t.Logf("refused %v after the revocation", took.Round(time.Millisecond))
	newCaller(t, p, config(stays), "").expect(codes.OK, targetIn("red"), "one that is not revoked")
	open.expect(codes.Unauthenticated, targetIn("red"), "a revoked certificate on a connection that is open")

	eventually(t, certificatesWithin, "the expiry", func() error {
		err := expires.recommend(requestFor(targetIn("red")))
		if status.Code(err) != codes.Unauthenticated || cause(err) != "expired" {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	if err := expires.recommendREST(requestFor(targetIn("red"))); status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.Unavailable {
		t.Errorf("over REST: got %v", err)
	}
}

// A real issuer, over HTTPS, whose keys change.
func TestTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	f, ca := newFolder(t), newAuthority("issuers")
	first, second, stranger := newSigningKey(t, "first"), newSigningKey(t, "second"), newSigningKey(t, "first")
	i, began := newIssuer(t, ca, first), time.Now()
	p := start(t, "--auth-oidc-file="+f.write("oidc.yaml", i.file(f.write("issuer-ca.crt", ca.CertPEM()))),
		"--policy-file="+f.write("policy.yaml", []byte("grants:\n  - {identities: [\"oidc:corp:alice\"], clusters: [red], verbs: [recommend]}\n")))
	c := newCaller(t, p, nil, "")
	alice := i.token(first, "alice")
	c.with(alice).expect(codes.OK, targetIn("red"), "who is granted it")
	c.with(alice).expect(codes.PermissionDenied, targetIn("blue"), "another cluster")
	c.with(i.token(first, "bob")).expect(codes.PermissionDenied, targetIn("red"), "who is granted nothing")

	now := time.Now()
	const refetchedAfter = 10 * time.Second // at the earliest, says the package that does it
	public, err := x509.MarshalPKIXPublicKey(first.private.Public())
	must(t, err)
	claims := jwt.Claims{Issuer: i.server.URL, Subject: "alice", Audience: jwt.Audience{"setpoint"}, Expiry: jwt.NewNumericDate(now.Add(time.Hour))}
	parts := strings.Split(alice, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	for _, tt := range []struct{ name, token, cause string }{
		{"expired", i.token(first, "alice", func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(now.Add(-time.Minute)) }), "expired"},
		{"of later", i.token(first, "alice", func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(now.Add(5 * time.Minute)) }), "not_yet_valid"},
		{"without an expiry", i.token(first, "alice", func(c *jwt.Claims) { c.Expiry = nil }), "wrong_claims"},
		{"for others", i.token(first, "alice", func(c *jwt.Claims) { c.Audience = jwt.Audience{"billing"} }), "wrong_audience"},
		{"of another issuer", i.token(first, "alice", func(c *jwt.Claims) { c.Issuer = "https://elsewhere.example" }), "wrong_issuer"},
		{"by another key of the same id", i.token(stranger, "alice"), "wrong_key"},
		{"by a key that is not published", i.token(second, "alice"), "wrong_key"},
		{"by the public key as a secret", i.sign(jose.HS256, public, "first", claims), "wrong_algorithm"},
		{"unsigned", unsigned, "wrong_algorithm"},
		{"with the signature of another", parts[0] + "." + strings.Split(i.token(first, "bob"), ".")[1] + "." + parts[2], "wrong_key"},
	} {
		c.with(tt.token).expect(codes.Unauthenticated, targetIn("red"), tt.name)
		if got := cause(c.with(tt.token).recommend(requestFor(targetIn("red")))); got != tt.cause {
			t.Errorf("%s: the cause is %q, want %q", tt.name, got, tt.cause)
		}
	}
	if n, took := i.fetches(), time.Since(began); n > 3+int(took/refetchedAfter) {
		t.Errorf("keys were asked for %d times in %v: tokens that are wrong must not cause that", n, took)
	}

	i.publish(first, second)
	took := eventually(t, certificatesWithin, "a new key", func() error { return c.with(i.token(second, "alice")).recommend(requestFor(targetIn("red"))) })
	t.Logf("a token by a new key is taken %v after it was published", took.Round(time.Millisecond))
	c.with(alice).expect(codes.OK, targetIn("red"), "the first key, which is still published")

	// Withdrawn keys end when keys are fetched, which a token by a third key causes.
	third := newSigningKey(t, "third")
	i.publish(second, third)
	eventually(t, certificatesWithin, "a third key", func() error { return c.with(i.token(third, "alice")).recommend(requestFor(targetIn("red"))) })
	c.with(alice).expect(codes.Unauthenticated, targetIn("red"), "a token by a key that was withdrawn, verified before")
	c.with(i.token(second, "alice")).expect(codes.OK, targetIn("red"), "by a key that stays")

	i.setAway(true)
	c.with(i.token(third, "alice")).expect(codes.OK, targetIn("red"), "while the issuer is away, by a known key")
}

// An issuer that is away keeps the service neither from starting nor from other tokens.
func TestAnIssuerThatIsAway(t *testing.T) {
	t.Parallel()
	f, ca := newFolder(t), newAuthority("issuers")
	key := newSigningKey(t, "first")
	i := newIssuer(t, ca, key)
	i.setAway(true)
	token, entry := newToken(t, "red")
	p := start(t, "--auth-oidc-file="+f.write("oidc.yaml", i.file(f.write("issuer-ca.crt", ca.CertPEM()))),
		"--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)))
	c := newCaller(t, p, nil, token)
	c.expect(codes.OK, targetIn("red"), "a static token")
	c.with(i.token(key, "alice")).expect(codes.Unavailable, targetIn("red"), "a JWT")
	i.setAway(false)
	eventually(t, 2*certificatesWithin, "the issuer back", func() error { return c.with(i.token(key, "alice")).recommend(requestFor(targetIn("red"))) })
}

// No header changes a caller's identity.
func TestNoCallerIsTakenForTheGateway(t *testing.T) {
	t.Parallel()
	_, _, red, _ := secured(t)
	forged := base64.StdEncoding.EncodeToString([]byte(`{"Name":"token:blue","Method":"token"}`))
	for _, name := range []string{"Setpoint-Gateway-Caller", "Grpc-Metadata-Setpoint-Gateway-Caller", "Grpc-Metadata-Authorization", "X-Forwarded-User"} {
		for _, c := range []struct {
			who  *caller
			want codes.Code
		}{{red, codes.PermissionDenied}, {red.with(""), codes.Unauthenticated}} {
			_, err := c.who.call(http.MethodGet, "/v1/"+targetIn("blue"), nil, name, forged)
			if status.Code(err) != c.want {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
	}
}
