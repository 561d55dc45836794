package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// run runs the command and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

// The committed docs are up to date with `make generate`.
func TestGeneratedDocs(t *testing.T) {
	for file, args := range map[string][]string{"cli/setpoint-nomad.md": {"man", "--markdown"}, "nomad.md": {"reference"}} {
		want := testpages.Read(t, filepath.Join("../../docs/reference", file))
		if got, err := run(t, args...); err != nil || got != want {
			t.Errorf("docs/reference/%s is out of date, %v: run make generate", file, err)
		}
	}
}

func TestCheck(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	fatal.If(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	valid := []string{"agent", "--check", "--cluster=demo", "--insecure"}
	for want, args := range map[string][]string{
		"": {"--nomad-token-file=" + token, "--nomad-address=https://nomad:4646", "--nomad-lock=setpoint/agent@ops"},
		"--nomad-address: the address \"nomad:4646\" is not of the form http://127.0.0.1:4646": {"--nomad-address=nomad:4646"},
		"--nomad-address: the address contains credentials":                                    {"--nomad-address=http://a:b@nomad"},
		"token: stat":                {"--nomad-token-file=" + token + "-absent"},
		"must be given together":     {"--nomad-tls-cert-file=" + token},
		"is empty: name a namespace": {"--nomad-namespace="},
		"25 is not from 1 to 24":     {"--statistics-concurrency=25"},
		"--nomad-lock: \"a b@c\": must be 1 to 128 characters": {"--nomad-lock=a b@c"},
		"--nomad-lock: \"a@\": must be 1 to 128":               {"--nomad-lock=a@"},
		"must be certificates in PEM":                          {"--nomad-address=https://nomad", "--nomad-tls-ca-file=" + token},
	} {
		out, err := run(t, append(append([]string{}, valid...), args...)...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
		if strings.Contains(out, "secret") {
			t.Errorf("%v: it prints the token", args)
		}
	}
}

// The variables of the command nomad set what flags don't.
func TestVariablesOfNomad(t *testing.T) {
	t.Parallel()
	environment := map[string]string{
		"NOMAD_ADDR": "https://there:4646", "NOMAD_REGION": "eu", "NOMAD_TOKEN": "secret", "NOMAD_CACERT": "ca.pem",
		"NOMAD_CLIENT_CERT": "cert.pem", "NOMAD_CLIENT_KEY": "key.pem", "NOMAD_TLS_SERVER_NAME": "server.eu.nomad", "NOMAD_NAMESPACE": "mine",
	}
	getenv := func(name string) string { return environment[name] }
	want := nomad.Config{
		Address: "https://there:4646", Region: "eu", Token: "secret",
		TLS: nomad.TLS{CAFile: "ca.pem", CertFile: "cert.pem", KeyFile: "key.pem", ServerName: "server.eu.nomad"},
	}
	same := func(what string, got, want nomad.Config) {
		t.Helper()
		if got.Address != want.Address || got.Region != want.Region || got.Token != want.Token || got.TokenFile != want.TokenFile || got.TLS != want.TLS {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	same("no flag", (&settings{}).environment(getenv), want)
	set := nomad.Config{Address: "http://here", Region: "us", TokenFile: "token", TLS: nomad.TLS{CAFile: "a", CertFile: "b", KeyFile: "c", ServerName: "d"}}
	same("flags", (&settings{config: set}).environment(getenv), set)
}
