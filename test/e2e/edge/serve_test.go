//go:build linux

package edge

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// No log line, whatever the level, and no metric contains a secret.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	const password = "planted-pa55word"
	f, ca, issuer := newFolder(t), testpki.New("servers"), signintest.Start(t)
	token, entry := newToken(t, "red")
	unknown := "sp_" + strings.Repeat("planted", 6)
	jwt := issuer.Token()
	parts := strings.Split(jwt, ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	fatal.If(t, err)
	badJWT := parts[0] + "." + base64.RawURLEncoding.EncodeToString(bytes.Replace(claims, []byte("alice"), []byte("mallory-planted"), 1)) + "." + parts[2]
	flags := append(f.writePair(ca.Issue("setpoint", testpki.Usage(x509.ExtKeyUsageServerAuth))), "--log-level=debug", "--access-log=all", "--redis-timeout=100ms",
		"--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)),
		"--auth-oidc-file="+f.write("oidc.yaml", []byte(issuer.File())))
	p := start(t, flags...)
	// An unreachable Redis, whose password must not be shown either.
	away := service.New(t, service.Settings{Flags: append(flags, "--redis=redis://user:"+password+"@127.0.0.1:1"), Shipped: true})
	fatal.If(t, away.Begin())
	kit.Eventually(t, process.Patience, "a line about Redis", func() error {
		if !away.Logged("store") {
			return os.ErrNotExist
		}
		return nil
	})
	c := newCaller(t, p, &tls.Config{RootCAs: ca.Pool()}, token)
	lost := newCaller(t, away, &tls.Config{RootCAs: ca.Pool()}, token)
	var told strings.Builder
	note := func(err error) { told.WriteString(status.Convert(err).String() + "\n") }
	for _, who := range []*caller{c, lost} {
		for _, sent := range []string{token, unknown, jwt, badJWT, token + "\n", "Basic " + password, token + " " + unknown} {
			note(who.with(sent).recommend(requestFor(targetIn("red"))))
			note(who.with(strings.TrimSpace(sent)).recommendREST(requestFor(targetIn("red"))))
		}
		for _, path := range []string{"/v1/" + targetIn("red") + "?access_token=" + unknown, "/v1/nowhere?token=" + unknown, "/v1/" + targetIn("red") + "?pageSize=" + password} {
			_, err := who.call(http.MethodGet, path, nil, "Cookie", "session="+password, "X-Api-Key", password, "Proxy-Authorization", "Basic "+password)
			note(err)
		}
		ctx, cancel := who.context()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+unknown, "cookie", password)
		_, err := who.targets.GetTarget(ctx, nil)
		cancel()
		note(err)
		if _, err := who.talk().ask(requestFor(targetIn("red"))); err != nil {
			note(err)
		}
	}
	if c.both(targetIn("red")) != codes.OK {
		t.Error("nothing works: the test shows nothing")
	}
	for what, text := range map[string]string{"log": p.Log(), "log without Redis": away.Log(), "metrics": p.Metrics(), "answers": told.String()} {
		if len(text) < 500 {
			t.Errorf("the %s is too short to tell: %q", what, text)
		}
		for _, secret := range []string{token, unknown, password, jwt, badJWT, parts[2], "planted", "PRIVATE KEY"} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("the %s has %.20q…: …%.300q", what, secret, text[max(0, at-150):])
			}
		}
	}
	// Nor can others of the machine see it, where it was given by a file.
	password2 := f.write("password", []byte("another-planted\n"))
	code, stdout, stderr := run(t, nil, "serve", "--check", "--redis=redis://redis.example", "--redis-password-file="+password2)
	if code != 0 || strings.Contains(stdout+stderr, "another-planted") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// Callers can't forge log lines: end checks that each line is one JSON object.
func TestLogsCannotBeForged(t *testing.T) {
	t.Parallel()
	p := start(t, "--log-level=debug", "--access-log=all")
	c := newCaller(t, p, nil, "")
	const forged = "{\"level\":\"error\",\"msg\":\"forged\"}"
	for _, text := range []string{"a\n" + forged, "a\r\n" + forged + "\r\n", "\x00\x1b[2J", "\u2028" + forged, "\"}\n" + forged, "\u202e" + forged} {
		ctx, cancel := c.context()
		ctx = metadata.AppendToOutgoingContext(ctx, "x-request-id", strings.Map(printable, text), "user-agent", strings.Map(printable, text))
		request := requestFor(targetIn("red"))
		request.RequestId = text
		_, err := c.recommendations.Recommend(ctx, request)
		if err != nil && status.Code(err) != codes.InvalidArgument {
			t.Errorf("a request id: %v", err)
		}
		request = requestFor("clusters/" + text + "/namespaces/shop/targets/web")
		if _, err := c.recommendations.Recommend(ctx, request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a target: %v", err)
		}
		request = requestFor(targetIn("red"))
		request.Spec.Metrics[0].External.Metric.Name = text
		request.MetricErrors = nil
		_ = c.recommend(request)
		request.Options = nil
		cancel()
		path := "/v1/clusters/" + escaped(text) + "/namespaces/shop/targets/web"
		if _, err := c.call(http.MethodGet, path, nil, "X-Request-Id", strings.Map(printable, text)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a path: %v", err)
		}
		if _, err := c.call("GET", "/"+escaped(text), nil); err == nil {
			t.Error("something is served there")
		}
		item, broken := c.talk().ask(requestFor("clusters/" + text))
		if broken != nil || status.Code(item) != codes.InvalidArgument {
			t.Errorf("a stream: %v, %v", item, broken)
		}
	}
	// Requests that Go's client can't send.
	for _, raw := range []string{
		"GET /v1/x HTTP/1.1\r\nHost: a\r\nX-Request-Id: a\x00b\r\n\r\n",
		"GET /v1/\n" + forged + "\n HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\n" + forged + "\r\n\r\n",
		forged + "\n" + forged + "\n",
	} {
		conn, err := net.Dial("tcp", p.RESTAddr())
		fatal.If(t, err)
		_, err = conn.Write([]byte(raw))
		fatal.If(t, err)
		fatal.If(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		_, _ = conn.Read(make([]byte, 1000))
		_ = conn.Close()
	}
	if lines := p.Log(); strings.Contains(lines, "\n{\"level\":\"error\",\"msg\":\"forged\"}") || len(lines) < 5000 {
		t.Errorf("forged lines are there, or too few lines:\n%.3000s", lines)
	}
}

// printable is what Go's client allows in a header.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

func escaped(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		b.WriteString("%" + string(digits[text[i]>>4]) + string(digits[text[i]&15]))
	}
	return b.String()
}

// newToken has the program make a token, and returns it with its entry for the file.
func newToken(t *testing.T, identity string) (token, entry string) {
	t.Helper()
	code, token, entry := run(t, nil, "token", identity)
	if code != 0 || !strings.HasPrefix(token, "sp_") {
		t.Fatalf("setpoint token: exit code %d, %q", code, entry)
	}
	return strings.TrimSpace(token), entry
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
	fatal.If(t, errors.Join(revoked.recommend(requestFor(targetIn("red"))), ask(stream), ask(otherStream)))
	f.write("tokens.yaml", []byte("tokens:\n"+staysEntry))
	refused := func(what string, call func() error) time.Duration {
		return kit.Eventually(t, 45*time.Second, what+" refused", func() error {
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
	fatal.If(t, ask(otherStream))
	t.Logf("refused %v after the file was replaced", took.Round(time.Millisecond))
}

// folder is where a test keeps the files of a service.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) folder { return folder{t, t.TempDir()} }

// write replaces a file at once, and returns its path.
func (f folder) write(name string, content []byte) string {
	f.t.Helper()
	path := filepath.Join(f.path, name)
	fatal.If(f.t, os.WriteFile(path+".new", content, 0o600))
	fatal.If(f.t, os.Rename(path+".new", path))
	return path
}

// writePair writes tls.crt and tls.key, and returns the flags that name them.
func (f folder) writePair(p *testpki.Pair) []string {
	f.t.Helper()
	return []string{"--tls-key-file=" + f.write("tls.key", p.KeyPEM()), "--tls-cert-file=" + f.write("tls.crt", p.CertPEM())}
}
