package targets

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/decide"
)

// newRoot is a program of this package's commands, and of recommend, which makes targets.
func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{Use: "setpoint"}, append(Commands(), decide.Commands()...)...)
}

// run runs the command as main does.
func run(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), stdin, args...)
}
