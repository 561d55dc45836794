package auth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server/auth"
)

func TestGeneratedTokens(t *testing.T) {
	token, e, err := auth.GenerateToken("ci")
	fatal.If(t, err)
	if !regexp.MustCompile(`^sp_[0-9A-Za-z]{43}$`).MatchString(token) {
		t.Errorf("%q is not of the form that scanners look for", token)
	}
	if again, _, _ := auth.GenerateToken("ci"); again == token {
		t.Error("the same token twice")
	}
	e.Description = "of \"team\"\nshop: # 1"
	e.Expires = time.Now().Add(time.Hour)
	if strings.Contains(e.YAML(), token) {
		t.Error("the entry has the token")
	}
	a := start(t, auth.Options{TokensFile: write(t, "tokens.yaml", "tokens:\n"+e.YAML())})
	wantName(t, a, bearer(token), "token:ci")
	wantReason(t, a, bearer(token+"x"), auth.ReasonUnknownToken)
	for _, identity := range []string{"", "*", "a b", "a\n", ":a", strings.Repeat("a", 254)} {
		if _, _, err := auth.GenerateToken(identity); err == nil {
			t.Errorf("%q may be an identity", identity)
		}
	}
}

func TestExamples(t *testing.T) {
	// The example names a CA file; here it is any certificate.
	i := newIssuer(t, newKey(t, "1", jose.EdDSA))
	folder := t.TempDir()
	for _, name := range []string{"tokens.yaml", "oidc.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		fatal.If(t, err)
		if name == "oidc.yaml" { // None of its issuers is there.
			data = []byte(strings.NewReplacer("https://login.example.com/realms/corp", i.URL, "https://kubernetes.default.svc.cluster.local", i.URL+"/none").Replace(string(data)))
		}
		rewrite(t, filepath.Join(folder, name), string(data))
	}
	pem := testpages.Read(t, i.caFile(t))
	rewrite(t, filepath.Join(folder, "ca.crt"), pem)
	a := start(t, auth.Options{TokensFile: filepath.Join(folder, "tokens.yaml"), OIDCFile: filepath.Join(folder, "oidc.yaml")})
	if n := len(a.Stats().Issuers); n != 2 {
		t.Errorf("%d issuers, want 2", n)
	}
}

func TestBearerHeaders(t *testing.T) {
	a := start(t, auth.Options{TokensFile: write(t, "tokens.yaml", entry("ci", "sp_x", ""))})
	tests := []struct {
		name   string
		header []string
		want   auth.Reason
	}{
		{"as it should be", []string{"Bearer sp_x"}, ""},
		{"the scheme in other letters", []string{"bEARER sp_x"}, ""},
		{"more blanks", []string{"Bearer  sp_x "}, ""},
		{"none", nil, auth.ReasonMissing},
		{"empty", []string{""}, auth.ReasonMalformed},
		{"no token", []string{"Bearer"}, auth.ReasonMalformed},
		{"blanks for a token", []string{"Bearer   "}, auth.ReasonMalformed},
		{"no scheme", []string{"sp_x"}, auth.ReasonMalformed},
		{"another scheme", []string{"Basic sp_x"}, auth.ReasonMalformed},
		{"two tokens", []string{"Bearer sp_x sp_y"}, auth.ReasonMalformed},
		{"two headers", []string{"Bearer sp_x", "Bearer sp_x"}, auth.ReasonMalformed},
		{"an unknown token", []string{"Bearer sp_y"}, auth.ReasonUnknownToken},
		{"a JWT, which nobody accepts here", []string{"Bearer a.b.c"}, auth.ReasonUnknownToken},
		{"the digest is not the token", []string{"Bearer " + strings.Repeat("0", 64)}, auth.ReasonUnknownToken},
		{"as long as it may be", []string{"Bearer " + strings.Repeat("x", auth.MaxTokenBytes)}, auth.ReasonUnknownToken},
		{"longer", []string{"Bearer " + strings.Repeat("x", auth.MaxTokenBytes+1)}, auth.ReasonTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := auth.Credentials{Authorization: tt.header}
			if tt.want == "" {
				wantName(t, a, c, "token:ci")
			} else {
				wantReason(t, a, c, tt.want)
			}
		})
	}
}

func TestNoAuthentication(t *testing.T) {
	a := start(t, auth.Options{})
	wantName(t, a, bearer("whatever"), "anonymous")
	wantName(t, a, auth.Credentials{}, "anonymous")
	optional := start(t, auth.Options{AllowAnonymous: true, TokensFile: write(t, "tokens.yaml", entry("ci", "sp_x", ""))})
	wantName(t, optional, auth.Credentials{}, "anonymous")
	wantReason(t, optional, bearer("wrong"), auth.ReasonUnknownToken)
}

func TestTokensHaveTheirTime(t *testing.T) {
	file := write(t, "tokens.yaml", entry("ci", "sp_x", "    notBefore: 2000-01-01T01:00:00Z\n    expires: 2000-01-01T02:00:00+00:00\n"))
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{TokensFile: file})
		wantReason(t, a, bearer("sp_x"), auth.ReasonNotYetValid)
		time.Sleep(time.Hour)
		wantName(t, a, bearer("sp_x"), "token:ci")
		time.Sleep(time.Hour - time.Nanosecond)
		wantName(t, a, bearer("sp_x"), "token:ci")
		time.Sleep(time.Nanosecond)
		failure := refusal(t, a, bearer("sp_x"), auth.ReasonExpired)
		if failure.Error() != "the bearer token expired at 2000-01-01T02:00:00Z" {
			t.Errorf("got %v", failure)
		}
	})
}

func TestRevokedTokens(t *testing.T) {
	file := write(t, "tokens.yaml", entry("old", "sp_old", ""))
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []error
		a := start(t, auth.Options{TokensFile: file, Files: files.Options{OnChange: func(e files.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.Err)
		}}})
		wantName(t, a, bearer("sp_old"), "token:old")

		rewrite(t, file, entry("new", "sp_new", ""))
		time.Sleep(files.DefaultInterval + files.DefaultSettle)
		synctest.Wait()
		wantReason(t, a, bearer("sp_old"), auth.ReasonUnknownToken)
		wantName(t, a, bearer("sp_new"), "token:new")

		rewrite(t, file, "tokens: [{identity: new}]")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantName(t, a, bearer("sp_new"), "token:new")
		stats := a.Stats()
		if err := stats.Tokens.Err; err == nil || !strings.Contains(err.Error(), "sha256 is missing") {
			t.Errorf("the error is %v", err)
		}
		if stats.KnownTokens != 1 || stats.Tokens.Successes != 2 || stats.Tokens.Failures != 1 {
			t.Errorf("counted %+v", stats)
		}
		mu.Lock()
		if len(events) != 2 || events[0] != nil || events[1] == nil {
			t.Errorf("told %v", events)
		}
		mu.Unlock()

		rewrite(t, file, "tokens: []")
		fatal.If(t, a.Reload())
		wantReason(t, a, bearer("sp_new"), auth.ReasonUnknownToken)
	})
}

func TestADigestWithALineBreak(t *testing.T) {
	a := start(t, auth.Options{TokensFile: write(t, "tokens.yaml", entry("ci", "sp_x\n", ""))})
	failure := refusal(t, a, bearer("sp_x"), auth.ReasonUnknownToken)
	if failure.Detail == nil || !strings.Contains(failure.Detail.Error(), "printf") {
		t.Errorf("got %v", failure.Detail)
	}
}

const (
	digest      = "6c9b19cb967b563d9d96b341ad4a89a74444c6f18e9530f4623817fe30d6400c"
	emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func TestTokensFileProblems(t *testing.T) {
	clear := "tokens are not written in the clear: put the token's SHA-256 in sha256 (printf %s \"$TOKEN\" | sha256sum), and replace a token that was in a file"
	tests := []struct {
		name, file string
		want       []string
	}{
		{"empty", "", []string{"tokens.yaml: is empty"}},
		{"comments only", "# nothing\n", []string{"tokens.yaml: is empty"}},
		{"no list", "{}", []string{"tokens.yaml:1: tokens is missing"}},
		{"entries without their list", "- {identity: ci, sha256: " + digest + "}", []string{"tokens.yaml:1: must be a map with tokens, is a list"}},
		{"another key", "token: []", []string{"tokens.yaml:1: unknown key token, did you mean tokens?", "tokens.yaml:1: tokens is missing"}},
		{"an empty list", "tokens:\n", []string{"tokens.yaml:1: tokens: must be a list, is empty"}},
		{"all at once", "tokens:\n  - identity: a b\n    sha: " + digest + "\n  - sha256: abc\n    expires: 2027-01-01\n  - x\n", []string{
			"tokens.yaml:2: tokens[0].identity: must be 1 to 253 characters of [A-Za-z0-9._@/:-], a letter or digit first and last",
			"tokens.yaml:3: tokens[0]: unknown key sha; known are identity, sha256, notBefore, expires, description",
			"tokens.yaml:2: tokens[0]: sha256 is missing",
			"tokens.yaml:4: tokens[1].sha256: must be 64 hexadecimal digits, the token's SHA-256; " + clear,
			"tokens.yaml:5: tokens[1].expires: must be an instant such as 2027-01-31T00:00:00Z",
			"tokens.yaml:4: tokens[1]: identity is missing",
			"tokens.yaml:6: tokens[2]: must be a map with identity and sha256, is a string",
		}},
		{"a token in the clear", "tokens: [{identity: ci, token: sp_secret}]", []string{"tokens.yaml:1: tokens[0].token: " + clear, "tokens.yaml:1: tokens[0]: sha256 is missing"}},
		{"a token for a digest", "tokens: [{identity: ci, sha256: sp_secret}]", []string{"tokens.yaml:1: tokens[0].sha256: " + clear}},
		{"the digest of nothing", "tokens: [{identity: ci, sha256: " + emptyDigest + "}]", []string{"tokens.yaml:1: tokens[0].sha256: is the SHA-256 of an empty text: was the variable set?"}},
		{"a digest twice", "tokens:\n- {identity: a, sha256: " + digest + "}\n- {identity: b, sha256: " + strings.ToUpper(digest) + "}", []string{"tokens.yaml:3: tokens[1]: has the same sha256 as tokens[0]"}},
		{"a time that ends before it begins", "tokens: [{identity: a, sha256: " + digest + ", notBefore: 2027-01-01T00:00:00Z, expires: 2026-01-01T00:00:00Z}]", []string{"tokens.yaml:1: tokens[0]: expires must be after notBefore"}},
		{"a key twice", "tokens: []\ntokens: []", []string{"tokens.yaml:2: tokens: is a duplicate key, first in line 1"}},
		{"several documents", "tokens: []\n---\ntokens: []", []string{"tokens.yaml: must contain one document, not several"}},
		{"aliases", "tokens: [&a {identity: a, sha256: " + digest + "}, *a]", []string{
			"tokens.yaml:1: tokens[0]: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for",
			"tokens.yaml:1: tokens[1]: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, "tokens.yaml", tt.file)
			_, err := auth.New(auth.Options{TokensFile: path})
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.ReplaceAll(err.Error(), path, "tokens.yaml"); got != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(tt.want, "\n"))
			}
		})
	}
	t.Run("a digest of digits only needs no quotes", func(t *testing.T) {
		start(t, auth.Options{TokensFile: write(t, "tokens.json", `{"tokens": [{"identity": "a", "sha256": `+strings.Repeat("12345678", 8)+`}]}`)})
	})
	t.Run("no file", func(t *testing.T) {
		if _, err := auth.New(auth.Options{TokensFile: "nowhere.yaml"}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a kind of names that is none", func(t *testing.T) {
		if _, err := auth.New(auth.Options{CertificateNames: []auth.NameKind{"o"}}); err == nil {
			t.Error("accepted")
		}
	})
}

// TestSecretsStayOutOfErrors looks for every run of 8 characters of secrets in all that
// errors say.
func TestSecretsStayOutOfErrors(t *testing.T) {
	const secret = "sp_Vz7Qm4Xw9Kp2Lr8Tn5Yb3Hd6Gs1Fj0Ac"
	var said []string
	add := func(err error) {
		for ; err != nil; err = errors.Unwrap(err) {
			said = append(said, err.Error(), fmt.Sprintf("%+v", err))
		}
	}
	files := []string{
		"%[1]s", "%[1]s: 1", "tokens: %[1]s", "tokens: {%[1]s: 1}", "tokens: [%[1]s]", "tokens: [{%[1]s: ci}]",
		"tokens: [{identity: ci, token: %[1]s}]", "tokens: [{identity: ci, sha256: %[1]s}]", "tokens: [{identity: '%[1]s *', sha256: 1}]",
		"tokens: [{identity: ci, expires: %[1]s}]", "tokens: [{identity: ci, password: {%[1]s: x}}]", "tokens: [*%[1]s]", "tokens: [&%[1]s x, *%[1]s]",
		"tokens: [!%[1]s x]", "tokens: [!!%[1]s x]", "tokens: !%[1]s!x y", "%%%[1]s x\n---\n", "tokens: \"%[1]s", "tokens: [{[%[1]s]: 1}]", "tokens: [{identity: ci, sha256: [%[1]s]}]",
		"%[1]s: &x\n%[1]s: *y", "tokens: []\n%[1]s: x\n%[1]s: y", "tokens:\n\t- %[1]s", "tokens: [{<<: %[1]s}]", "? %[1]s\n: - x", "tokens: |%[1]s\n",
	}
	for _, file := range files {
		path := write(t, "tokens.yaml", fmt.Sprintf(file, secret))
		a, err := auth.New(auth.Options{TokensFile: path})
		if err == nil {
			a.Close()
			t.Errorf("accepted: %s", file)
		}
		add(err)
	}

	k := newKey(t, "1", jose.RS256)
	i := newIssuer(t, k)
	options := auth.Options{TokensFile: write(t, "tokens.yaml", entry("ci", secret, "    expires: 2001-01-01T00:00:00Z\n")), OIDCFile: i.file(t)}
	up := start(t, options)
	wantName(t, up, bearer(k.sign(t, i.claims())), "oidc:"+i.URL+"#alice")
	claimed := "Zu2Rk9Wt4Mx7Bc" // stands for the content of a JWT
	jwts := []string{
		k.sign(t, i.claims("sub", claimed, "exp", 1)), k.sign(t, i.claims("sub", claimed, "aud", claimed)), k.sign(t, i.claims("sub", []string{claimed})),
		k.sign(t, i.claims("iss", claimed)), k.sign(t, i.claims("exp", claimed)), key{claimed, jose.RS256, k.private}.sign(t, i.claims()),
		newKey(t, "1", jose.RS256).sign(t, i.claims("sub", claimed)), withMAC(map[string]any{"alg": claimed}, i.claims(), nil), withMAC(claimed, i.claims(), nil),
		withMAC(map[string]any{"alg": "RS256", "crit": []string{claimed}}, i.claims(), nil), withMAC(map[string]any{"alg": "RS256", "kid": 7}, i.claims(), nil),
		"a." + claimed + ".c", secret + ".." + secret,
	}
	headers := []string{secret, "Basic " + secret, "Bearer " + secret, "Bearer " + secret + " x", "Bearer " + secret + "y", "Bearer " + strings.Repeat(secret, 1000)}
	secrets := []string{secret, claimed}
	for _, token := range jwts {
		headers = append(headers, "Bearer "+token)
		secrets = append(secrets, strings.Split(token, ".")...)
	}
	i.setDown(true)
	for _, a := range []*auth.Authenticator{up, start(t, options)} {
		for _, header := range headers {
			_, err := a.Authenticate(t.Context(), auth.Credentials{Authorization: []string{header}})
			if err == nil {
				t.Errorf("let in: %s", header)
			}
			add(err)
		}
	}
	if len(said) < 100 {
		t.Errorf("only %d texts", len(said))
	}
	all := strings.Join(said, "\n")
	for _, secret := range secrets {
		for n := 0; n+8 <= len(secret); n++ {
			if strings.Contains(all, secret[n:n+8]) {
				t.Errorf("%q of %q is in an error", secret[n:n+8], secret)
				break
			}
		}
	}
}
