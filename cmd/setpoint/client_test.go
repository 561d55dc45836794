package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/certs"
)

// startSecured serves with TLS and tokens, and returns gRPC's address, the CA's file and a
// token's.
func startSecured(t *testing.T) (address, ca, token string) {
	t.Helper()
	const secret = "sp_00112233445566778899aabbccddeeff"
	sum := sha256.Sum256([]byte(secret))
	folder := t.TempDir()
	cert, key := clitest.Certificate(t, folder, time.Now().Add(time.Hour))
	tokens := clitest.File(t, "tokens.yaml", "tokens:\n  - {identity: someone, sha256: \""+hex.EncodeToString(sum[:])+"\"}\n")
	source, err := certs.New(certs.Options{CertFile: cert, KeyFile: key})
	fatal.If(t, err)
	authenticator, err := auth.New(auth.Options{TokensFile: tokens})
	fatal.If(t, err)
	options := server.DefaultOptions()
	options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(policy.Default(false))}
	options.TLS, err = source.ServerConfig()
	fatal.If(t, err)
	_, port, _ := net.SplitHostPort(clitest.StartServerWith(t, options))
	return "localhost:" + port, cert, clitest.File(t, "token", secret+"\n")
}

// The commands that call a server reach one with TLS and tokens, as deploy/ sets it up.
func TestCommandsReachASecuredServer(t *testing.T) {
	t.Parallel()
	address, ca, token := startSecured(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"with both", []string{"--tls-ca-file=" + ca, "--token-file=" + token}, 0, ""},
		{"no token", []string{"--tls-ca-file=" + ca}, cli.ExitFailed, "Unauthenticated"},
		{"in the clear", nil, cli.ExitFailed, "Unavailable"},
		{"its certificate is for another name", []string{"--tls-ca-file=" + ca, "--tls-server-name=elsewhere", "--token-file=" + token}, cli.ExitFailed, "elsewhere"},
		{"no such CA", []string{"--tls-ca-file=nowhere.pem"}, cli.ExitUsage, "nowhere.pem"},
		{"both and in the clear", []string{"--tls-ca-file=" + ca, "--insecure"}, cli.ExitUsage, "--insecure: contradicts the --tls flags"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, command := range [][]string{
				{"targets", "list"},
				{"recommend", "-f", "../../deploy/demo/request.json", "--target=clusters/c/namespaces/n/targets/" + strings.ReplaceAll(tt.name, " ", "-")},
			} {
				got := run(t, "", append(append(command, "--server="+address), tt.args...)...)
				if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) {
					t.Errorf("%s: exit code %d, %s\nwant %d and %q", command[0], got.Code, got.Stderr, tt.code, tt.want)
				}
			}
		})
	}
	elsewhere := run(t, "", "targets", "list", "--server=setpoint.example:9090", "--insecure", "--token-file="+token)
	if elsewhere.Code != cli.ExitUsage || !strings.Contains(elsewhere.Stderr, "would send the token of --token-file unencrypted") {
		t.Errorf("exit code %d, %s", elsewhere.Code, elsewhere.Stderr)
	}
}

func TestWhereTheServerIsMayBeInVariables(t *testing.T) {
	address, ca, token := startSecured(t)
	t.Setenv("SETPOINT_SERVER", address)
	t.Setenv("SETPOINT_TLS_CA_FILE", ca)
	t.Setenv("SETPOINT_TOKEN_FILE", token)
	if got := run(t, "", "targets", "list"); got.Code != 0 {
		t.Errorf("exit code %d, %s", got.Code, got.Stderr)
	}
	if got := run(t, "", "serve", "--check"); got.Code != 0 {
		t.Errorf("serve minds them: exit code %d, %s", got.Code, got.Stderr)
	}
}
