package serve

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// An operator's mistakes are reported with their place and a remedy, before serving, with exit
// code 2, and without secrets.
func TestConfigurationsThatCannotBe(t *testing.T) {
	t.Parallel()
	config := func(text string) string { return "--config=" + clitest.File(t, "setpoint.yaml", text) }
	notPEM := clitest.File(t, "not.pem", "nothing")
	good, key := clitest.Certificate(t, t.TempDir(), time.Now().Add(time.Hour))
	_, otherKey := clitest.Certificate(t, t.TempDir(), time.Now().Add(time.Hour))
	expired, expiredKey := clitest.Certificate(t, t.TempDir(), time.Now().Add(-time.Minute))
	for _, tt := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"a key that there is not", []string{config("grpc-adress: \":1\"")}, "setpoint.yaml:1: grpc-adress: no such setting, did you mean grpc-address?", cli.ExitSettings},
		{"a word for a number", []string{config("\nmax-pods: many")}, "setpoint.yaml:2: max-pods: must be a whole number, is a string", cli.ExitSettings},
		{"a file that is no YAML", []string{config("max-pods: 5\n  x: 3")}, "setpoint.yaml: is neither YAML nor JSON: line 2", cli.ExitSettings},
		{"a file that is not there", []string{"--config=/nowhere.yaml"}, "config file: open /nowhere.yaml: no such file", cli.ExitSettings},
		{"a duration without its unit", []string{"--drain-timeout=20"}, `--drain-timeout" flag: must be a duration such as 30s or 1h: write 20s`, cli.ExitSettings},
		{"an address without a port", []string{"--grpc-address=9090"}, `--grpc-address: "9090" is not host:port, such as 127.0.0.1:9090`, cli.ExitSettings},
		{"an admin address without a port", []string{"--admin-address=9091"}, `--admin-address: "9091" is not host:port`, cli.ExitSettings},
		{"a port beyond all ports", []string{"--rest-address=127.0.0.1:99999"}, `--rest-address: "127.0.0.1:99999": the port must be a number from 0 to 65535`, cli.ExitSettings},
		{"a URL for an address", []string{"--rest-address=http://127.0.0.1:8080"}, `--rest-address: "http://127.0.0.1:8080" is not host:port`, cli.ExitSettings},
		{"a path for a host", []string{"--rest-address=a/b:8080"}, `"a/b" is neither an IP address nor the name of a host`, cli.ExitSettings},
		{"an address twice", []string{"--admin-address=127.0.0.1:9090"}, "--admin-address: 127.0.0.1:9090 is also the address of --grpc-address: give each its own", cli.ExitSettings},
		{"all interfaces without credentials", []string{"--grpc-address=:9090"}, "--grpc-address: other machines can reach :9090 without authentication: give --auth-tokens-file", cli.ExitSettings},
		{"a Redis that is no URL", []string{"--redis=redis:6379"}, "--redis: must begin with redis:// or rediss://", cli.ExitSettings},
		{"a Redis of another kind", []string{"--redis=http://user:s3cret@redis:6379"}, "--redis: must begin with redis:// or rediss://", cli.ExitSettings},
		{"a Redis with an odd port", []string{"--redis=redis://user:s3cret@redis:port"}, `--redis: host "redis:port": must be host or host:port`, cli.ExitSettings},
		{"a source with a password", []string{"--source-urls=https://user:s3cret@prometheus"}, "--source-urls: the URL of prometheus must hold no user or password", cli.ExitSettings},
		{"a password for no Redis", []string{"--redis-password-file=" + notPEM}, "--redis-password-file: only applies with Redis: give --redis", cli.ExitSettings},
		{"a password that is not there", []string{"--redis=redis://redis", "--redis-password-file=/nowhere"}, "--redis-password-file: stat /nowhere: no such file", cli.ExitUsage},
		{"a password in the URL and in a file", []string{"--redis=redis://user:s3cret@redis", "--redis-password-file=" + notPEM}, "--redis: the URL has a password, and so has a file: give one of them", cli.ExitSettings},
		{"a sentinels' password in both", []string{"--redis=redis://redis?master=m&sentinelPassword=s3cret", "--redis-sentinel-password-file=" + notPEM}, "--redis: the URL has a password, and so has a file", cli.ExitSettings},
		{"a certificate that is none", []string{"--tls-cert-file=" + notPEM, "--tls-key-file=" + notPEM}, "--tls-cert-file: " + notPEM, cli.ExitUsage},
		{"clients' CAs that are none", []string{"--tls-cert-file=" + good, "--tls-key-file=" + key, "--tls-client-ca-file=" + notPEM}, "--tls-client-ca-file: " + notPEM, cli.ExitUsage},
		{"a revocation list that is none", []string{"--tls-cert-file=" + good, "--tls-key-file=" + key, "--tls-client-ca-file=" + good, "--tls-client-crl-file=" + notPEM}, "--tls-client-crl-file: " + notPEM, cli.ExitUsage},
		{"revocation lists without CAs", []string{"--tls-cert-file=" + good, "--tls-key-file=" + key, "--tls-client-crl-file=" + notPEM}, "--tls-client-crl-file: revocation lists need the CAs", cli.ExitSettings},
		{"a key of another certificate", []string{"--tls-cert-file=" + good, "--tls-key-file=" + otherKey}, "private key does not match", cli.ExitUsage},
		{"a certificate that has expired", []string{"--tls-cert-file=" + expired, "--tls-key-file=" + expiredKey}, "expired", cli.ExitUsage},
		{"a key without its certificate", []string{"--tls-key-file=" + notPEM}, "a certificate needs its key, and a key its certificate", cli.ExitSettings},
		{"tokens that are a folder", []string{"--auth-tokens-file=/etc"}, "--auth-tokens-file: read /etc: is not a regular file", cli.ExitUsage},
		{"issuers that are not there", []string{"--auth-oidc-file=/nowhere"}, "--auth-oidc-file: stat /nowhere: no such file", cli.ExitUsage},
		{"a policy that is not there", []string{"--auth-tokens-file=" + clitest.File(t, "tokens.yaml", "tokens: []"), "--policy-file=/nowhere"}, "--policy-file: stat /nowhere: no such file", cli.ExitUsage},
		{"an argument", []string{"now"}, `unexpected argument "now"; see setpoint serve --help`, cli.ExitSettings},
	} {
		got := run(t, "", append([]string{"serve", "--check"}, tt.args...)...)
		if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) || got.Stdout != "" {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", tt.name, got.Code, tt.code, tt.want, got.Stdout, got.Stderr)
		}
		if strings.Contains(got.Stderr, "s3cret") {
			t.Errorf("%s: it tells the password: %s", tt.name, got.Stderr)
		}
	}
}

// Revocation lists that are outdated, or of a CA that was removed, are in force as far as they can be, and worth a word.
func TestCheckWarnsOfRevocationLists(t *testing.T) {
	t.Parallel()
	cert, key := clitest.Certificate(t, t.TempDir(), time.Now().Add(time.Hour))
	ca, gone := testpki.New("clients"), testpki.New("gone")
	got := run(t, "", "serve", "--check", "--tls-cert-file="+cert, "--tls-key-file="+key,
		"--tls-client-ca-file="+clitest.File(t, "ca.crt", string(ca.CertPEM())),
		"--tls-client-crl-file="+clitest.File(t, "ca.crl", string(ca.Revoke(time.Now().Add(-time.Hour)))+string(gone.Revoke(time.Now().Add(time.Hour)))))
	for _, want := range []string{"the revocation list of CN=clients is out of date since ", "the revocation list of CN=gone is not verified"} {
		if got.Code != 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("exit code %d, want 0 and %q:\n%s", got.Code, want, got.Stderr)
		}
	}
}

// What a policy hardly wants to grant is told with its line, by --check beside the settings.
func TestCheckWarnsOfGrantsToEverybody(t *testing.T) {
	t.Parallel()
	tokens := clitest.File(t, "tokens.yaml", "tokens: []")
	for who, want := range map[string]string{
		`identities: ["*"]`:                "every caller with credentials may do everything",
		`groups: ["*"]`:                    "every caller with credentials may do everything",
		`identities: [anonymous]`:          "whoever calls without credentials may do everything",
		`identities: ["token:*"]`:          "",
		`identities: ["*"], verbs: [read]`: "",
	} {
		if !strings.Contains(who, "verbs") {
			who += `, verbs: ["*"]`
		}
		policy := clitest.File(t, "policy.yaml", "# rights\ngrants:\n  - {clusters: [demo], "+who+"}\n")
		if want != "" {
			want = policy + ":3: grants[0]: " + want
		}
		got := run(t, "", "serve", "--check", "--auth-tokens-file="+tokens, "--policy-file="+policy)
		if got.Code != 0 || !strings.HasPrefix(got.Stderr, want) || want == "" && got.Stderr != "" {
			t.Errorf("%s: exit code %d, %q, want %q", who, got.Code, got.Stderr, want)
		}
	}
}

// Callers of the policy that nobody can be are told: a name that is misspelt grants nothing, and the error comes later.
func TestCheckWarnsOfCallersThatNobodyIs(t *testing.T) {
	t.Parallel()
	tokens := clitest.File(t, "tokens.yaml", "tokens: [{identity: ci, sha256: "+strings.Repeat("12", 32)+"}]")
	issuers := clitest.File(t, "issuers.yaml", `issuers: [{issuer: "http://127.0.0.1:1", audiences: [setpoint], prefix: "corp:"}]`)
	const (
		known   = `"token:ci", "token:agent-*", "oidc:corp:alice", "oidc:c*"`
		unknown = `"token:cl", "oidc:crop:alice", "oidc:alice*", "certificate:cn:ci", anonymous`
	)
	policy := clitest.File(t, "policy.yaml", "grants: [{clusters: [demo], verbs: [read], identities: ["+known+", "+unknown+`], groups: ["oidc:corp:sre"]}]
options: [{dryRunOnly: true, groups: ["oidc:sre"]}]
limits: [{burst: 1}, {burst: 1, identities: ["*"]}, {burst: 1, identities: ["token:co"]}]
`)
	want := policy + ": nobody can be anonymous, certificate:cn:ci, oidc:alice*, oidc:crop:alice, oidc:sre, token:cl, token:co: no token has"
	got := run(t, "", "serve", "--check", "--auth-tokens-file="+tokens, "--auth-oidc-file="+issuers, "--policy-file="+policy)
	if got.Code != 0 || !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("exit code %d, %q, want %q", got.Code, got.Stderr, want)
	}
}

// Clients refuse a server's certificate that is for clients only, so --check tells of it.
func TestCheckWarnsOfACertificateForClients(t *testing.T) {
	t.Parallel()
	for usage, want := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: false, x509.ExtKeyUsageAny: false} {
		pair := testpki.New("ca").Issue("server", testpki.Usage(usage))
		got := run(t, "", "serve", "--check", "--tls-cert-file="+clitest.File(t, "tls.crt", string(pair.CertPEM())), "--tls-key-file="+clitest.File(t, "tls.key", string(pair.KeyPEM())))
		if warned := strings.Contains(got.Stderr, "its extended key usage lacks serverAuth"); got.Code != 0 || warned != want {
			t.Errorf("%v: exit code %d, %q", usage, got.Code, got.Stderr)
		}
	}
}

// Without a policy file every caller may do everything, which is told unless there are no callers to tell apart.
func TestCheckWarnsOfCallersWithoutAPolicy(t *testing.T) {
	t.Parallel()
	const want = "no policy file: every caller with credentials may do everything"
	tokens := "--auth-tokens-file=" + clitest.File(t, "tokens.yaml", "tokens: []")
	for _, args := range [][]string{{tokens}, {tokens, "--policy-file="}} {
		if got := run(t, "", append([]string{"serve", "--check"}, args...)...); got.Code != 0 || !strings.HasPrefix(got.Stderr, want) || strings.Count(got.Stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q, want %q", args, got.Code, got.Stderr, want)
		}
	}
	for _, args := range [][]string{nil, {tokens, "--policy-file=" + clitest.File(t, "policy.yaml", "grants: []")}} {
		if got := run(t, "", append([]string{"serve", "--check"}, args...)...); got.Code != 0 || got.Stderr != "" {
			t.Errorf("%v: exit code %d, %q", args, got.Code, got.Stderr)
		}
	}
}

// Settings of Redis without one are told, but for the defaults, which a whole config file has; and a tolerance that hardly
// anybody wants.
func TestCheckTellsOfOddSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--redis-timeout=9s"}, "--redis-timeout has no effect without --redis\n"},
		{[]string{"--on-store-failure=hold-down"}, "--on-store-failure has no effect without --redis\n"},
		{[]string{"--config=../../../deploy/setpoint.yaml"}, ""},
		{[]string{"--tolerance=10"}, "--tolerance: 10 is 1000 % of the target, so metrics never ask for fewer replicas; 10 % is 0.1\n"},
		{[]string{"--tolerance=999m"}, ""},
		{[]string{"--redis=redis://redis", "--redis-timeout=9s", "--on-store-failure=hold-down"}, ""},
	} {
		if got := run(t, "", append([]string{"serve", "--check"}, tt.args...)...); got.Code != 0 || got.Stderr != tt.want {
			t.Errorf("%v: exit code %d, %q, want %q", tt.args, got.Code, got.Stderr, tt.want)
		}
	}
}

// The output of --check is a config file with the same settings.
func TestWhatCheckPrintsIsAConfigFile(t *testing.T) {
	t.Parallel()
	first := run(t, "", "serve", "--check", "--max-pods=7", "--admin-address=", "--drain-timeout=90s")
	path := clitest.File(t, "setpoint.yaml", first.Stdout)
	second := run(t, "", "serve", "--check", "--config", path)
	values := func(text string) string { return strings.ReplaceAll(text, " # set", "") }
	if first.Code != 0 || second.Code != 0 || values(first.Stdout) != values(second.Stdout) {
		t.Errorf("exit codes %d and %d\n%s\n%s%s", first.Code, second.Code, first.Stdout, second.Stdout, second.Stderr)
	}
}

// Values that are not secret are shown, so that an operator sees the effective settings.
func TestCheckShowsSettingsThatAreNotSecret(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"redis://user:s3cret@a:1,b/2?master=m&addr=c:3&sentinelUser=u": "redis://xxxxx@a:1,b/2?master=m&addr=c:3&sentinelUser=xxxxx",
		"redis://a,b":            "redis://a,b",
		"redis://a?cluster=true": "redis://a?cluster=true",
		"http://collector:4317":  "http://collector:4317",
		"collector:4317":         "collector:4317",
		"/etc/a@b/tls.crt":       "/etc/a@b/tls.crt",
	} {
		if got := config.Mask(value); got != want {
			t.Errorf("%s is shown as %s, want %s", value, got, want)
		}
	}
	got := run(t, "", "serve", "--check", "--redis=redis://user:s3cret@h:1/2?master=m&sentinelPassword=s3cret")
	if want := "redis://xxxxx@h:1/2?master=m&sentinelPassword=xxxxx"; got.Code != 0 || !strings.Contains(got.Stdout, want) {
		t.Errorf("exit code %d, want %s:\n%s%s", got.Code, want, got.Stdout, got.Stderr)
	}
}
