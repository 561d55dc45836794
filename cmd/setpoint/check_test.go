package main

import (
	"strings"
	"testing"
)

// What an operator may get wrong is told with the place and what to do, before anything is
// served, with exit code 2, and without secrets.
func TestConfigurationsThatCannotBe(t *testing.T) {
	t.Parallel()
	config := func(text string) string { return "--config=" + file(t, "setpoint.yaml", text) }
	notPEM := file(t, "not.pem", "nothing")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"a key that there is not", []string{config("grpc-adress: \":1\"")}, "setpoint.yaml:1: grpc-adress: no such setting, did you mean grpc-address?"},
		{"a word for a number", []string{config("\nmax-pods: many")}, "setpoint.yaml:2: max-pods: must be a whole number, is a string"},
		{"a file that is no YAML", []string{config("max-pods: 5\n  x: 3")}, "setpoint.yaml: yaml: line 2"},
		{"a file that is not there", []string{"--config=/nowhere.yaml"}, "config file: open /nowhere.yaml: no such file"},
		{"a duration without its unit", []string{"--drain-timeout=20"}, `--drain-timeout" flag: time: missing unit in duration "20"`},
		{"an address without a port", []string{"--grpc-address=9090"}, `--grpc-address: "9090" is not host:port, such as 127.0.0.1:9090`},
		{"an admin address without a port", []string{"--admin-address=9091"}, `--admin-address: "9091" is not host:port`},
		{"a port beyond all ports", []string{"--rest-address=127.0.0.1:99999"}, `--rest-address: "127.0.0.1:99999": the port must be a number from 0 to 65535`},
		{"a URL for an address", []string{"--rest-address=http://127.0.0.1:8080"}, `--rest-address: "http://127.0.0.1:8080" is not host:port`},
		{"a path for a host", []string{"--rest-address=a/b:8080"}, `"a/b" is neither an IP address nor the name of a host`},
		{"an address twice", []string{"--admin-address=127.0.0.1:9090"}, "--admin-address: 127.0.0.1:9090 is that of --grpc-address, too: each needs its own"},
		{"all interfaces without credentials", []string{"--grpc-address=:9090"}, "--grpc-address: :9090 is reachable from other machines, and callers are not asked who they are: give --auth-tokens-file"},
		{"a Redis that is no URL", []string{"--redis=redis:6379"}, "--redis: must begin with redis:// or rediss://"},
		{"a Redis of another kind", []string{"--redis=http://user:s3cret@redis:6379"}, "--redis: must begin with redis:// or rediss://"},
		{"a Redis with an odd port", []string{"--redis=redis://user:s3cret@redis:port"}, `--redis: host "redis:port": must be host or host:port`},
		{"a password for no Redis", []string{"--redis-password-file=" + notPEM}, "--redis-password-file: it is for a Redis, and none is named: give --redis"},
		{"a password that is not there", []string{"--redis=redis://redis", "--redis-password-file=/nowhere"}, "--redis-password-file: open /nowhere: no such file"},
		{"a certificate that is none", []string{"--tls-cert-file=" + notPEM, "--tls-key-file=" + notPEM}, "--tls-cert-file: certificates: " + notPEM},
		{"a key without its certificate", []string{"--tls-key-file=" + notPEM}, "a certificate needs its key, and a key its certificate"},
		{"tokens that are a folder", []string{"--auth-tokens-file=/etc"}, "--auth-tokens-file: read /etc: is not a regular file"},
		{"issuers that are not there", []string{"--auth-oidc-file=/nowhere"}, "--auth-oidc-file: stat /nowhere: no such file"},
		{"a policy that is not there", []string{"--auth-tokens-file=" + file(t, "tokens.yaml", "tokens: []"), "--policy-file=/nowhere"}, "--policy-file: stat /nowhere: no such file"},
		{"an argument", []string{"now"}, `unknown command "now" for "setpoint serve"`},
	} {
		got := run(t, "", append([]string{"serve", "--check"}, tt.args...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, tt.want) || got.stdout != "" {
			t.Errorf("%s: exit code %d, want 2 and %q:\n%s%s", tt.name, got.code, tt.want, got.stdout, got.stderr)
		}
		if strings.Contains(got.stderr, "s3cret") {
			t.Errorf("%s: it tells the password: %s", tt.name, got.stderr)
		}
	}
}

// What --check prints is a config file that says the same.
func TestWhatCheckPrintsIsAConfigFile(t *testing.T) {
	t.Parallel()
	first := run(t, "", "serve", "--check", "--max-pods=7", "--admin-address=", "--drain-timeout=90s")
	path := file(t, "setpoint.yaml", first.stdout)
	second := run(t, "", "serve", "--check", "--config", path)
	values := func(text string) string { return strings.ReplaceAll(text, " # set", "") }
	if first.code != 0 || second.code != 0 || values(first.stdout) != values(second.stdout) {
		t.Errorf("exit codes %d and %d\n%s\n%s%s", first.code, second.code, first.stdout, second.stdout, second.stderr)
	}
}
