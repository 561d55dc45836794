package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestATokenIsShownOnceAndItsEntryDoesNotGiveItAway(t *testing.T) {
	t.Parallel()
	got := run(t, "", "token", "agent-shop", "--lifetime=24h", "--description=the agent")
	token := strings.TrimSpace(got.Stdout)
	sum := sha256.Sum256([]byte(token))
	if got.Code != 0 || !strings.HasPrefix(token, "sp_") || strings.Contains(got.Stderr, token) ||
		!strings.Contains(got.Stderr, hex.EncodeToString(sum[:])) || !strings.Contains(got.Stderr, "expires:") {
		t.Fatalf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	fatal.If(t, os.WriteFile(tokens, []byte("tokens:\n"+got.Stderr), 0o600))
	if check := run(t, "", "serve", "--check", "--auth-tokens-file", tokens); check.Code != 0 {
		t.Errorf("the entry is not one of the file: %s", check.Stderr)
	}
	// The form in which the Helm chart and deploy/secrets.sh write the file.
	made := "tokens:\n- identity: agent-default\n  sha256: \"" + strings.Repeat("5", 64) + "\"\n"
	fatal.If(t, os.WriteFile(tokens, []byte(made+got.Stderr), 0o600))
	if check := run(t, "", "serve", "--check", "--auth-tokens-file", tokens); check.Code != 0 {
		t.Errorf("the entry can't be appended to a file that was made for a deployment: %s", check.Stderr)
	}
	if bad := run(t, "", "token", "not a name"); bad.Code != cli.ExitUsage {
		t.Errorf("an identity with blanks: exit code %d", bad.Code)
	}
}
