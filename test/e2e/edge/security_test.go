//go:build linux

package edge

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
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
func secured(t *testing.T, more ...string) (p *service.Instance, f folder, red, blue *caller) {
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
	kit.Must(t, errors.Join(revoked.recommend(requestFor(targetIn("red"))), ask(stream), ask(otherStream)))
	f.write("tokens.yaml", []byte("tokens:\n"+staysEntry))
	refused := func(what string, call func() error) time.Duration {
		return kit.Eventually(t, revokedWithin, what+" refused", func() error {
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
	kit.Must(t, ask(otherStream))
	t.Logf("refused %v after the file was replaced", took.Round(time.Millisecond))
}

// Policies are read again; one with a mistake is not used.
func TestThePolicyFollowsItsFile(t *testing.T) {
	t.Parallel()
	p, f, red, _ := secured(t)
	red.expect(codes.PermissionDenied, targetIn("green"), "before")
	wait := func(target string, want codes.Code) {
		t.Helper()
		kit.Eventually(t, revokedWithin, fmt.Sprintf("%s for %s", want, target), func() error {
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
	kit.Eventually(t, revokedWithin, "a line about the mistake", func() error {
		if !p.Logged(`"level":"error"`, "reload failed, keeping the previous contents", "grants[0].verbs[1]", "policy.yaml:2") {
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
func serial(p *service.Instance, address string, config *tls.Config) (int64, error) {
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
		_, err := open.recommendations.Recommend(ctx, requestFor(targetIn("red")), grpc.Peer(&met))
		kit.Must(t, err)
		info, ok := met.AuthInfo.(credentials.TLSInfo)
		if !ok || info.State.PeerCertificates[0].SerialNumber.Cmp(first.Leaf.SerialNumber) != 0 {
			t.Errorf("the open connection was replaced")
		}
		item, broken := stream.ask(requestFor(targetIn("red")))
		kit.Must(t, errors.Join(item, broken))
	}
	goesOn()
	f.writePair(second)
	for _, address := range []string{p.GRPCAddr(), p.RESTAddr()} {
		took := kit.Eventually(t, certificatesWithin, "the new certificate on "+address, func() error {
			if got, err := serial(p, address, config); err != nil || got != second.Leaf.SerialNumber.Int64() {
				return fmt.Errorf("got %d, %w", got, err)
			}
			return nil
		})
		t.Logf("new connections meet it %v after", took.Round(time.Millisecond))
	}
	goesOn()
	f.write("tls.key", first.KeyPEM())
	kit.Eventually(t, certificatesWithin, "a line about files that do not fit", func() error {
		if !p.Logged(`"level":"error"`, "certificate reload failed", "private key does not match") {
			return errors.New("not logged")
		}
		return nil
	})
	if got, err := serial(p, p.GRPCAddr(), config); err != nil || got != second.Leaf.SerialNumber.Int64() {
		t.Errorf("after a key that does not fit: got %d, %v", got, err)
	}
	goesOn()
}

const agents = "spiffe://example.com/ns/shop/sa/"

// withClientCertificates starts a service that wants certificates of the CA.
func withClientCertificates(t *testing.T, clients *authority, more ...string) (p *service.Instance, f folder, config func(...*testpki.Pair) *tls.Config) {
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
	took := kit.Eventually(t, certificatesWithin, "the revocation", func() error {
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

	kit.Eventually(t, certificatesWithin, "the expiry", func() error {
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
