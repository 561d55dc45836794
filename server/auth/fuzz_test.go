package auth_test

import (
	"path/filepath"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server/auth"
)

// FuzzTokensFile checks that whatever is in a file of tokens either is refused with the
// place of each problem, or lets in only names that are of tokens.
func FuzzTokensFile(f *testing.F) {
	data := testpages.Read(f, filepath.Join("testdata", "tokens.yaml"))
	f.Add(data)
	f.Add(entry("ci", "sp_x", "    expires: 2100-01-01T00:00:00Z\n"))
	f.Add(`{"tokens": [{"identity": "ci", "sha256": "` + digest + `"}]}`)
	path := filepath.Join(f.TempDir(), "tokens.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		rewrite(t, path, text)
		a, err := auth.New(auth.Options{TokensFile: path})
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, path+":") && !strings.HasPrefix(line, "  ") {
					t.Errorf("a problem without its place: %q", line)
				}
			}
			return
		}
		defer a.Close()
		if identity, err := a.Authenticate(t.Context(), bearer("sp_x")); err == nil && !strings.HasPrefix(identity.Name, "token:") {
			t.Errorf("let in as %q", identity.Name)
		}
	})
}

// FuzzAuthorization checks that nothing that looks like a token, but is none, is let in.
func FuzzAuthorization(f *testing.F) {
	k := newKey(f, "1", jose.ES256)
	i := newIssuer(f, k)
	a := start(f, auth.Options{TokensFile: write(f, "tokens.yaml", entry("ci", "sp_x", "")), OIDCFile: i.file(f, `prefix: "corp:"`, "groupsClaim: groups")})
	good := k.sign(f, i.claims())
	wantName(f, a, bearer(good), "oidc:corp:alice")
	parts := strings.Split(good, ".")
	f.Add("Bearer " + good)
	f.Add("Bearer sp_x")
	f.Add("Bearer sp_y")
	f.Add("Bearer " + encode(map[string]any{"alg": "none"}) + "." + parts[1] + ".")
	f.Add("Bearer " + withMAC(map[string]any{"alg": "HS256", "kid": "1"}, i.claims(), nil))
	f.Add("Bearer " + k.sign(f, i.claims("aud", "x", "groups", 1)))
	f.Add("Bearer " + encode(map[string]any{"alg": "ES256", "crit": []any{1}, "jwk": k.public()}) + "." + parts[1] + "." + parts[2])
	f.Fuzz(func(t *testing.T, header string) {
		identity, err := a.Authenticate(t.Context(), auth.Credentials{Authorization: []string{header}})
		switch {
		case err != nil && auth.ReasonOf(err) == "":
			t.Errorf("no reason: %v", err)
		case err == nil && !strings.Contains(header, "sp_x") && !strings.Contains(header, parts[1]):
			t.Errorf("%q is let in as %q", header, identity.Name)
		}
	})
}
