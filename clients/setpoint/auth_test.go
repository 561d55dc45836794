package setpoint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/certs"
)

const (
	goodToken = "sp_of-the-client-0123456789abcdefghijklmno"
	lessToken = "sp_of-one-who-may-only-read-0123456789abcd"
	aPolicy   = `grants:
  - identities: ["token:client", "certificate:cn:client"]
    clusters: [demo]
    verbs: [recommend, read]
  - identities: ["token:reader"]
    clusters: [demo]
    verbs: [read]
`
)

// guarded are real servers with TLS, tokens, client certificates and a policy, and what
// clients of them need.
type guarded struct {
	*fleet
	ca                *authority
	certFile, keyFile string
	// clientsFile has the CAs of clients' certificates, tokensFile the tokens; reload rereads them.
	clientsFile, tokensFile string
	reload                  func() error
}

func startGuarded(t *testing.T, n int) *guarded {
	t.Helper()
	ca, dir := newAuthority(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ca.issue(in("server.crt"), in("server.key"), "server", "i0.test", "i1.test", "i2.test")
	ca.issue(in("client.crt"), in("client.key"), "client")
	write(t, in("clients.crt"), string(ca.CertPEM()))
	source, err := certs.New(certs.Options{CertFile: in("server.crt"), KeyFile: in("server.key"), CAFile: in("clients.crt"), ClientAuth: certs.Optional})
	fatal.If(t, err)
	config, err := source.ServerConfig()
	fatal.If(t, err)
	write(t, in("tokens.yaml"), "tokens:\n"+entry("client", goodToken)+entry("reader", lessToken))
	write(t, in("policy.yaml"), aPolicy)
	authenticator, err := auth.New(auth.Options{Certificates: true, Clients: source, TokensFile: in("tokens.yaml"), Files: files.Options{Interval: -1}})
	fatal.If(t, err)
	t.Cleanup(authenticator.Close)
	rules, err := policy.Open(in("policy.yaml"), files.Options{})
	fatal.If(t, err)
	f := startFleet(t, n, func(f *fleet) {
		f.options.TLS, f.options.Access = config, &server.Access{Authenticator: authenticator, Policy: rules}
	})
	return &guarded{f, ca, in("client.crt"), in("client.key"), in("clients.crt"), in("tokens.yaml"), func() error {
		return errors.Join(source.Check(), authenticator.Reload())
	}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
}

func entry(identity, token string) string {
	sum := sha256.Sum256([]byte(token))
	return fmt.Sprintf("  - {identity: %s, sha256: %q}\n", identity, hex.EncodeToString(sum[:]))
}

// client returns a client that trusts the servers, and shows its certificate if it is to.
func (g *guarded) client(t *testing.T, shows bool, options ...setpoint.Option) *setpoint.Client {
	t.Helper()
	own := setpoint.TLS{CAFile: g.ca.file}
	if shows {
		own.CertFile, own.KeyFile = g.certFile, g.keyFile
	}
	return g.directory.client(t, g.names, append(options, setpoint.WithTLS(own))...)
}

// Real servers see each kind of credentials, with each kind of call.
func TestWhoCallsIsToldToRealServers(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, 2)
	tokenFile := filepath.Join(t.TempDir(), "token")
	write(t, tokenFile, goodToken+"\n")
	for i, tt := range []struct {
		name    string
		shows   bool
		options []setpoint.Option
		code    codes.Code
	}{
		{"a token", false, []setpoint.Option{setpoint.WithToken(goodToken)}, codes.OK},
		{"a token in a file", false, []setpoint.Option{setpoint.WithTokenFile(tokenFile)}, codes.OK},
		{"a certificate", true, nil, codes.OK},
		{"a token with hedging", false, []setpoint.Option{setpoint.WithToken(goodToken), setpoint.WithHedging(ms, 2)}, codes.OK},
		{"a bad token beside a certificate", true, []setpoint.Option{setpoint.WithToken("sp_wrong")}, codes.Unauthenticated},
		{"nothing", false, nil, codes.Unauthenticated},
		{"a bad token", false, []setpoint.Option{setpoint.WithToken("sp_wrong")}, codes.Unauthenticated},
		{"a token that may not", false, []setpoint.Option{setpoint.WithToken(lessToken)}, codes.PermissionDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := g.client(t, tt.shows, tt.options...)
			target := fmt.Sprint(web, i)
			_, err := client.Recommend(t.Context(), queue(target, 3, 50))
			wantCode(t, err, tt.code)
			_, err = client.Stream(0).Recommend(t.Context(), queue(target, 3, 50))
			wantCode(t, err, tt.code)
			result := client.BatchRecommend(t.Context(), []*setpointv1.RecommendRequest{queue(target, 3, 50)})[0]
			wantCode(t, result.Err, tt.code)
			other := queue("clusters/other/namespaces/shop/targets/web", 3, 50)
			if _, err = client.Recommend(t.Context(), other); err == nil {
				t.Error("it may recommend in another cluster")
			}
		})
	}
}

// Calls of one client reach all servers, each over TLS with its own name.
func TestCallsWithCredentialsAreSpread(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, 3)
	client := g.client(t, true, setpoint.WithToken(goodToken))
	deadline := time.Now().Add(time.Minute)
	for seen := map[string]bool{}; len(seen) < 3; seen[peerOf(t, client)] = true {
		if time.Now().After(deadline) {
			t.Fatalf("only %v are reached", seen)
		}
	}
}
