package serve

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestServingBeyondThisMachineTakesCredentialsAndTLS(t *testing.T) {
	t.Parallel()
	tls := func(s *settings) { s.Edge.TLS.CertFile, s.Edge.TLS.KeyFile = "cert.pem", "key.pem" }
	tokens := func(s *settings) { s.Edge.Auth.TokensFile = "tokens.yaml" }
	everywhere := func(s *settings) { s.GRPCAddress = ":9090" }
	for _, tt := range []struct {
		name    string
		change  []func(*settings)
		problem string
	}{
		{"the defaults", nil, ""},
		{"all interfaces", []func(*settings){everywhere}, "--grpc-address: other machines can reach :9090 without authentication"},
		{"all interfaces with tokens", []func(*settings){everywhere, tokens}, "--grpc-address: other machines can reach :9090 without TLS"},
		{"all interfaces with TLS", []func(*settings){everywhere, tls}, "without authentication"},
		{"all interfaces with both", []func(*settings){everywhere, tls, tokens}, ""},
		{"all interfaces, insecure", []func(*settings){everywhere, func(s *settings) { s.Edge.Insecure = true }}, ""},
		{"REST counts, too", []func(*settings){func(s *settings) { s.RESTAddress = "0.0.0.0:8080" }}, "--rest-address: other machines can reach 0.0.0.0:8080"},
		{"an address of the network", []func(*settings){func(s *settings) { s.RESTAddress = "192.0.2.1:8080" }}, "--rest-address"},
		{"a name", []func(*settings){func(s *settings) { s.RESTAddress = "setpoint.example:8080" }}, "--rest-address"},
		{"IPv6 loopback", []func(*settings){func(s *settings) { s.RESTAddress = "[::1]:8080" }}, ""},
		{"localhost", []func(*settings){func(s *settings) { s.RESTAddress = "localhost:8080" }}, ""},
		{"a certificate without its key", []func(*settings){func(s *settings) { s.Edge.TLS.CertFile = "cert.pem" }}, "a certificate needs its key"},
		{"client certificates in the clear", []func(*settings){func(s *settings) { s.Edge.TLS.CAFile = "ca.pem" }}, "client certificates need TLS"},
		{"client certificates of unknown CAs", []func(*settings){tls, func(s *settings) { s.Edge.TLS.ClientAuth = "require" }}, "need the CAs"},
		{"client certificates in an odd way", []func(*settings){tls, func(s *settings) { s.Edge.TLS.ClientAuth = "maybe" }}, "maybe"},
		{"a policy for nobody", []func(*settings){func(s *settings) { s.Edge.PolicyFile = "policy.yaml" }}, "--policy-file: authentication is off"},
		{"anonymous callers without a policy", []func(*settings){tokens, func(s *settings) { s.Edge.Auth.AllowAnonymous = true }}, "what anonymous callers may do"},
		{"a burst without a rate", []func(*settings){func(s *settings) { s.Server.Limits.Identity.Burst = 3 }}, "--max-burst-per-caller: 3 without a rate"},
		{"no calls at all", []func(*settings){func(s *settings) { s.Server.Limits.InFlight = 0 }}, "--max-in-flight: 0 is not from 1 to 2147483647"},
		{"no headers", []func(*settings){func(s *settings) { s.Server.MaxHeaderBytes = 0 }}, "--max-header-bytes: 0 is not above 0"},
	} {
		s := defaultSettings()
		for _, change := range tt.change {
			change(&s)
		}
		err := s.validate()
		switch {
		case tt.problem == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
			t.Errorf("%s: got %v, want one with %q", tt.name, err, tt.problem)
		}
	}
}

func TestCheckPrintsTheSettingsWithoutSecrets(t *testing.T) {
	t.Parallel()
	got := run(t, "", "serve", "--check", "--redis", "redis://user:s3cret@redis.example:6379,other.example:6379", "--max-pods=7")
	if got.Code != 0 || !strings.Contains(got.Stdout, "max-pods: 7 # set") || !strings.Contains(got.Stdout, "redis.example") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	if strings.Contains(got.Stdout+got.Stderr, "s3cret") {
		t.Errorf("it tells the password:\n%s%s", got.Stdout, got.Stderr)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	fatal.If(t, os.WriteFile(tokens, []byte("tokens:\n  - {identity: a, sha256: nothing}\n"), 0o600))
	bad := run(t, "", "serve", "--check", "--auth-tokens-file", tokens)
	if bad.Code != cli.ExitUsage || !strings.Contains(bad.Stderr, "tokens.yaml:2") {
		t.Errorf("a file with a mistake: exit code %d\n%s%s", bad.Code, bad.Stdout, bad.Stderr)
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	fatal.If(t, os.WriteFile(tokens, []byte("tokens: []\n"), 0o600))
	fatal.If(t, os.WriteFile(policy, []byte("grants: []\noptions:\n  - defaults: {downscaleStabilization: 3h}\n"), 0o600))
	long := run(t, "", "serve", "--check", "--auth-tokens-file", tokens, "--policy-file", policy, "--history-ttl=2h")
	if long.Code != cli.ExitUsage || !strings.Contains(long.Stderr, "policy.yaml:3: options[0].defaults.downscaleStabilization: 3h0m0s is longer than histories are kept") {
		t.Errorf("a window longer than histories are kept: exit code %d\n%s%s", long.Code, long.Stdout, long.Stderr)
	}
	missing := run(t, "", "serve", "--check", "--tls-cert-file=/nowhere/cert.pem", "--tls-key-file=/nowhere/key.pem")
	if missing.Code != cli.ExitUsage || !strings.Contains(missing.Stderr, "--tls-cert-file") {
		t.Errorf("a file that is not there: exit code %d\n%s", missing.Code, missing.Stderr)
	}
}

func TestTheSupervisorIsNotified(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	fatal.If(t, err)
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	told := func() string {
		b := make([]byte, 100)
		fatal.If(t, conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
		n, err := conn.Read(b)
		fatal.If(t, err)
		return string(b[:n])
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	defer daemon.TellSupervisor(ctx, zap.NewNop())()
	if got := told(); got != "READY=1" {
		t.Errorf("got %q", got)
	}
	stop()
	if got := told(); got != "STOPPING=1" {
		t.Errorf("got %q", got)
	}
}

// What a policy hardly wants to grant is told of one that is reloaded, too.
func TestAPolicyThatIsReloadedIsWarnedOf(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	s := edgeSettings{PolicyFile: clitest.File(t, "policy.yaml", aPolicy)}
	s.Auth.TokensFile = clitest.File(t, "tokens.yaml", "tokens: []")
	edge, err := s.open(zap.New(core), 0)
	fatal.If(t, err)
	defer edge.close()
	fatal.If(t, os.WriteFile(s.PolicyFile, []byte(strings.ReplaceAll(aPolicy, "token:*", "*")), 0o600))
	fatal.If(t, edge.access.Policy.Reload())
	if all := logs.All(); len(all) != 1 || !strings.Contains(all[0].Message, "every caller with credentials may do everything") {
		t.Errorf("the log has %v", all)
	}
}
