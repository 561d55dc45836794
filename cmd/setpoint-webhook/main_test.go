package main

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	keys := clitest.File(t, "keys", "k1:0123456789abcdef0123456789abcdef\n")
	short := clitest.File(t, "short", "k1:s3cret\n")
	right := []string{"--cluster=demo", "--insecure", "--check", "--webhook-url=http://127.0.0.1:8000", "--webhook-key-file=" + keys}
	for _, tt := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"the URL is required", []string{"--webhook-url="}, "--webhook-url: is required", cli.ExitSettings},
		{"the keys are required", []string{"--webhook-key-file="}, "--webhook-key-file: is required", cli.ExitSettings},
		{"http to another machine", []string{"--webhook-url=http://scheduler"}, "--webhook-url: the URL is http to another machine", cli.ExitSettings},
		{"an admin address without a port", []string{"--admin-address=9092"}, `--admin-address: "9092" is not host:port`, cli.ExitSettings},
		{"half a certificate", []string{"--webhook-url=https://scheduler", "--webhook-tls-cert-file=cert.pem"}, "--webhook-tls-cert-file: must be given together with --webhook-tls-key-file", cli.ExitSettings},
		{"a URL with a password", []string{"--webhook-url=https://root:s3cret@scheduler"}, "--webhook-url: the URL must have no user", cli.ExitSettings},
		{"a secret that is too short", []string{"--webhook-key-file=" + short}, "at least 32 characters", cli.ExitUsage},
		{"lists that are too frequent", []string{"--list-every=1ms"}, "--list-every: 1ms is not from 1s to 10m", cli.ExitSettings},
		{"no time", []string{"--webhook-timeout=0s"}, "--webhook-timeout: 0s is not above 0", cli.ExitSettings},
		{"no targets", []string{"--max-targets=0"}, "--max-targets: 0 is not above 0", cli.ExitSettings},
		{"no pods", []string{"--max-pods=-1"}, "--max-pods: -1 is not above 0", cli.ExitSettings},
		{"no samples", []string{"--max-samples=0"}, "--max-samples: 0 is not above 0", cli.ExitSettings},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := clitest.Run(t, newRoot(), "", append(append([]string{"agent"}, right...), tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) || strings.Contains(got.Stderr, "s3cret") {
				t.Errorf("exit code %d, %q, want %q", got.Code, got.Stderr, tt.want)
			}
		})
	}
	if got := clitest.Run(t, newRoot(), "", append([]string{"agent"}, right...)...); got.Code != 0 {
		t.Errorf("exit code %d\n%s", got.Code, got.Stderr)
	}
}

func TestTheReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	committed := testpages.Read(t, "../../docs/reference/cli/setpoint-webhook.md")
	if got := clitest.Run(t, newRoot(), "", "man", "--markdown"); got.Stdout != committed {
		t.Error("docs/reference/cli/setpoint-webhook.md is out of date: run make generate")
	}
}
