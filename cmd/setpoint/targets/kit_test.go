package targets

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/overridecmd"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/decide"
)

// newRoot is a program of this package's commands, and of those that make and override targets.
func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{Use: "setpoint"}, append(append(Commands(), decide.Commands()...), overridecmd.New())...)
}

// run runs the command as main does.
func run(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), stdin, args...)
}
