package serve

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestHealthIsWhatTheAdminAddressSays(t *testing.T) {
	t.Parallel()
	_, admin := startWithAdmin(t)
	address := strings.TrimPrefix(admin, "http://")
	_, port, err := net.SplitHostPort(address)
	fatal.If(t, err)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			http.Error(w, "the store is away", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(away.Close)
	unready := strings.TrimPrefix(away.URL, "http://")
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"ready", []string{"--admin-address", address}, 0, ""},
		{"all interfaces are asked on one", []string{"--admin-address", ":" + port}, 0, ""},
		{"also when they are written out", []string{"--admin-address", "0.0.0.0:" + port}, 0, ""},
		{"not ready", []string{"--admin-address", unready}, cli.ExitFailed, "/readyz: 503 Service Unavailable: the store is away"},
		{"but alive", []string{"--live", "--admin-address", unready}, 0, ""},
		{"nobody there", []string{"--admin-address", "127.0.0.1:1"}, cli.ExitFailed, "connection refused"},
		{"no address", []string{"--admin-address", "here"}, cli.ExitUsage, "--admin-address: address here: missing port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"health", "--timeout=1m"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("exit code %d, stderr %q, stdout %q; want %d and %q", got.Code, got.Stderr, got.Stdout, tt.code, tt.want)
			}
		})
	}
}

func TestHealthReadsTheVariableOfTheProgramItAsks(t *testing.T) {
	_, admin := startWithAdmin(t)
	t.Setenv("SETPOINT_ADMIN_ADDRESS", strings.TrimPrefix(admin, "http://"))
	if got := run(t, "", "health", "--timeout=1m"); got.Code != 0 {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
}
