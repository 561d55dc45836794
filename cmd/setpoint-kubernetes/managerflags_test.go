package main

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

func TestFlagsOfTheControllerManager(t *testing.T) {
	t.Parallel()
	config := clitest.File(t, "kubeconfig", kubeconfig)
	clitest.TakesManagerFlags(t, newRoot, managerflags.Agent, "agent", "--check", "--cluster=demo", "--source=hpa", "--insecure", "--kubeconfig="+config)
	clitest.HasManagerSettings(t, newAgent(), managerflags.Agent)
	wrong := run(t, "", "agent", "--check", "--cluster=demo", "--horizontal-pod-autoscaler-tolerance=much")
	if wrong.Code != cli.ExitUsage || !strings.Contains(wrong.Stderr, `invalid argument "much"`) {
		t.Errorf("exit code %d, %q", wrong.Code, wrong.Stderr)
	}
}

// A period set under the controller manager's name counts as set by the user: profiles don't
// override it.
func TestAPeriodUnderItsOtherNameIsSet(t *testing.T) {
	t.Parallel()
	cmd := newAgent()
	if err := cmd.ParseFlags([]string{"--horizontal-pod-autoscaler-sync-period=15s"}); err != nil || !cmd.Flags().Changed("sync-period") {
		t.Errorf("%v", err)
	}
}
