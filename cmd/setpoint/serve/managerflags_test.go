package serve

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

func TestFlagsOfTheControllerManager(t *testing.T) {
	t.Parallel()
	clitest.TakesManagerFlags(t, newRoot, managerflags.Serve, "serve", "--check")
	clitest.HasManagerSettings(t, New(), managerflags.Serve)
}

// Invalid values are refused, even of flags without effect; a switch needs no value; and
// without such flags there is no note.
func TestFlagsOfTheControllerManagerAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--horizontal-pod-autoscaler-sync-period=often"}, cli.ExitSettings, `invalid argument "often" for "--horizontal-pod-autoscaler-sync-period"`},
		{[]string{"--horizontal-pod-autoscaler-tolerance=-1"}, cli.ExitSettings, `--tolerance: "-1"`},
		{[]string{"--horizontal-pod-autoscaler-upscale-delay=-1m"}, cli.ExitSettings, "--upscale-delay: -1m0s is negative"},
		{[]string{"--horizontal-pod-autoscaler-use-rest-clients=perhaps"}, cli.ExitSettings, `invalid argument "perhaps"`},
		{[]string{"--horizontal-pod-autoscaler-speed=1"}, cli.ExitSettings, "unknown flag: --horizontal-pod-autoscaler-speed"},
		{[]string{"--horizontal-pod-autoscaler-use-rest-clients"}, 0, "has no effect here: metrics always come from the metrics APIs"},
		{[]string{"--horizontal-pod-autoscaler-sync-period=30s"}, 0, "has no effect here: it is a setting of the agent; set it on setpoint agent kubernetes"},
		{nil, 0, ""},
	} {
		got := run(t, "", append([]string{"serve", "--check"}, tt.args...)...)
		if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) || tt.want == "" && got.Stderr != "" {
			t.Errorf("%v: exit code %d, %q", tt.args, got.Code, got.Stderr)
		}
	}
	last := run(t, "", "serve", "--check", "--tolerance=0.2", "--horizontal-pod-autoscaler-tolerance=0.3")
	if !strings.Contains(last.Stdout, `tolerance: "0.3" # set`) {
		t.Errorf("of two names the last does not count:\n%s", last.Stdout)
	}
}
