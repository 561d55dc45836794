package auth_test

import (
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// TestDocumentedFiles checks that what docs/operate/security.md shows is right.
func TestDocumentedFiles(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/security.md")
	fatal.If(t, err)
	checked := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		checked++
		var a *auth.Authenticator
		switch kind, _, _ := strings.Cut(block, ":"); kind {
		case "tokens":
			a, err = auth.New(auth.Options{TokensFile: write(t, "tokens.yaml", block)})
		case "issuers":
			// Only this machine is called, where no server listens.
			a, err = auth.New(auth.Options{OIDCFile: write(t, "oidc.yaml", strings.ReplaceAll(block, "https://", "https://127.0.0.1:1/"))})
		case "grants":
			_, err = policy.Parse("policy.yaml", []byte(block))
		default:
			t.Errorf("what is this?\n%s", block)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, block)
		}
		if a != nil {
			a.Close()
		}
	}
	if checked != 4 {
		t.Errorf("%d files are shown, want 4", checked)
	}
}
