package main

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestFlagsOfTheControllerManager(t *testing.T) {
	t.Parallel()
	config := clitest.File(t, "kubeconfig", kubeconfig)
	clitest.TakesManagerFlags(t, newRoot, managerflags.Agent, "agent", "--check", "--cluster=demo", "--source=hpa", "--insecure", "--kubeconfig="+config)
	agent, _, err := newRoot().Find([]string{"agent"})
	fatal.If(t, err)
	clitest.HasManagerSettings(t, agent, managerflags.Agent)
	wrong := run(t, "", "agent", "--check", "--cluster=demo", "--horizontal-pod-autoscaler-tolerance=much")
	if wrong.Code != cli.ExitSettings || !strings.Contains(wrong.Stderr, `invalid argument "much"`) {
		t.Errorf("exit code %d, %q", wrong.Code, wrong.Stderr)
	}
}
