package trial

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/targets"
)

func TestMain(m *testing.M) { clitest.Main(m, func() { cli.Main(newRoot()) }) }

// newRoot is a program of this package's commands, and of targets, whose export they read.
func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{Use: "setpoint"}, append(Commands(), targets.Commands()...)...)
}

// run runs the command as main does.
func run(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), stdin, args...)
}
