//go:build linux

package edge

import (
	"crypto/tls"
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

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Beyond loopback it takes TLS and credentials, or --insecure.
func TestItDoesNotServeTheNetworkUnguarded(t *testing.T) {
	t.Parallel()
	f, ca := newFolder(t), newAuthority("servers")
	_, entry := newToken(t, "red")
	inTLS := f.writePair(ca.issueNow(""))
	tokens := []string{"--auth-tokens-file=" + f.write("tokens.yaml", []byte("tokens:\n"+entry))}
	// Everywhere is by its port reachable on loopback, too, where readiness is asked.
	everywhere := func(address string) string {
		_, port, err := net.SplitHostPort(address)
		must(t, err)
		return net.JoinHostPort("0.0.0.0", port)
	}
	for _, tt := range []struct {
		name    string
		flags   []string
		problem string // "": it starts
	}{
		{"neither TLS nor credentials", nil, "without authentication"},
		{"TLS only", inTLS, "without authentication"},
		{"credentials only", tokens, "without TLS"},
		{"insecure", []string{"--insecure"}, ""},
		{"TLS and credentials", append(inTLS, tokens...), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, flag := range []string{"--grpc-address=", "--rest-address="} {
				p := newProcess(t, launch{cpu: -1})
				address := everywhere(p.grpc)
				if flag == "--rest-address=" {
					address = everywhere(p.rest)
				}
				p.launch.flags = append([]string{flag + address}, tt.flags...)
				if tt.problem == "" {
					p.restart()
					continue
				}
				code, _, stderr := run(t, nil, append([]string{"serve", "--grpc-address=" + p.grpc, "--rest-address=" + p.rest, "--admin-address=" + p.admin}, p.launch.flags...)...)
				if code != 2 || !strings.Contains(stderr, tt.problem) || !strings.Contains(stderr, flag[:len(flag)-1]) {
					t.Errorf("%s: exit code %d, %s", flag, code, stderr)
				}
			}
		})
	}
}

// serve --check exits with 0 and shows the settings without secrets, or with 2 and the
// problems.
func TestCheck(t *testing.T) {
	t.Parallel()
	const password = "planted-pa55word"
	f, ca := newFolder(t), newAuthority("servers")
	token, entry := newToken(t, "red")
	good := append(f.writePair(ca.issueNow("")),
		"--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)), "--policy-file="+f.write("policy.yaml", []byte(ownClusters)))
	other := newFolder(t)
	check := func(name string, want int, says []string, environment []string, flags ...string) {
		t.Helper()
		code, stdout, stderr := run(t, environment, append([]string{"serve", "--check"}, flags...)...)
		if code != want {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, want, stderr)
		}
		for _, text := range says {
			if !strings.Contains(stdout+stderr, text) {
				t.Errorf("%s: nothing of %q in\n%s%s", name, text, stdout, stderr)
			}
		}
		for _, secret := range []string{password, token, "PRIVATE KEY"} {
			if strings.Contains(stdout+stderr, secret) {
				t.Errorf("%s: it tells %q:\n%s%s", name, secret, stdout, stderr)
			}
		}
	}
	for name, url := range map[string]string{
		"one host":      "redis://user:" + password + "@redis.example:6379/3",
		"several hosts": "rediss://user:" + password + "@one.example:6379,two.example:6379",
		"no user":       "redis://:" + password + "@redis.example",
	} {
		check(name, 0, []string{"max-pods: 7 # set", ".example", "The configuration is valid"}, nil, append(good, "--max-pods=7", "--redis="+url)...)
		check(name+", by a variable", 0, []string{".example"}, []string{"SETPOINT_REDIS=" + url})
	}
	for _, tt := range []struct {
		name  string
		flags []string
		says  string
	}{
		{"an unknown verb", append(good, "--policy-file="+other.write("policy.yaml", []byte("grants:\n  - {identities: [\"*\"], clusters: [\"*\"], verbs: [dance]}\n"))), "policy.yaml:2"},
		{"a token in the clear", append(good, "--auth-tokens-file="+other.write("clear.yaml", []byte("tokens:\n  - {identity: red, sha256: "+token+"}\n"))), "clear.yaml:2"},
		{"a token under its own key", append(good, "--auth-tokens-file="+other.write("key.yaml", []byte("tokens:\n  - {identity: red, token: "+token+"}\n"))), "key.yaml:2"},
		{"a key that does not fit", append(good, "--tls-key-file="+other.write("tls.key", ca.issueNow("").KeyPEM())), "private key does not match"},
		{"an expired certificate", append(good, other.writePair(ca.issue("", time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)))...), "expired"},
		{"a file that is not there", append(good, "--policy-file="+filepath.Join(other.path, "none.yaml")), "none.yaml"},
		{"no number", append(good, "--max-pods=many"), "max-pods"},
		{"an unknown key", append(good, "--config="+other.write("config.yaml", []byte("max-podz: 7\n"))), "max-podz"},
		{"not a URL", append(good, "--redis=redis://user:"+password+"@"), "redis"},
		{"a password that no URL may have", append(good, "--redis=redis://user:"+password+"%zz@redis.example"), "redis"},
		{"a collector with a password", []string{"--otlp-endpoint=https://user:" + password + "@collector.example:4317"}, "otlp-endpoint"},
		{"two problems", append(good, "--max-pods=0", "--max-batch=0"), "max-batch"},
	} {
		check(tt.name, 2, []string{tt.says}, nil, tt.flags...)
	}
}

// No log line, whatever the level, and no metric contains a secret.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	const password = "planted-pa55word"
	f, ca := newFolder(t), newAuthority("servers")
	key := newSigningKey(t, "first")
	i := newIssuer(t, ca, key)
	token, entry := newToken(t, "red")
	unknown := "sp_" + strings.Repeat("planted", 6)
	jwt, badJWT := i.token(key, "alice"), i.token(newSigningKey(t, "other"), "mallory-planted")
	flags := append(f.writePair(ca.issueNow("")), "--log-level=debug", "--access-log=all", "--redis-timeout=100ms",
		"--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)),
		"--auth-oidc-file="+f.write("oidc.yaml", i.file(f.write("ca.crt", ca.CertPEM()))))
	p := start(t, flags...)
	// An unreachable Redis, whose password must not be shown either.
	away := newProcess(t, launch{cpu: -1, flags: append(flags, "--redis=redis://user:"+password+"@127.0.0.1:1")})
	must(t, away.begin())
	eventually(t, process.Patience, "a line about Redis", func() error {
		if !away.logged("store") {
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
	for what, text := range map[string]string{"log": p.output(), "log without Redis": away.output(), "metrics": p.metrics(), "answers": told.String()} {
		if len(text) < 500 {
			t.Errorf("the %s is too short to tell: %q", what, text)
		}
		for _, secret := range []string{token, unknown, password, jwt, badJWT, strings.Split(jwt, ".")[2], "planted", "PRIVATE KEY"} {
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
		conn, err := net.Dial("tcp", p.rest)
		must(t, err)
		_, err = conn.Write([]byte(raw))
		must(t, err)
		must(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		_, _ = conn.Read(make([]byte, 1000))
		_ = conn.Close()
	}
	if lines := p.output(); strings.Contains(lines, "\n{\"level\":\"error\",\"msg\":\"forged\"}") || len(lines) < 5000 {
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
